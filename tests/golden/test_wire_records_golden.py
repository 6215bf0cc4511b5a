"""Records that Apache Kafka 4.3 (and the KIP's reference implementation) stored: each decodes and
encodes to the same bytes.
"""

from __future__ import annotations

import importlib
import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.logs.golden_vectors import COMMITTED, golden_cases, golden_dir, unpacked_stage

from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.wire.messages.index import METADATA_RECORDS
from kmirror.wire.primitives import Writer, read_unsigned_varint
from kmirror.wire.records import read_metadata_record, read_versioned, write_metadata_record, write_versioned

# topic -> type of the key -> stem of the class names
COORDINATOR_RECORDS = {
    "__consumer_offsets": {
        0: "LegacyOffsetCommit",
        1: "OffsetCommit",
        2: "GroupMetadata",
        3: "ConsumerGroupMetadata",
        4: "ConsumerGroupPartitionMetadata",
        5: "ConsumerGroupMemberMetadata",
        6: "ConsumerGroupTargetAssignmentMetadata",
        7: "ConsumerGroupTargetAssignmentMember",
        8: "ConsumerGroupCurrentMemberAssignment",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
        12: "ShareGroupTargetAssignmentMetadata",
        13: "ShareGroupTargetAssignmentMember",
        14: "ShareGroupCurrentMemberAssignment",
        15: "ShareGroupStatePartitionMetadata",
        16: "ConsumerGroupRegularExpression",
        17: "StreamsGroupMetadata",
        18: "StreamsGroupMemberMetadata",
        19: "StreamsGroupTargetAssignmentMetadata",
        20: "StreamsGroupTargetAssignmentMember",
        21: "StreamsGroupCurrentMemberAssignment",
        23: "StreamsGroupTopology",
    },
    "__transaction_state": {0: "TransactionLog"},
    "__share_group_state": {0: "ShareSnapshot", 1: "ShareUpdate"},
    "__mirror_state": {1: "LastMirrorEpochs", 2: "MirrorPartitionState"},
}
CONTROL_RECORDS = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
STAGES = [name for name in ("4_failover", "6_failback", "c6_restart_resume") if (golden_dir() / "20-reference" / f"{name}.tar.xz").exists()]


def message_class(name: str) -> Any:
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()
    return getattr(importlib.import_module(f"kmirror.wire.messages.{module}"), name)


def records_of(path: pathlib.Path) -> Iterator[tuple[RecordBatch, Record]]:
    for batch in iter_batches(path.read_bytes()):
        for record in batch.records():
            yield batch, record


def log_files(folder: pathlib.Path, topic: str) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*.log") if path.parent.name.startswith(topic + "-"))


def assert_coordinator_records(paths: list[pathlib.Path], topic: str) -> Counter[str]:
    seen: Counter[str] = Counter()
    for batch, record in (pair for path in paths for pair in records_of(path)):
        if batch.is_control:
            continue
        assert record.key is not None
        stem = COORDINATOR_RECORDS[topic][int.from_bytes(record.key[:2], "big")]
        seen[stem] += 1
        key_class, value_class = message_class(f"{stem}Key"), message_class(f"{stem}Value")
        key = key_class.read(record.key, 2, 0)[0]
        assert write_versioned(key, 0, prefix=key_class.API_KEY) == record.key
        if record.value is not None:
            version = int.from_bytes(record.value[:2], "big")
            assert write_versioned(read_versioned(value_class, record.value), version) == record.value
    return seen


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_coordinator_records_encode_to_the_same_bytes(topic: str) -> None:
    seen: Counter[str] = Counter()
    for case in golden_cases("03-", "08-"):
        seen += assert_coordinator_records(log_files(golden_dir() / case, topic), topic)
    assert seen or not COMMITTED, f"no records of {topic}"


@pytest.mark.parametrize("stage", STAGES)
def test_mirror_state_records_of_the_reference_encode_to_the_same_bytes(stage: str) -> None:
    seen = assert_coordinator_records(log_files(unpacked_stage(stage), "__mirror_state"), "__mirror_state")
    assert seen["MirrorPartitionState"] or not COMMITTED
    assert seen["LastMirrorEpochs"] or not COMMITTED


def metadata_files() -> list[pathlib.Path]:
    files = [path for case in golden_cases("09-") for path in (golden_dir() / case).rglob("*") if path.suffix in (".log", ".checkpoint")]
    return sorted(path for path in files if path.parent.name == "__cluster_metadata-0" or path.name == "bootstrap.checkpoint")


def test_metadata_records_encode_to_the_same_bytes() -> None:
    seen: Counter[str] = Counter()
    for batch, record in (pair for path in metadata_files() for pair in records_of(path)):
        if batch.is_control:
            continue
        assert record.value is not None
        message = read_metadata_record(record.value)
        seen[type(message).__name__] += 1
        version, _ = read_unsigned_varint(record.value, 2)
        assert write_metadata_record(message, version) == record.value
    assert (
        not COMMITTED or {"RegisterBrokerRecord", "TopicRecord", "PartitionRecord", "PartitionChangeRecord", "ConfigRecord"} <= seen.keys()
    )
    assert seen.keys() <= {name for name, _ in METADATA_RECORDS.values()}


def test_control_records_of_the_metadata_log_encode_to_the_same_bytes() -> None:
    seen: Counter[str] = Counter()
    for batch, record in (pair for path in metadata_files() for pair in records_of(path)):
        if not batch.is_control:
            continue
        assert record.key is not None and record.value is not None
        name = CONTROL_RECORDS[int.from_bytes(record.key[2:4], "big")]
        cls = message_class(name)
        version = int.from_bytes(record.value[:2], "big")
        message, position = cls.read(record.value, 0, version)
        assert position == len(record.value)
        out = Writer()
        message.write(out, version)
        assert out.to_bytes() == record.value
        seen[name] += 1
    assert not COMMITTED or set(seen) == set(CONTROL_RECORDS.values())
