"""`kafka-mirrors --dry-run`: "nothing would be dropped" stood above 300 records that were then
deleted on both clusters. Without clusters.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable
from typing import Any

import pytest
from support.mirrors.admin_double import AdminDouble, LogDouble
from support.mirrors.scripted_source import batch

from kmirror.admin.results import ConfigResourceType, MirrorPartitionDescription
from kmirror.cli import mirrors_dry_run
from kmirror.cli.mirrors_dry_run_text import loss_rows, loss_text
from kmirror.cli.mirrors_fronts import compare_retention
from kmirror.cli.mirrors_losses import DroppedRecords, LastKnownLag, OffsetRange, total_text
from kmirror.cli.mirrors_source import SourceEnd
from kmirror.cli.mirrors_truncation import TruncationLimits, truncation_limits
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.record.record_batch import RecordBatch
from kmirror.runtime.asyncio_runtime import run

T0 = TopicPartition("t", 0)
TEN = [batch(offset, b"a", b"b") for offset in range(0, 20, 2)]
OLD, NEW = "old source", "new source"


def cluster(batches: list[bytes], start: int = 0, *, cluster_id: str = OLD) -> Any:
    return AdminDouble({T0: LogDouble(batches, start)}, cluster_id)


def new_source(batches: list[bytes], start: int = 0, *, epoch: int = 0, state: str = "STOPPED") -> Any:
    found = cluster(batches, start, cluster_id=NEW)
    found.mirrors = {"m": [MirrorPartitionDescription("t", 0, 20, 20, 0, state, epoch)]}
    found.source_cluster_ids = {"m": OLD}
    return found


def one(asked: Awaitable[list[DroppedRecords]]) -> DroppedRecords:
    async def main(_: object) -> list[DroppedRecords]:
        return await asked

    (found,) = run(main)
    return found


def failback(
    here: Any, there: Any, limits: TruncationLimits | None = None, states: dict[TopicPartition, str] | None = None
) -> DroppedRecords:
    return one(mirrors_dry_run.failback_loss(here, there, "m", [T0], limits, states))


def test_a_failback_did_not_count_what_the_new_source_had_deleted() -> None:
    found = failback(cluster(TEN), new_source(TEN, 12))
    assert (found.dropped_count, found.record_count) == (12, 0)
    assert loss_text([found]) == (
        "t-0: 12 record(s) at offsets 0 to 11 would be dropped at the front: the source begins later "
        "(log end 20, log start 0, source: offsets 12 to 19; nothing differs from the source)"
    )
    (row,) = loss_rows([found])
    assert (row["droppedRecords"], row["frontRecords"], row["cutOffset"]) == (12, 12, 20)


def test_front_and_end_go_together() -> None:
    own = [*TEN, batch(20, b"x", epoch=1), batch(21, b"y", epoch=1)]
    found = failback(cluster(own), new_source(TEN, 12))
    assert (found.dropped_count, found.record_count) == (14, 2)
    assert "2 record(s) at offsets 20 to 21 would be dropped" in loss_text([found])
    assert "  at the front, 12 record(s) at offsets 0 to 11 would be dropped" in loss_text([found]).splitlines()


def test_a_log_that_is_dropped_whole_has_no_front_of_its_own() -> None:
    found = failback(cluster(TEN), new_source([batch(40, b"z", epoch=3)], 40))
    assert found.dropped_count == 20 == found.record_count and found.front is None


@pytest.mark.parametrize(("start", "count"), [(13, 13), (1, 1), (20, 20), (0, 0)])
def test_a_start_inside_a_batch_never_promises_less(start: int, count: int) -> None:
    assert failback(cluster(TEN), new_source(TEN, start)).dropped_count == count


def test_more_than_the_limit_at_the_front_makes_it_failed() -> None:
    found = failback(cluster(TEN), new_source(TEN, 12), TruncationLimits(11))
    assert found.dropped_count == 0
    assert found.reason == (
        "the source begins at 12, so 12 record(s) that are kept here would go at the front: "
        "it is FAILED and keeps them, unless --accept-truncation is given"
    )
    assert failback(cluster(TEN), new_source(TEN, 12), TruncationLimits(12)).dropped_count == 12
    assert failback(cluster(TEN), new_source(TEN, 12), TruncationLimits(-1)).dropped_count == 12


@pytest.mark.parametrize(
    ("limit", "epoch", "dropped"), [(19, 0, 0), (20, 0, 20), (-1, 0, 20), (19, -1, 20)], ids=["more", "as many", "none", "never mirrored"]
)
def test_a_log_that_is_kept_whole_was_said_to_be_dropped_whole(limit: int, epoch: int, dropped: int) -> None:
    """The source begins behind our end: the guard refuses that as well, if it is the source's log."""
    found = failback(cluster(TEN), new_source([batch(40, b"z", epoch=3)], 40, epoch=epoch), TruncationLimits(limit))
    assert found.dropped_count == dropped
    assert ("20 record(s) that are kept here would go at the front: it is FAILED" in found.reason) == (dropped == 0)


