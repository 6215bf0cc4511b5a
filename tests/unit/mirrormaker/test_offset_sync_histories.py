"""Whatever happens between a source task and a checkpoint task: no translation skips a record.

A source task copies one partition, whose log has gaps. The target's log is made anew or loses its end;
syncs fail, wait, or find no place; tasks end and begin anew, some of them further back. A checkpoint
task that has read all syncs is then asked for every offset.

Two cases are left out. A task that is killed after it has copied into a new log and before that log's
first sync is written leaves nothing by which to see it (the simulator leaves this out, too). A log that
loses the later one of two copies of a record has lost what a group read after it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker import offset_sync_store, offset_syncs
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.offset_sync_store import OffsetSyncStore
from kmirror.mirrormaker.offset_syncs import OffsetSyncWriter
from kmirror.sim.flow_ablations import FLOW_REPLACEMENTS

T0 = TopicPartition("t", 0)
STEPS = 120


class Flow:
    """One partition at the source and at the target, the syncs between them, and who translates."""

    def __init__(self, seed: int) -> None:
        self._choices = random.Random(seed)
        gaps = self._choices.choices((1, 2, 7), (4, 1, 1), k=2 * STEPS)
        self._source = list(accumulate(gaps))
        """The offsets of the records."""
        self._next = self._copied = 0
        """The record to copy next, and how many were copied at least once."""
        self._log: list[int] = []
        """At the target: each record's offset at the source."""
        self._copies_again = self._choices.random() < 0.5
        """Whether tasks begin further back; else the target's log may lose a part of its records."""
        self._was_cut = False
        """Whether the target's log went back and not all syncs are written since then."""
        self._in_flight: list[OffsetSync] = []
        self._store = OffsetSyncStore()
        self._store.reached_end()
        self._begin_task()

    def _begin_task(self) -> None:
        self._writer = OffsetSyncWriter(self._choices.choice((0, 3, 100)), max_outstanding=self._choices.choice((1, 2, 10)))
        self._in_flight.clear()

    def run(self) -> list[str]:
        """Returns the offsets whose translation skips a record, each with what it skips."""
        for _ in range(STEPS):
            self._step()
        last = self._copied + 1
        while self._next <= last:
            self._copy()
        self._write_all()
        return self._skipped()

    def _step(self) -> None:
        event = self._choices.random()
        if event < 0.6:
            self._copy()
        elif event < 0.75:
            self._answer(failed=self._choices.random() < 0.3)
        elif event < 0.83:
            self._in_flight += self._writer.commit()
        elif event < 0.9:
            del self._log[0 if self._copies_again else self._choices.choice((0, len(self._log) // 2)) :]
            self._was_cut = True
        else:
            self._restart()

    def _copy(self) -> None:
        upstream = self._source[self._next]
        self._copied = max(self._copied, self._next)
        self._next += 1
        self._log.append(upstream)
        self._in_flight += self._writer.record_acknowledged(T0, upstream, len(self._log) - 1)

    def _answer(self, *, failed: bool) -> None:
        if not self._in_flight:
            return
        sync = self._in_flight.pop(0)
        self._writer.sync_done(sync, failed=failed)
        if not failed:
            self._store.handle_sync(sync)

    def _restart(self) -> None:
        if self._was_cut:
            self._copy()
            self._write_all()
        elif self._copies_again:
            self._next = max(0, self._next - self._choices.choice((0, 1, 5)))
        self._begin_task()

    def _write_all(self) -> None:
        self._in_flight += self._writer.commit()
        while self._in_flight:
            self._answer(failed=False)
            self._in_flight += self._writer.send_pending()
        self._was_cut = False

    def _skipped(self) -> list[str]:
        last_position = {upstream: position for position, upstream in enumerate(self._log)}
        found = []
        for group_at in range(self._source[self._copied] + 3):
            goes_on_at = self._store.translate_downstream(T0, group_at)
            skipped = [upstream for upstream, at in last_position.items() if upstream >= group_at and at < (goes_on_at or 0)]
            if skipped:
                found.append(f"a group at {group_at} goes on at {goes_on_at} and skips {skipped}")
        return found


@given(st.integers(0, 2**32))
def test_os1_to_os6_no_translation_skips_a_record(seed: int) -> None:
    assert not Flow(seed).run()


Patch = pytest.MonkeyPatch


def replace_first_of_logs(patch: Patch) -> None:
    """As Kafka: a newer pair takes the place of the one that waits, and a failed one is forgotten."""
    for owner, name, replaced in FLOW_REPLACEMENTS["first_of_logs_kept"]:
        patch.setattr(owner, name, replaced(getattr(owner, name)))


def forget_failed(patch: Patch) -> None:
    patch.setattr(offset_syncs._FirstOfLogs, "send_failed_again", lambda self: None)


def take_an_equal_offset_for_the_same_log(patch: Patch) -> None:
    patch.setattr(offset_sync_store, "_is_of_another_log", lambda sync, before: sync.downstream_offset < before.downstream_offset)


@pytest.mark.parametrize("switch_off", [replace_first_of_logs, forget_failed, take_an_equal_offset_for_the_same_log])
def test_without_a_safeguard_a_translation_skips_a_record(monkeypatch: Patch, switch_off: Callable[[Patch], None]) -> None:
    switch_off(monkeypatch)
    assert any(Flow(seed).run() for seed in range(300))
