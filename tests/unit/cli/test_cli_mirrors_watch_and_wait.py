"""What `kafka-mirrors --watch` shows, until when `--wait` waits, where `--verify --sample` looks:
without clusters.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription
from kmirror.cli import mirrors_wait
from kmirror.cli.mirrors_source import SourceEnd
from kmirror.cli.mirrors_verify_sample import Range, sample_of
from kmirror.cli.mirrors_wait import Deadline, MirrorWaiter, NotFinishedError
from kmirror.cli.mirrors_watch import CLEAR, MirrorWatch
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import run

T0 = TopicPartition("t", 0)


def row(offset: int, state: str = "MIRRORING", *, partition: int = 0, source: int = 100) -> MirrorPartitionDescription:
    return MirrorPartitionDescription("t", partition, source, offset, max(0, source - offset), state, -1)


def mirror(*rows: MirrorPartitionDescription) -> list[MirrorDescription]:
    return [MirrorDescription("m", list(rows))]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_piped_watch_prints_a_line_for_what_changed() -> None:
    out = io.StringIO()
    watch = MirrorWatch(out, as_json=False)
    watch.looked(0, mirror(row(10), row(5, partition=1)), None)
    watch.looked(1_000, mirror(row(40), row(5, partition=1)), None)
    watch.looked(2_000, mirror(row(40), row(5, partition=1)), None)
    assert out.getvalue().splitlines() == [
        "00:00:00.000 m t-0 MIRRORING source 100 destination 10 lag 90 rate -",
        "00:00:00.000 m t-1 MIRRORING source 100 destination 5 lag 95 rate -",
        "00:00:01.000 m t-0 MIRRORING source 100 destination 40 lag 60 rate 30.0",
    ]


def test_piped_watch_says_once_that_nobody_answers_and_when_somebody_does() -> None:
    out = io.StringIO()
    watch = MirrorWatch(out, as_json=False)
    watch.looked(0, mirror(row(10)), None)
    for now_ms in (1_000, 2_000):
        watch.failed(now_ms, "no broker could be reached")
    watch.looked(3_000, mirror(row(10)), None)
    assert out.getvalue().splitlines()[1:] == [
        "00:00:01.000 no answer: no broker could be reached",
        "00:00:03.000 the cluster answers again",
    ]


def test_a_terminal_gets_one_table_in_its_place() -> None:
    out = Terminal()
    watch = MirrorWatch(out, as_json=False)
    watch.looked(0, mirror(row(10), row(5, "PAUSED", partition=1)), None)
    watch.looked(500, mirror(row(20), row(5, "PAUSED", partition=1)), {("m", T0): SourceEnd(100, 90, 1_234)})
    first, second = out.getvalue().split(CLEAR)[1:]
    assert first.splitlines()[0] == "00:00:00.000  2 partition(s): 1 MIRRORING, 1 PAUSED; lag 185; 0.0 offsets/s"
    assert second.splitlines()[0].endswith("lag 175; 20.0 offsets/s")
    assert second.splitlines()[2].split()[-5:] == ["90", "1234", "-", "-", "-"]


def test_a_terminal_that_is_too_small_shows_the_worst() -> None:
    out = Terminal()
    watch = MirrorWatch(out, as_json=False, size=lambda: os.terminal_size((80, 7)))
    rows = [row(100 - number, partition=number) for number in range(9)] + [row(100, "FAILED", partition=9)]
    watch.looked(0, mirror(*rows), None)
    lines = out.getvalue().splitlines()
    assert [line.split()[2] for line in lines[2:5]] == ["7", "8", "9"] and lines[5] == "... and 7 more"
    assert lines[0].endswith("10 partition(s): 1 FAILED, 9 MIRRORING; lag 36; 0.0 offsets/s")
    assert lines[2] == "m      t     7         100           93                 7   MIRRORING", "80 columns are enough"


def test_on_a_narrow_terminal_wrapped_rows_pushed_the_headline_out_of_it() -> None:
    out, sizes = Terminal(), [(80, 9), (30, 9)]
    watch = MirrorWatch(out, as_json=False, size=lambda: os.terminal_size(sizes[0]))
    watch.looked(0, mirror(*[row(10, partition=number) for number in range(9)]), None)
    del sizes[0]
    watch.looked(1_000, mirror(*[row(10, partition=number) for number in range(9)]), None)
    wide, narrow = (part.splitlines() for part in out.getvalue().split(CLEAR)[1:])
    assert (len(wide), wide[-1]) == (8, "... and 4 more")
    assert (len(narrow), narrow[-1]) == (5, "... and 7 more"), "two lines a row, the header too; the size is that of the moment"


def test_json_watch_is_a_line_a_look() -> None:
    out = Terminal()
    watch = MirrorWatch(out, as_json=True)
    watch.looked(7, mirror(row(10)), {("m", T0): SourceEnd(100, 90, 5)})
    watch.failed(8, "gone")
    look, failure = (json.loads(line) for line in out.getvalue().splitlines())
    assert look["timestampMs"] == 7
    assert [(part["destinationOffset"], part["sourceLastStableOffset"], part["timeLagMs"]) for part in look["partitions"]] == [(10, 90, 5)]
    assert failure == {"timestampMs": 8, "error": "gone"}


class Clusters:
    """Destination and source of a script: each look at the destination takes the next of `looks`,
    rows or an error.
    """

    def __init__(self, looks: Iterable[Any], ends: Iterable[int] = ()) -> None:
        self.looks = list(looks)
        self.ends = list(ends)
        self.clock = self
        self.now = 0.0

    def monotonic_ms(self) -> float:
        return self.now

    async def sleep_ms(self, delay_ms: float) -> None:
        self.now += delay_ms

    async def describe_mirrors(self, names: list[str], options: object) -> dict[str, MirrorDescription]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return {"m": MirrorDescription("m", list(look))}


def waiter(clusters: Any, timeout_ms: int = 10_000) -> MirrorWaiter:
    return MirrorWaiter(clusters, "m", ["t"], Deadline(clusters, timeout_ms), lambda done, total, text: None)


def drained(monkeypatch: pytest.MonkeyPatch, clusters: Any, timeout_ms: int = 10_000) -> dict[TopicPartition, SourceEnd]:
    async def ends(source: Any, rows: Iterable[MirrorPartitionDescription]) -> dict[TopicPartition, SourceEnd]:
        end = source.ends.pop(0) if len(source.ends) > 1 else source.ends[0]
        if isinstance(end, Exception):
            raise end
        return {TopicPartition(part.topic, part.partition): SourceEnd(end + 3, end) for part in rows}

    monkeypatch.setattr(mirrors_wait, "source_ends", ends)
    return run(lambda _: waiter(clusters, timeout_ms).until_drained(clusters))


def test_drained_is_level_with_the_sources_stable_offset_which_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind, level once while the source moves on, level again: only then.

    Its high watermark may lie further.
    """
    clusters = Clusters([[row(80)], [row(100)], [row(101)], [row(101)]], [99, 100, 101, 101])
    assert drained(monkeypatch, clusters) == {T0: SourceEnd(104, 101)}
    assert clusters.now == 3 * mirrors_wait.POLL_INTERVAL_MS


