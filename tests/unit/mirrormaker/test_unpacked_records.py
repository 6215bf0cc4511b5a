"""Records as a task with transformations takes them out of what was fetched, and when it does so."""

from __future__ import annotations

import logging

import pytest

from kmirror.clients.consumer.consumer_types import ConsumedBatch, ConsumerRecord, ConsumerRecords, FetchedBatches
from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connector_config import MirrorSourceConfig
from kmirror.mirrormaker.error_handling import ErrorCounts, described_headers, described_record
from kmirror.mirrormaker.missing_topics import require_valid_topic_creation
from kmirror.mirrormaker.transformed_copying import unpacked
from kmirror.mirrormaker.transforming import Transforming, producer_record, transforming
from kmirror.mirrormaker.transforms import Made
from kmirror.mirrormaker.worker_config import WorkerConfig
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, TimestampType
from kmirror.runtime.system_ports import SystemClock

P0 = TopicPartition("t", 0)
CONFIG = {"name": "c", "connector.class": "MirrorSourceConnector", "source.cluster.alias": "A", "target.cluster.alias": "B"}
STORAGE = {f"{kind}.storage.topic": kind for kind in ("offset", "config", "status")} | {"group.id": "g"}


def of_connector(**props: str) -> Transforming | None:
    config = MirrorSourceConfig(CONFIG | {name.replace("_", "."): value for name, value in props.items()})
    return transforming(config, WorkerConfig(STORAGE), 0, ErrorCounts(), SystemClock())


def test_batches_are_unpacked_only_if_something_is_to_be_done() -> None:
    assert of_connector() is None
    assert of_connector(header_converter="org.apache.kafka.connect.converters.ByteArrayConverter", predicates="p") is None
    assert of_connector(errors_tolerance="all") is not None
    assert of_connector(header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter") is not None
    made = of_connector(transforms="f", transforms_f_type="Filter", errors_tolerance="all")
    assert made is not None and len(made.chain.stages) == 1 and made.errors.tolerates_all


def test_topic_creation_that_a_worker_does_not_read_is_told_and_what_is_wrong_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    def required(enabled: str, **props: str) -> None:
        config = MirrorSourceConfig(CONFIG | {f"topic.creation.{name.replace('_', '.')}": value for name, value in props.items()})
        require_valid_topic_creation(config, WorkerConfig(STORAGE | {"topic.creation.enable": enabled}))

    sizes = {"default_partitions": "3", "default_replication_factor": "1"}
    with caplog.at_level(logging.WARNING):
        required("true")
        required("true", **sizes)
        assert not caplog.records
        required("false", default_partitions="3")
        required("true", groups="default", **sizes)
    assert [record.getMessage() for record in caplog.records] == [
        "[A->B|c] topic.creation.* is not read: the worker has topic.creation.enable=false",
        "[A->B|c] 'default' topic creation group always exists and does not need to be listed explicitly",
    ]
    with pytest.raises(ConfigError, match=r'Missing required configuration "topic.creation.default.replication.factor"'):
        required("true", default_partitions="3")


def test_records_below_the_position_and_markers_are_left_out() -> None:
    records = [Record(offset, 100 + offset, b"k", None if offset == 11 else b"v", [("h", b"")]) for offset in range(10, 14)]
    batch = RecordBatch(build_batch(records, base_offset=10, compression=CompressionType.LZ4))
    marker = RecordBatch(
        build_end_transaction_marker(
            ControlRecordType.COMMIT, producer_id=1, producer_epoch=0, timestamp=1, base_offset=14, coordinator_epoch=0
        )
    )
    batches = [ConsumedBatch(P0, batch, 12, 14, 20, 20, 0, False), ConsumedBatch(P0, marker, 14, 15, 20, 20, 0, True)]
    first, second = unpacked([FetchedBatches(P0, batches, 12, 15, 20, 0)])
    assert [(record.offset, record.timestamp) for record in first.records] == [(12, 112), (13, 113)]
    assert (first.newest_ms, first.next_offset, first.size) == (113, 14, batch.size_in_bytes)
    assert (list(second.records), second.next_offset) == ([], 15)


def test_records_of_old_formats_come_one_by_one() -> None:
    given = [ConsumerRecord("t", 0, offset, -1, TimestampType.CREATE_TIME, None, b"v%d" % offset, []) for offset in (3, 5)]
    (only,) = unpacked(ConsumerRecords({P0: given}))
    assert [(record.offset, record.value) for record in only.records] == [(3, b"v3"), (5, b"v5")]
    assert (only.partition, only.size, only.newest_ms, only.next_offset) == (P0, 4, -1, 6)


@pytest.mark.parametrize(("timestamp", "sent"), [(-1, None), (0, 0), (7, 7)])
def test_a_record_without_a_time_gets_that_of_the_moment(timestamp: int, sent: int | None) -> None:
    record = producer_record(Made("t", 3, None, b"v", [("h", None)], timestamp))
    assert (record.topic, record.partition, record.key, record.value, record.headers, record.timestamp) == (
        "t", 3, None, b"v", [("h", None)], sent,
    )  # fmt: skip


def test_a_record_is_described_as_connect_does_it_with_what_is_in_it() -> None:
    rest = f"timestamp=5, headers={described_headers([('h', None), ('i', b'x')])}"
    assert described_record({"cluster": "A", "partition": 0, "topic": "t"}, 7, "A.t", 0, None, b"\xff'", rest) == (
        "SourceRecord{sourcePartition={cluster=A, partition=0, topic=t}, sourceOffset={offset=7}} ConnectRecord{topic='A.t', kafkaPartition=0, "
        'key=null, keySchema=Schema{BYTES}, value="\\xff\'", valueSchema=Schema{BYTES}, timestamp=5, headers=ConnectHeaders(headers='
        "[ConnectHeader(key=h, value=null, schema=Schema{BYTES}), ConnectHeader(key=i, value='x', schema=Schema{BYTES})])}"
    )
