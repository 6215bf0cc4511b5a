"""The reference build's recorded `__mirror_state` logs: they decode, to what its own tool printed,
and encode to the same bytes.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from support.logs.golden_vectors import golden_dir, unpacked_stage

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.common.log_replay import replay_batch
from kmirror.mirror.coordination.mirror_coordinator_shard import MirrorCoordinatorShard
from kmirror.mirror.coordination.mirror_records import (
    LastMirrorEpochs,
    PartitionStateRecord,
    last_mirror_epochs_record,
    partition_state_record,
    read_record,
)
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.record_batch import iter_batches

STAGES = sorted(path.name for path in (golden_dir() / "20-reference").glob("*.tar.xz"))


def mirror_state_logs(stage: str) -> list[pathlib.Path]:
    """The logs, beside which their dumps lie."""
    found = unpacked_stage(stage.removesuffix(".tar.xz")).rglob("*.log")
    return sorted(path for path in found if path.parent.name.startswith("__mirror_state-"))


def records_of(log: pathlib.Path) -> list[CoordinatorRecord]:
    records = []
    for batch in iter_batches(log.read_bytes()):
        batch.ensure_valid()
        for record in batch.records():
            records.append(CoordinatorRecord(bytes(record.key or b""), None if record.value is None else bytes(record.value)))
    return records


@pytest.mark.parametrize("stage", STAGES)
def test_recorded_logs_decode_and_encode_to_the_same_bytes(stage: str) -> None:
    logs = mirror_state_logs(stage)
    for log in logs:
        for record in records_of(log):
            decoded = read_record(record)
            if isinstance(decoded, PartitionStateRecord):
                assert partition_state_record(decoded.mirror_name, decoded.topic, decoded.partition, decoded.state) == record
            elif isinstance(decoded, LastMirrorEpochs) and decoded.epochs is not None:
                again = read_record(last_mirror_epochs_record(decoded.mirror_name, decoded.epochs))
                assert again == decoded


@pytest.mark.parametrize("stage", STAGES)
def test_decoded_records_are_those_of_the_references_dump(stage: str) -> None:
    for log in mirror_state_logs(stage):
        cluster = log.parent.parent
        dumps = list(cluster.parent.glob(f"{cluster.name}.{log.parent.name}.{log.name}.dump.txt"))
        printed = [
            json.loads(line.split("payload: ", 1)[1])["data"]
            for dump in dumps
            for line in dump.read_text().splitlines()
            if "payload: {" in line
        ]
        if not dumps:
            continue
        states = [item for item in printed if "state" in item]
        decoded = [read_record(record) for record in records_of(log)]
        ours = [
            {"topicName": item.topic, "partition": item.partition, "state": int(item.state)}
            for item in decoded
            if isinstance(item, PartitionStateRecord)
        ]
        assert ours == states


@pytest.mark.skipif("c2_failedover.tar.xz" not in STAGES, reason="no such stage in this folder of vectors")
def test_replay_of_the_clean_failback_ends_mirroring() -> None:
    shard = MirrorCoordinatorShard()
    logs = [log for log in mirror_state_logs("c2_failedover.tar.xz") if log.parent.parent.name == "D"]
    found: dict[tuple[str, int], tuple[MirrorPartitionState, int]] = {}
    for log in logs:
        shard = MirrorCoordinatorShard()
        for batch in iter_batches(log.read_bytes()):
            replay_batch(shard, batch, 0)
        for name in shard.mirror_names():
            keys = [(topic, partition) for topic in ("f1", "f2") for partition in range(1)]
            found |= {
                key: (stored.state, stored.last_mirror_epoch)
                for key, stored in shard.read(name, keys).items()
                if stored.state is not MirrorPartitionState.UNKNOWN
            }
    assert found == {("f1", 0): (MirrorPartitionState.STOPPED, 0), ("f2", 0): (MirrorPartitionState.STOPPED, 0)}
