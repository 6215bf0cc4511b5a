"""`__share_group_state` as Apache Kafka wrote it: our coordinator's shard reads every record, our
writers give the same bytes, and a load ends well.
"""

from __future__ import annotations

import pathlib

import pytest
from support.coordinators.share_doubles import ShareShardHarness
from support.logs.golden_vectors import golden_cases, golden_dir

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.share.share_coordinator_records import (
    SHARE_SNAPSHOT,
    read_share_record,
    share_snapshot_record,
    share_state_tombstone,
    share_update_record,
)
from kmirror.record.record_batch import iter_batches

LOGS = [str(log) for case in golden_cases("08-") for log in sorted((golden_dir() / case / "logs").glob("__share_group_state-*/*.log"))]


def records_of(log: str) -> list[CoordinatorRecord]:
    batches = list(iter_batches(pathlib.Path(log).read_bytes()))
    return [
        CoordinatorRecord(bytes(record.key or b""), None if record.value is None else bytes(record.value))
        for batch in batches
        for record in batch.records()
    ]


@pytest.mark.parametrize("log", LOGS)
def test_every_record_is_read_and_written_with_the_same_bytes(log: str) -> None:
    records = records_of(log)
    kinds = set()
    for record in records:
        known = read_share_record(record)
        assert known is not None
        kind, key, state = known
        kinds.add((kind, state is None))
        if state is None:
            assert share_state_tombstone(key) == record
        else:
            assert (share_snapshot_record if kind == SHARE_SNAPSHOT else share_update_record)(key, state) == record
    assert {(0, False), (1, False)} <= kinds


@pytest.mark.parametrize("log", LOGS)
def test_a_shard_loads_what_kafka_wrote(log: str) -> None:
    records = records_of(log)
    loaded = ShareShardHarness(log=records)
    redundant = loaded.shard.last_redundant_offset() or 0
    assert ShareShardHarness(log=records, log_start=redundant).shard.states() == loaded.shard.states()
    live = {known[1] for record in records if (known := read_share_record(record)) is not None}
    deleted = {known[1] for record in records if record.value is None and (known := read_share_record(record)) is not None}
    assert live - deleted <= loaded.shard.states().keys()
