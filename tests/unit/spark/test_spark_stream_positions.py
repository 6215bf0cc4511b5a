"""Positions of a stream and what changed logs mean for them; limits per trigger.

No file, no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from kmirror.spark.stream_limits import Backlog, admit
from kmirror.spark.stream_positions import (
    CheckpointEpochs,
    LogState,
    Position,
    added,
    from_json,
    range_between,
    resume,
    spread,
    to_json,
)
from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry

NAME = TopicPartition("t", 0)


@dataclass
class ModelLog:
    """A log as a list: of each offset its leader epoch and a number that no other record has."""

    epoch: int = 0
    start: int = 0
    written: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)

    def do(self, step: tuple[str, int]) -> None:
        kind, count = step
        if kind == "append":
            for _ in range(count):
                self.written += 1
                self.records.append((self.epoch, self.written))
        elif kind == "lead":
            self.epoch += count
        elif kind == "cut":
            del self.records[max(len(self.records) - count, self.start) :]
            self.epoch += 1
        else:
            self.start = min(self.start + count, len(self.records))

    def state(self) -> LogState:
        entries: list[EpochEntry] = []
        for offset in range(self.start, len(self.records)):
            if not entries or entries[-1].epoch != self.records[offset][0]:
                entries.append(EpochEntry(self.records[offset][0], offset))
        end = len(self.records)
        return LogState(self.start, end, end, CheckpointEpochs(entries, end))


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "lead", "cut", "delete"]), st.integers(1, 6)),
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS, st.integers(0, 40))
def test_a_position_resumes_where_the_log_parts_with_what_was_read(
    before: list[tuple[str, int]], after: list[tuple[str, int]], at: int
) -> None:
    log = ModelLog()
    log.do(("append", 3))
    for step in before:
        log.do(step)
    offset = max(min(at, len(log.records)), log.start)
    position, read = log.state().position(offset), log.records[:offset]
    for step in after:
        log.do(step)
    same = next((row for row, (old, new) in enumerate(zip(read, log.records)) if old != new), min(len(read), len(log.records)))
    resumed = resume(NAME, position, log.state())
    if position.epoch < 0:
        return  # nothing of the log in front of the position was there to tell an epoch
    assert resumed.offset == max(same, log.start)
    has_evidence = log.start != offset  # or what was written anew in front of the position was deleted since, exactly
    assert (resumed.loss is None) == (not has_evidence or (same == offset and log.start < offset)), resumed.loss


def test_positions_are_json_in_a_fixed_order() -> None:
    positions = {
        TopicPartition("u", 0): Position(4, 1, "x" * 22),
        TopicPartition("t", 10): Position(3),
        TopicPartition("t", 9): Position(7, 2),
    }
    made = to_json(positions)
    assert list(made) == ["t", "u"] and list(made["t"]) == ["9", "10"]
    assert made["u"] == {"0": {"offset": 4, "leaderEpoch": 1, "topicId": "x" * 22}}
    assert from_json(made) == positions
    assert from_json({"t": {"0": 12}}) == {NAME: Position(12)}
    for other in ({"logOffset": 3}, {"t": {"0": {"offset": 1}}}, {"t": {"zero": 1}}, None, 3, {"t": {"0": None}}):
        with pytest.raises(KmirrorError, match="the checkpoint is of another source"):
            from_json(other)


def test_a_batch_that_the_log_no_longer_has_is_what_is_left_of_it() -> None:
    log = LogState(5, 40, 40, CheckpointEpochs([EpochEntry(1, 5), EpochEntry(3, 20)], 40))
    assert range_between(NAME, Position(10, 1), Position(15, 1), log) == (10, 15, [])
    low, end, losses = range_between(NAME, Position(10, 1), Position(30, 2), log)
    assert (low, end) == (10, 20) and losses[0].startswith(
        "t-0 was truncated: offset 30 was next, behind leader epoch 2, but epoch 2 ends at offset 20"
    )
    low, end, losses = range_between(NAME, Position(0, 1), Position(10, 1), log)
    assert (low, end) == (5, 10) and losses[0].startswith("offsets 0 to 4 of t-0 were deleted before they were read")
    assert range_between(NAME, None, Position(10, 1), log).losses == ["t-0 is new here and begins at offset 5 instead of 0"]
    assert range_between(NAME, Position(30, 2), Position(20, 1), log)[:2] == (20, 20), "a step back reads nothing"
    assert added(NAME, LogState(0, 0, 0, CheckpointEpochs([], 0))) == (0, None)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 200), st.lists(st.integers(0, 60), max_size=8))
def test_shares_are_as_even_as_they_can_be(budget: int, needs: list[int]) -> None:
    shares = spread(budget, needs)
    assert sum(shares) == min(budget, sum(needs))
    assert all(share <= need for share, need in zip(shares, needs))
    unmet = [share for share, need in zip(shares, needs) if share < need]
    assert all(share <= min(unmet) + 1 for share in shares) if unmet else shares == needs


class ModelWindow:
    """Batches as (offsets, bytes), one after the other."""

    def __init__(self, low: int, batches: list[tuple[int, int]]) -> None:
        self.low = low
        self.batches = batches

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.batches)

    def _ends(self) -> list[tuple[int, int]]:
        ends, offset, size = [(self.low, 0)], self.low, 0
        for count, more in self.batches:
            offset, size = offset + count, size + more
            ends.append((offset, size))
        return ends

    def first_batch_end(self) -> int:
        return self._ends()[1][0]

    def end_by_offsets(self, count: int) -> int:
        return max(offset for offset, _ in self._ends() if offset - self.low <= count)

    def end_by_bytes(self, size: int) -> int:
        return max(offset for offset, total in self._ends() if total <= size)

    def up_to(self, end: int) -> ModelWindow:
        count = [offset for offset, _ in self._ends()].index(end)
        return ModelWindow(self.low, self.batches[:count])


BATCHES = st.lists(st.tuples(st.integers(1, 9), st.integers(61, 500)), max_size=8)
LIMIT = st.one_of(st.none(), st.integers(1, 3000))


@settings(max_examples=100, deadline=None)
@given(st.lists(BATCHES, min_size=1, max_size=6), LIMIT, LIMIT)
def test_a_trigger_keeps_its_limits_but_for_one_batch_and_comes_to_an_end(
    logs: list[list[tuple[int, int]]], max_offsets: int | None, max_bytes: int | None
) -> None:
    lows, waiting = [0] * len(logs), {}
    for _ in range(1 + sum(map(len, logs))):
        windows = [ModelWindow(low, batches) for low, batches in zip(lows, logs)]
        backlogs = [
            Backlog(TopicPartition("t", row), one.low, one.low + sum(count for count, _ in one.batches), one)
            for row, one in enumerate(windows)
        ]
        ends = admit(backlogs, max_offsets=max_offsets, max_bytes=max_bytes, waiting=waiting)
        taken = [one.up_to(ends[backlog.name]) for backlog, one in zip(backlogs, windows)]
        counts = [len(one.batches) for one in taken]
        if sum(counts) > 1:
            assert max_offsets is None or sum(count for one in taken for count, _ in one.batches) <= max_offsets
            assert max_bytes is None or sum(one.size_bytes for one in taken) <= max_bytes
        assert sum(counts) or not any(logs), "it moves"
        waiting = {
            backlog.name: waiting.get(backlog.name, 0) + 1
            for backlog, count, batches in zip(backlogs, counts, logs)
            if batches and not count
        }
        lows = [ends[backlog.name] for backlog in backlogs]
        logs = [batches[count:] for batches, count in zip(logs, counts)]
    assert not any(logs)


def test_nobody_waits_for_ever_behind_a_limit_of_one_batch() -> None:
    left, lows, waiting, order = [4, 4, 4], [0, 0, 0], {}, []
    for _ in range(12):
        backlogs = [
            Backlog(TopicPartition("t", row), lows[row], lows[row] + 5 * left[row], ModelWindow(lows[row], [(5, 100)] * left[row]))
            for row in range(3)
        ]
        ends = admit(backlogs, max_offsets=1, max_bytes=None, waiting=waiting)
        (moved,) = [row for row in range(3) if ends[TopicPartition("t", row)] != lows[row]]
        order.append(moved)
        waiting = {TopicPartition("t", row): waiting.get(TopicPartition("t", row), 0) + 1 for row in range(3) if row != moved}
        lows[moved] += 5
        left[moved] -= 1
    assert sorted(order[:3]) == sorted(order[3:6]) == [0, 1, 2]