def test_a_source_that_is_written_to_is_never_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = Clusters([[row(offset)] for offset in range(100, 300)], list(range(100, 300)))
    with pytest.raises(NotFinishedError, match="not finished after 2000 ms: the source is still written to"):
        drained(monkeypatch, clusters, 2_000)


def test_brokers_that_come_back_only_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, moving = NoBrokerError("no broker"), ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    clusters = Clusters([[row(100)], gone, moving, [row(100)]], [100, NoBrokerError("source"), moving, 100])
    assert drained(monkeypatch, clusters)[T0].last_stable_offset == 100


def test_a_source_that_stays_away_is_what_the_wait_ends_with(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = Clusters([[row(100)]], [NoBrokerError("connection refused")])
    with pytest.raises(NotFinishedError, match="the source cannot be asked: connection refused"):
        drained(monkeypatch, clusters)


@pytest.mark.parametrize(("state", "offset"), [("FAILED", 100), ("PAUSED", 80)])
def test_what_cannot_come_ends_the_wait_at_once(monkeypatch: pytest.MonkeyPatch, state: str, offset: int) -> None:
    clusters = Clusters([[row(offset, state)]], [100])
    with pytest.raises(KmirrorError, match=f"t-0 is {state}: it will not catch up; .*fail over without --wait"):
        drained(monkeypatch, clusters)
    assert clusters.now == 0


def test_a_paused_partition_that_lacks_nothing_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drained(monkeypatch, Clusters([[row(100, "PAUSED")]], [100])) == {T0: SourceEnd(103, 100)}


class GrownSource:
    """Topic `t` has two partitions of 100 offsets, and no other topic is there."""

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {"t": SimpleNamespace(partitions=[0, 1])} if "t" in names else {}

    async def list_offsets(self, names: Iterable[TopicPartition], **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(names, 100)


def test_a_drain_did_not_see_partitions_that_are_at_the_source_only() -> None:
    """The topic has grown there and the mirror has not yet, or a partition has no leader here: what
    is in it was given up as if it were there.
    """
    clusters = Clusters([[row(100)]])
    with pytest.raises(NotFinishedError, match="not finished after 2000 ms: t-1 is not there"):
        run(lambda _: waiter(clusters, 2_000).until_drained(GrownSource()))  # type: ignore[arg-type]
    clusters = Clusters([[row(100)], [row(100)], [row(100), row(0, "PREPARING", partition=1)], [row(100), row(100, partition=1)]])
    ends = run(lambda _: waiter(clusters).until_drained(GrownSource()))  # type: ignore[arg-type]
    assert len(ends) == 2 and clusters.now == 3 * mirrors_wait.POLL_INTERVAL_MS


def test_a_partition_without_a_leader_was_waited_for_as_if_nothing_were_reported() -> None:
    with pytest.raises(NotFinishedError, match=r"ms: 1 of 2 partition\(s\) are not reported"):
        run(lambda _: waiter(Clusters([[row(1, "STOPPED")]])).until_state("STOPPED", partitions=2))


def test_a_state_is_reached_when_all_partitions_are_there() -> None:
    """A mirror that was just made is not known to every broker at once."""
    clusters = Clusters(
        [ApiException(Errors.UNKNOWN_MIRROR), [row(1)], [row(1), row(1, "PREPARING", partition=1)], [row(1), row(1, partition=1)]]
    )
    rows = run(lambda _: waiter(clusters).until_state("MIRRORING", partitions=2))
    assert len(rows) == 2 and clusters.now == 3 * mirrors_wait.POLL_INTERVAL_MS


def test_a_state_that_a_failed_partition_will_not_reach() -> None:
    with pytest.raises(KmirrorError, match="t-0 FAILED"):
        run(lambda _: waiter(Clusters([[row(1, "FAILED")]])).until_state("MIRRORING"))
    with pytest.raises(NotFinishedError, match="t-0 is STOPPING"):
        run(lambda _: waiter(Clusters([[row(1, "STOPPING")]])).until_state("STOPPED"))


def test_a_failed_partition_that_was_removed_is_on_its_way() -> None:
    """Its leader reads of the removal a moment later: FAILED -> STOPPING -> STOPPED (D3-21)."""
    clusters = Clusters([[row(1, "FAILED")], [row(1, "STOPPING")], [row(1, "STOPPED")]])
    assert len(run(lambda _: waiter(clusters).until_state("STOPPED"))) == 1


@pytest.mark.parametrize(
    ("start", "end", "count", "expected"),
    [
        (0, 100, 3, [Range(0, 100)]),
        (0, 10_000, 1, [Range(9_000, 10_000)]),
        (0, 10_000, 3, [Range(0, 1_000), Range(4_500, 5_500), Range(9_000, 10_000)]),
        (5, 5, 3, [Range(5, 5)]),
    ],
)
def test_samples_are_spread_from_the_first_to_the_last_offset(start: int, end: int, count: int, expected: list[Range]) -> None:
    assert sample_of(start, end, count) == expected
