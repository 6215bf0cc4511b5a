"""`kafka-mirrors --verify`: it said "equal" of logs whose fronts it had not looked at."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.admin_double import REFUSED, AdminDouble, LogDouble
from support.mirrors.scripted_source import batch

from kmirror.admin.results import MirrorDescription, MirrorPartitionDescription
from kmirror.cli.mirrors import build_parser
from kmirror.cli.mirrors_verify import Ask, PartitionChecker, RunState, not_reported
from kmirror.cli.mirrors_verify_text import verdict_line
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.verify.log_diff import no_progress
from kmirror.verify.verdict import PartitionVerdict, Status

T0 = TopicPartition("t", 0)
TEN = [batch(offset, b"a", b"b") for offset in range(0, 20, 2)]
HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000 + HOUR_MS * 24 * 365


def verify(source: AdminDouble, mirror: AdminDouble, *more: str, state: str = "MIRRORING", epoch: int = 0) -> tuple[PartitionVerdict, str]:
    options = build_parser().parse_args(["--bootstrap-server", "a:1", "--verify", "--mirror", "m", *more])
    runtime = SimpleNamespace(clock=SimpleNamespace(time_ms=lambda: NOW_MS), sleep_ms=lambda _: asyncio.sleep(0))
    mirror.mirrors = {"m": []}

    async def source_of(*_: object) -> Any:
        return source

    clients: Any = SimpleNamespace(options=options, runtime=runtime, admin=mirror, source=source_of)
    with asyncio.Runner() as runner:
        row = MirrorPartitionDescription("t", 0, 20, 20, 0, state, epoch)
        state_of_run = RunState()
        state_of_run.retries_left = 0
        found = PartitionChecker(Ask(runner.run), clients, "m", row, state_of_run).verdict(no_progress)
    return found, verdict_line(found)


def cluster(batches: list[bytes], start: int = 0, **configs: str) -> AdminDouble:
    policy = {"cleanup.policy": "delete"} | {name.replace("_", "."): value for name, value in configs.items()}
    return AdminDouble({T0: LogDouble(batches, start)}, configs=policy)


@pytest.mark.parametrize("state", ["MIRRORING", "PAUSED", "STOPPED"])
def test_a_mirror_without_its_front_was_equal(state: str) -> None:
    found, text = verify(cluster(TEN), cluster(TEN, 6), state=state)
    assert found.status is Status.DIFFERENT and found.difference_counts == {"front-missing": 1}
    assert text == (
        "t-0: different: 6 record(s) at offsets 0 to 5 are only at the source (why is not known) "
        "(missing at the front: 1) (source: 0 to 19, mirror: 6 to 19)"
    )


def test_an_empty_mirror_of_a_full_source_had_nothing_to_compare() -> None:
    found, text = verify(cluster(TEN), cluster([], 20))
    assert found.status is Status.DIFFERENT
    assert "20 record(s) at offsets 0 to 19 are only at the source" in text and "mirror: none, it ends at 20" in text


def test_what_only_the_mirror_has_was_not_told() -> None:
    """It will follow its source's log start: that is no difference."""
    found, text = verify(cluster(TEN, 6), cluster(TEN))
    assert found.status is Status.EQUAL
    assert text.startswith("t-0: equal, offsets 6 to 19,") and "6 record(s) at offsets 0 to 5 are only at the mirror" in text


@pytest.mark.parametrize(
    ("start", "configs", "why"),
    [
        (6, {"retention_ms": str(HOUR_MS)}, "retention at the mirror: they are older than its retention.ms=3600000"),
        (6, {"retention_ms": "-1"}, "why is not known"),
        (5, {}, "DeleteRecords at the mirror: its log start lies inside a batch"),
        (6, {"cleanup_policy": "compact"}, "DeleteRecords at the mirror: cleanup.policy=compact has no retention"),
    ],
)
def test_why_the_front_is_gone(start: int, configs: dict[str, str], why: str) -> None:
    _, text = verify(cluster(TEN), cluster(TEN, start, **configs))
    assert f"{start} record(s) at offsets 0 to {start - 1} are only at the source ({why})" in text


def test_markers_and_holes_at_the_front_are_no_records() -> None:
    reset = bytearray(build_mirror_pid_reset("x", timestamp=0))
    found, _ = verify(cluster([bytes(reset), batch(3, b"a")]), cluster([batch(3, b"a")], 3))
    assert found.status is Status.EQUAL