def test_a_topic_that_is_added_again_was_said_to_be_dropped_whole() -> None:
    """Our own reset tells what was mirrored; what was written behind it is not counted as front."""
    reset = bytes(build_mirror_pid_reset(NEW, base_offset=20, partition_leader_epoch=1, timestamp=0))
    own = [*TEN, reset, batch(21, b"x", epoch=1)]
    there = new_source([batch(40, b"z", epoch=3)], 40, epoch=-1)
    assert failback(cluster(own), there, TruncationLimits(19)).dropped_count == 0
    assert failback(cluster(own), there, TruncationLimits(20)).dropped_count == 21


def test_a_forced_failover_is_guarded_at_its_front_too() -> None:
    here, there = cluster(TEN), new_source([batch(40, b"z", epoch=3)], 40)
    for limit, dropped in ((11, 0), (12, 20)):
        found = one(mirrors_dry_run.divergence_loss(here, there, [T0], up_to={T0: 12}, limits=TruncationLimits(limit)))
        assert found.dropped_count == dropped


def test_a_mirror_that_is_to_be_created_has_the_limit_of_its_configs() -> None:
    class Unknown(AdminDouble):
        async def describe_configs(self, kind: object, *rest: object) -> list[Any]:
            if kind is ConfigResourceType.MIRROR:
                raise ApiException(Errors.UNKNOWN_MIRROR)
            return await super().describe_configs(kind, *rest)

    admin: Any = Unknown(configs={"mirror.max.truncation.records": ""})
    limits = run(lambda _: truncation_limits(admin, "m", ["t"], 0, new_mirror={"mirror.max.truncation.records": "7"}))
    assert limits.of("t") == 7
    assert run(lambda _: truncation_limits(admin, "m", ["t"], 0, new_mirror={})).of("t") == 100_000
    with pytest.raises(ApiException):
        run(lambda _: truncation_limits(admin, "m", ["t"], 0))


def test_a_running_partition_follows_its_source() -> None:
    found = failback(cluster(TEN), new_source(TEN, 6), None, {T0: "MIRRORING"})
    assert found.dropped_count == 6 and "stays as it is" in found.reason


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (new_source(TEN, state="MIRRORING"), "what it drops then is not known"),
        (AdminDouble(cluster_id=NEW), "the source does not have it"),
    ],
)
def test_what_is_not_known_was_nothing(there: Any, why: str) -> None:
    found = failback(cluster(TEN), there)
    text = loss_text([found])
    assert text.startswith("t-0: not known what would be dropped (log end 20") and why in text
    row = loss_rows([found])[0]
    assert row["droppedRecords"] == (0 if found.waits else None) and why in row["unknown"]
    assert total_text([found]) == "Total of 1 partition(s): 0 record(s) would be dropped; not known of 1 partition(s)"


def failover(here: Any, end: SourceEnd | None, last: LastKnownLag | None = None) -> DroppedRecords:
    ends = {} if end is None else {T0: end}
    told = None if last is None else {T0: last}
    return one(mirrors_dry_run.failover_loss(here, [T0], ends, told))


def test_a_failover_says_nothing_only_of_a_source_that_it_has_seen_whole() -> None:
    whole = failover(cluster(TEN), SourceEnd(20, 20, log_start_offset=0))
    assert loss_text([whole]) == (
        "t-0: nothing would be dropped (log end 20, log start 0, source: offsets 0 to 19; no transaction is open)"
    )
    for lie in (
        failover(cluster(TEN), SourceEnd(23, 23, log_start_offset=0)),
        failover(cluster(TEN, 6), SourceEnd(20, 20, log_start_offset=0)),
        failover(cluster(TEN), None, LastKnownLag(0, 1_000)),
    ):
        assert "nothing would be dropped" not in loss_text([lie])
        assert loss_text([lie]).startswith("t-0: no record of this log would be cut (")


def test_a_failover_names_what_only_the_source_has_at_the_front() -> None:
    found = failover(cluster(TEN, 6), SourceEnd(20, 20, log_start_offset=0))
    assert found.only_at_source == OffsetRange(0, 6)
    assert "  offsets 0 to 5 are only at the source: this log begins later" in loss_text([found]).splitlines()
    assert loss_rows([found])[0]["onlyAtSource"] == {"startOffset": 0, "endOffset": 6}
    assert "6 offset(s) before the log starts here are only at the source" in total_text([found])


@pytest.mark.parametrize(
    ("last", "text", "total"),
    [
        (LastKnownLag(10, 42_000), "lag 10, as of 42 s ago", "lag 10, as of 42 s ago of 1 partition(s)"),
        (LastKnownLag(0, 600_000), "lag 0, as of 600 s ago", "lag 0, as of 600 s ago of 1 partition(s)"),
        (LastKnownLag(-1, -1), "its lag was never known", "no lag was ever known of 1"),
    ],
)
def test_a_dead_source_is_told_with_what_was_last_known(last: LastKnownLag, text: str, total: str) -> None:
    found = failover(cluster(TEN), None, last)
    assert f"  what the source has beyond this is not known: {text}" in loss_text([found]).splitlines()
    assert total_text([found]).endswith(f"what the source has beyond this is not known: {total}")
    row = json.loads(json.dumps(loss_rows([found])[0]))
    assert (row["lastKnownLag"], row["lagAgeMs"]) == (last.lag, last.age_ms)


