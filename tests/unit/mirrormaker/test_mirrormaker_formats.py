"""Records of the internal topics, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from kmirror.cli.message_formatter import message_formatter
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import Checkpoint, Heartbeat, OffsetSync, SchemaException

VECTORS: list[tuple[Any, str, str, str]] = [
    (
        Heartbeat("A", "B", 1771239071191),
        "000141000142",
        "00000000019c66135dd7",
        "Heartbeat{sourceClusterAlias=A, targetClusterAlias=B, timestamp=1771239071191}",
    ),
    (
        Checkpoint("g1", TopicPartition("A.t1", 0), 3, 12),
        "000267310004412e743100000000",
        "00000000000000000003000000000000000c0000",
        "Checkpoint{consumerGroupId=g1, topicPartition=A.t1-0, upstreamOffset=3, downstreamOffset=12, metadata=}",
    ),
    (
        OffsetSync(TopicPartition("t1", 0), 3, 12),
        "0002743100000000",
        "0000000000000003000000000000000c",
        "OffsetSync{topicPartition=t1-0, upstreamOffset=3, downstreamOffset=12}",
    ),
]


@pytest.mark.parametrize(("record", "key", "value", "line"), VECTORS, ids=["heartbeat", "checkpoint", "offset-sync"])
def test_it1_to_it3_records_are_kafkas_to_the_byte(record: Any, key: str, value: str, line: str) -> None:
    assert (record.record_key.hex(), record.record_value.hex(), str(record)) == (key, value, line)
    assert type(record).deserialize_record(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize(("record", "key", "value", "line"), VECTORS, ids=["heartbeat", "checkpoint", "offset-sync"])
def test_torn_records_name_the_field_and_nothing_else_is_raised(record: Any, key: str, value: str, line: str) -> None:
    keys, values = bytes.fromhex(key), bytes.fromhex(value)
    for length in range(len(keys)):
        with pytest.raises(SchemaException, match="Error reading field '"):
            type(record).deserialize_record(keys[:length], values)
    for length in range(len(values)):
        with pytest.raises(SchemaException, match="Error reading field '"):
            type(record).deserialize_record(keys, values[:length])
    for part in ((None, values), (keys, None)):
        with pytest.raises(SchemaException, match="the record has no"):
            type(record).deserialize_record(*part)
    assert type(record).deserialize_record(keys + b"x", values + b"x") == record, "Kafka ignores what stands behind"


def test_a_negative_length_and_a_name_too_long_are_refused() -> None:
    with pytest.raises(SchemaException, match="String length -1 cannot be negative"):
        OffsetSync.deserialize_record(b"\xff\xff", b"")
    with pytest.raises(SchemaException, match="larger than the maximum string length"):
        _ = Checkpoint("g" * 32_768, TopicPartition("t", 0), 1, 1).record_key


def test_an_unknown_version_is_read_as_0_as_kafka_does() -> None:
    assert Heartbeat.deserialize_record(bytes.fromhex("000141000142"), bytes.fromhex("00090000000000000001")).timestamp == 1


class Consumed:
    """What the console consumer hands to a formatter."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self._parts = key, value

    def key(self) -> bytes | None:
        return self._parts[0]

    def value(self) -> bytes | None:
        return self._parts[1]


@pytest.mark.parametrize("index", range(3))
def test_the_console_consumer_knows_the_formatters_by_kafkas_class_names(index: int) -> None:
    record, key, value, line = VECTORS[index]
    name = f"{type(record).__name__}Formatter"
    for known in (name, f"org.apache.kafka.connect.mirror.formatters.{name}"):
        assert message_formatter(known, {}).format(Consumed(bytes.fromhex(key), bytes.fromhex(value))) == f"{line}\n".encode()  # type: ignore[arg-type]
    with pytest.raises(KmirrorError, match="Error reading field"):
        message_formatter(name, {}).format(Consumed(b"", b""))  # type: ignore[arg-type]


def test_an_unknown_formatter_names_mirrormakers_too() -> None:
    with pytest.raises(KmirrorError, match=r"org\.apache\.kafka\.connect\.mirror\.formatters\.CheckpointFormatter"):
        message_formatter("NoSuchFormatter", {})