def test_both_sides_lack_a_front_but_not_the_same() -> None:
    found, text = verify(cluster(TEN, 4), cluster(TEN, 10))
    assert found.status is Status.DIFFERENT and "6 record(s) at offsets 4 to 9" in text and "source: 4 to 19" in text


def test_a_stopped_partition_that_never_mirrored_owes_its_source_nothing() -> None:
    found, _ = verify(cluster(TEN), cluster(TEN, 6), state="STOPPED", epoch=-1)
    assert found.status is Status.EQUAL


def test_after_a_failover_only_the_mirrored_part_counts() -> None:
    """The source went on by itself behind the mirrored part; that is not the mirror's front."""
    own = [batch(4, b"own", epoch=1)]
    found, text = verify(cluster(TEN), cluster([*TEN[:2], *own], 5), state="STOPPED")
    assert found.status is Status.DIFFERENT and "4 record(s) at offsets 0 to 3" in text


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (AdminDouble(away=REFUSED), "Connection refused"),
        (AdminDouble(), "the source does not have it"),
        (AdminDouble({T0: LogDouble(TEN)}, silent_starts=True), "authoriz"),
    ],
)
@pytest.mark.parametrize("mirror", [cluster(TEN), cluster([], 20)], ids=["full", "empty"])
def test_what_cannot_be_asked_is_not_equal(source: AdminDouble, mirror: AdminDouble, why: str) -> None:
    """An empty mirror was equal whatever its source had: the source was not asked."""
    found, text = verify(source, mirror)
    assert found.status is Status.ERROR and text.startswith("t-0: could not be compared: ")
    assert why in text.lower() or why in text


def test_a_sample_claimed_the_whole_range() -> None:
    many = [batch(offset, *[b"x"] * 100) for offset in range(0, 10_000, 100)]
    found, text = verify(cluster(many), cluster(many, 500), "--sample", "2")
    assert found.status is Status.DIFFERENT
    assert "records, not counted, at offsets 0 to 499 are only at the source (not read, because of --from or --sample)" in text
    _, text = verify(cluster(many), cluster(many), "--sample", "2")
    assert text.startswith("t-0: equal, 2000 of the offsets 0 to 9999, ")
    _, text = verify(cluster(many), cluster(many), "--sample", "1")
    assert text.startswith("t-0: equal, offsets 9000 to 9999, ")


def test_from_behind_the_front_speaks_of_what_it_compared() -> None:
    found, text = verify(cluster(TEN), cluster(TEN, 6), "--from", "10")
    assert found.status is Status.EQUAL and text.startswith("t-0: equal, offsets 10 to 19,")
    assert "at offsets 0 to 5 are only at the source" in text


def keyed(offset: int, value: bytes) -> bytes:
    return bytes(build_batch([Record(offset, NOW_MS, b"k", value)], base_offset=offset, partition_leader_epoch=0))


def test_the_mirrors_own_cleaner_was_excused() -> None:
    """Only the source's policy can excuse a hole (A1 e)."""
    full = [keyed(offset, b"v") for offset in range(6)]
    holes = [full[0], *full[3:]]
    found, _ = verify(cluster(full), cluster(holes, cleanup_policy="compact"))
    assert found.status is Status.DIFFERENT
    found, _ = verify(cluster(full, cleanup_policy="compact"), cluster(holes))
    assert found.status is Status.EQUAL


@pytest.mark.parametrize(("state", "count"), [("MIRRORING", 1), ("STOPPED", 0)])
def test_a_partition_that_only_the_source_has_was_not_missed(state: str, count: int) -> None:
    source = AdminDouble({T0: LogDouble(TEN), TopicPartition("t", 1): LogDouble(TEN)})
    mirror = AdminDouble({T0: LogDouble(TEN)}, mirrors={"m": []})

    async def source_of(*_: object) -> Any:
        return source

    clients: Any = SimpleNamespace(admin=mirror, source=source_of)
    rows = [MirrorPartitionDescription("t", 0, 20, 20, 0, state, 0)]
    found = asyncio.run(not_reported(clients, MirrorDescription("m", rows)))
    assert len(found) == count
    for one in found:
        assert verdict_line(one) == ("t-1: could not be compared: no broker of the mirror reports it, and the source's log ends at 20")