@pytest.mark.parametrize("seed", range(40))
def test_no_dry_run_promises_less_than_is_dropped(seed: int) -> None:
    """Whatever both logs are: what the old source has and will not have is counted."""
    chance = random.Random(seed)
    shared: list[bytes] = []
    end = 0
    for _ in range(chance.randint(1, 12)):
        values = [b"v"] * chance.randint(1, 4)
        shared.append(batch(end, *values))
        end += len(values)
    own = [batch(end + index, b"o", epoch=0) for index in range(chance.randint(0, 3))]
    later = [batch(end + index, b"n", epoch=1) for index in range(chance.randint(0, 3))]
    old_start, new_start = sorted(chance.randint(0, end) for _ in range(2))
    here, there = cluster(shared + own, old_start), new_source(shared + later, new_start)
    found = failback(here, there)
    kept = {record.offset for data in shared for record in RecordBatch(data).records() if record.offset >= max(old_start, new_start)}
    had = {record.offset for data in shared + own for record in RecordBatch(data).records() if record.offset >= old_start}
    assert found.dropped_count >= len(had - kept)
    assert found.is_nothing == (found.dropped_count == 0 and found.front is None and not found.is_cut)


def test_the_reference_has_no_limit_to_keep_anything() -> None:
    """Its topics have no mirror.max.truncation.records: what is told to go goes."""
    limits = run(lambda _: truncation_limits(cluster(TEN), "m", ["t"], 0))
    assert limits.of("t") == -1
    assert failback(cluster(TEN), new_source(TEN, 12), limits).dropped_count == 12


def test_limits_that_may_not_be_seen_promise_nothing() -> None:
    found = failback(cluster(TEN), new_source(TEN, 12), TruncationLimits(5, is_known=False))
    assert found.dropped_count == 12 and "may make it FAILED instead" in found.reason


def test_deleting_a_mirror_with_epochs_is_not_nothing() -> None:
    row = MirrorPartitionDescription("t", 0, 20, 20, 0, "STOPPED", 3)
    (found,) = mirrors_dry_run.deletion_loss([row], {}, "it is down")
    assert "nothing would be dropped" not in loss_text([found])
    (found,) = mirrors_dry_run.deletion_loss([MirrorPartitionDescription("t", 0, 20, 20, 0, "STOPPED", -1)], {}, None)
    assert "nothing would be dropped" in loss_text([found])


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        ({"retention.ms": "3600000"}, {"retention.ms": "604800000"}, "retention.ms=3600000 (source: 604800000)"),
        ({"retention.bytes": "10"}, {"retention.bytes": "-1"}, "retention.bytes=10 (source: -1)"),
        ({"retention.ms": "-1"}, {"retention.ms": "5"}, None),
        ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}, "cleanup.policy=compact (source: delete)"),
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "delete"}, None),
    ],
)
def test_a_failover_hands_the_log_to_configs_that_keep_less(here: dict[str, str], there: dict[str, str], told: str | None) -> None:
    found = failover(cluster(TEN), SourceEnd(20, 20, log_start_offset=0))
    one, two = cluster(TEN), cluster(TEN)
    one.configs, two.configs = here, there
    run(lambda _: compare_retention([found], one, two))
    said = "after the failover, this cluster deletes by its own configs"
    assert found.own_retention == (None if told is None else f"{said}: {told}")
    assert ("nothing would be dropped" in loss_text([found])) == (told is None)


def test_a_partition_that_is_at_the_source_only_is_in_the_list() -> None:
    found = mirrors_dry_run.not_here(TopicPartition("t", 2), SourceEnd(50, 50))
    assert loss_text([found]).startswith("t-2: not known what would be dropped") and loss_rows([found])[0]["notMirrored"] == 50


def test_what_own_retention_deletes_anyway_is_dropped_all_the_same() -> None:
    """The guard does not count it, so the partition follows: it was said to keep everything."""
    newest = RecordBatch(TEN[2]).max_timestamp
    limits = TruncationLimits(5, oldest_ms={"t": newest})
    assert failback(cluster(TEN), new_source(TEN, 12), limits).dropped_count == 0, "8 of 12 are kept here"
    limits = TruncationLimits(8, oldest_ms={"t": newest})
    assert failback(cluster(TEN), new_source(TEN, 12), limits).dropped_count == 12
    configs = {"cleanup.policy": "delete", "retention.ms": "1000", "mirror.max.truncation.records": ""}
    here = cluster(TEN)
    here.configs = configs
    assert run(lambda _: truncation_limits(here, "m", ["t"], 5_000)).oldest_ms == {"t": 4_000}
    here.configs = configs | {"cleanup.policy": "compact"}
    assert run(lambda _: truncation_limits(here, "m", ["t"], 5_000)).oldest_ms == {}
