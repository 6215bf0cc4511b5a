"""The leader's checks of a produced batch, and what it changes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import assemble, build_batch, rewrite_crc
from kmirror.record.compression import CompressionType, compress
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, TimestampType
from kmirror.record.validation import RecordError, RecordValidationException, ValidationResult, validate_and_assign_offsets

NOW = 1_750_000_000_000
LONG_MAX = (1 << 63) - 1
CODECS = list(CompressionType)


def records(count: int = 3, *, timestamp: int = NOW, key: bytes | None = b"k") -> list[Record]:
    return [Record(index, timestamp + index, key, b"value %d" % index, []) for index in range(count)]


def validate(batch: bytearray, **changes: Any) -> ValidationResult:
    source = RecordBatch(batch).compression
    arguments: dict[str, Any] = {
        "offset": 100,
        "now_ms": NOW,
        "source_compression": source,
        "target_compression": source,
        "compact": False,
        "timestamp_type": TimestampType.CREATE_TIME,
        "timestamp_before_max_ms": LONG_MAX,
        "timestamp_after_max_ms": 3_600_000,
        "partition_leader_epoch": 7,
        "origin": AppendOrigin.CLIENT,
        "topic_partition": "t-0",
    } | changes
    return validate_and_assign_offsets(batch, **arguments)


@pytest.mark.parametrize("codec", CODECS)
def test_a_good_batch_is_patched_in_place(codec: CompressionType) -> None:
    batch = build_batch(records(), compression=codec)
    before = bytes(batch)
    result = validate(batch)
    assert result.records is batch
    assert (result.max_timestamp_ms, result.shallow_offset_of_max_timestamp, result.next_offset) == (NOW + 2, 102, 103)
    view = RecordBatch(batch)
    view.ensure_valid()
    assert (view.base_offset, view.last_offset, view.partition_leader_epoch) == (100, 102, 7)
    assert batch[16:] == before[16:]


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_sets_the_type_and_the_max_timestamp(codec: CompressionType) -> None:
    batch = build_batch(records(timestamp=5), compression=codec)
    result = validate(batch, timestamp_type=TimestampType.LOG_APPEND_TIME)
    view = RecordBatch(result.records)
    view.ensure_valid()
    assert (view.timestamp_type, view.max_timestamp, view.base_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW, 5)
    assert {record.timestamp for record in view.records()} == {NOW}
    assert result.max_timestamp_ms == NOW


def test_a_wrong_max_timestamp_is_corrected() -> None:
    batch = build_batch(records())
    batch[35:43] = (NOW + 99).to_bytes(8, "big")
    rewrite_crc(batch)
    validate(batch)
    view = RecordBatch(batch)
    assert view.max_timestamp == NOW + 2
    view.ensure_valid()


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_recompression_keeps_records_and_producer_fields(source: CompressionType, target: CompressionType) -> None:
    batch = build_batch(records(50), compression=source, producer_id=9, producer_epoch=1, base_sequence=4, is_transactional=True)
    result = validate(batch, target_compression=target)
    view = RecordBatch(result.records)
    view.ensure_valid()
    assert (view.compression, view.producer_id, view.producer_epoch, view.base_sequence) == (target, 9, 1, 4)
    assert view.is_transactional
    assert [(record.offset, record.timestamp) for record in view.records()] == [(100 + index, NOW + index) for index in range(50)]
    assert result.message_size_maybe_changed == (source is not target)
    assert result.conversion_count == (0 if source is target else 50)


def test_offset_deltas_with_holes_rebuild_a_compressed_batch() -> None:
    sparse = [Record(offset, NOW + offset, b"k", b"v", []) for offset in (0, 2, 5)]
    batch = build_batch(sparse, compression=CompressionType.LZ4, last_offset=2)
    result = validate(batch)
    assert [(record.offset, record.timestamp) for record in RecordBatch(result.records).records()] == [
        (100, NOW),
        (101, NOW + 2),
        (102, NOW + 5),
    ]
    assert result.message_size_maybe_changed


@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_wants_keys(codec: CompressionType) -> None:
    mixed = [Record(0, NOW, b"k", None, []), Record(1, NOW, None, b"v", []), Record(2, NOW, b"", b"v", [])]
    with pytest.raises(RecordValidationException) as raised:
        validate(build_batch(mixed, compression=codec), compact=True)
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    assert raised.value.error is Errors.INVALID_RECORD
    assert raised.value.record_errors == [RecordError(1, text)]
    assert raised.value.message == (
        "One or more records have been rejected due to 1 record errors in total, and only showing the first three errors at most: "
        f"[RecordError(batchIndex=1, message='{text}')]"
    )


def test_timestamps_out_of_range_are_refused_and_minus_one_is_not() -> None:
    late = [Record(0, NOW + 3_600_001, b"k", b"v", []), Record(1, -1, b"k", b"v", []), Record(2, NOW - 11, b"k", b"v", [])]
    with pytest.raises(RecordValidationException) as raised:
        validate(build_batch(late), timestamp_before_max_ms=10)
    assert raised.value.error is Errors.INVALID_TIMESTAMP
    assert raised.value.message == "One or more records have been rejected due to invalid timestamp"
    assert [error.batch_index for error in raised.value.record_errors] == [0, 2]
    assert raised.value.record_errors[1].message == (
        f"Timestamp {NOW - 11} of message with offset 2 is out of range. The timestamp should be within [{NOW - 10}, {NOW + 3_600_000}]"
    )
    assert validate(build_batch([Record(0, -1, b"k", b"v", [])]), timestamp_before_max_ms=10).max_timestamp_ms == -1


TIMES_THAT_WRAP = [(LONG_MAX, 10), (-LONG_MAX, -10), (-1, -LONG_MAX - 1), (LONG_MAX, -LONG_MAX)]


@pytest.mark.parametrize("target", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("base, delta", TIMES_THAT_WRAP)
def test_times_beyond_64_bits_wrap_as_javas_do(base: int, delta: int, target: CompressionType) -> None:
    """The broker answered UNKNOWN_SERVER_ERROR, with a traceback in its log."""
    batch = build_batch([Record(0, 0, b"k", b"v", []), Record(1, delta, b"k", b"w", [])])
    struct.pack_into(">q", batch, 27, base)
    rewrite_crc(batch)
    second = (base + delta + (1 << 63)) % (1 << 64) - (1 << 63)
    if target is not CompressionType.NONE and min(base, second) < -1:
        with pytest.raises(ApiException, match=f"Invalid negative timestamp {min(base, second)}") as refused:
            validate(batch, target_compression=target, timestamp_after_max_ms=LONG_MAX)
        assert refused.value.error is Errors.UNKNOWN_SERVER_ERROR, "Kafka's answer to what its MemoryRecordsBuilder does not take"
        return
    result = validate(batch, target_compression=target, timestamp_after_max_ms=LONG_MAX)
    assert [record.timestamp for record in RecordBatch(result.records).records()] == [base, second]
    assert result.max_timestamp_ms == max(base, second, -1)
    with pytest.raises(RecordValidationException) as caught:
        validate(batch, timestamp_before_max_ms=1_000, timestamp_after_max_ms=1_000)
    assert caught.value.error is Errors.INVALID_TIMESTAMP


@pytest.mark.parametrize("first, second", [(-1, LONG_MAX), (LONG_MAX, -1), (-LONG_MAX - 1, LONG_MAX), (0, -LONG_MAX - 1)])
def test_times_that_are_further_apart_than_64_bits_are_read_as_they_were_written(first: int, second: int) -> None:
    batch = RecordBatch(build_batch([Record(0, first, b"k", b"v", []), Record(1, second, b"k", b"w", [])]))
    assert [record.timestamp for record in batch.records()] == [first, second]


def test_a_producer_may_not_set_log_append_time() -> None:
    batch = build_batch(records(), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW)
    with pytest.raises(RecordValidationException) as raised:
        validate(batch, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert raised.value.record_errors[0].message == (
        f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW}, key=1 bytes, value=7 bytes). Producer should not set "
        "timestamp type to LogAppendTime."
    )


def test_in_a_create_time_topic_its_log_append_time_becomes_the_create_time() -> None:
    """Kafka 4.3 only looks at the range there, and rewrites the type."""
    batch = build_batch(records(timestamp=5), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=NOW)
    assert validate(batch).max_timestamp_ms == NOW
    view = RecordBatch(batch)
    view.ensure_valid()
    assert (view.timestamp_type, view.max_timestamp) == (TimestampType.CREATE_TIME, NOW)


def header(**changes: int) -> bytearray:
    view = RecordBatch(build_batch(records()))
    fields = {
        name: getattr(view, name)
        for name in (
            "base_offset",
            "partition_leader_epoch",
            "attributes",
            "last_offset_delta",
            "base_timestamp",
            "max_timestamp",
            "producer_id",
            "producer_epoch",
            "base_sequence",
            "record_count",
        )
    }
    return assemble(view.body(), **(fields | changes))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (header(last_offset_delta=-1), "Batch has an invalid offset range: [0, -1] in topic partition t-0"),
        (header(record_count=0), "Invalid reported count for record batch: 0 in topic partition t-0"),
        (header(record_count=2), "Inconsistent batch offset range [0, 2] and count of records 2 in topic partition t-0"),
        (header(attributes=0x20), "Clients are not allowed to write control records in topic partition t-0"),
        (header(producer_id=5), "Invalid sequence number -1 in record batch with producerId 5 in topic partition t-0"),
        (header(record_count=2, last_offset_delta=1), "Incorrect declared batch size, records still remaining in file"),
        (header(record_count=4, last_offset_delta=3), "Incorrect declared batch size, premature EOF reached"),
        (bytearray(), None),
        (build_batch(records()) * 2, "Compressed outer record has more than one batch"),
    ],
)
def test_what_a_client_may_not_send(batch: bytearray, message: str | None) -> None:
    with pytest.raises(ApiException) as raised:
        validate_and_assign_offsets(
            batch,
            offset=0,
            now_ms=NOW,
            source_compression=CompressionType.NONE,
            target_compression=CompressionType.NONE,
            compact=False,
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp_before_max_ms=LONG_MAX,
            timestamp_after_max_ms=LONG_MAX,
            partition_leader_epoch=0,
            origin=AppendOrigin.CLIENT,
            topic_partition="t-0",
        )
    assert raised.value.error is Errors.INVALID_RECORD
    assert raised.value.message == (message or "Record batch has no batches at all")


def test_a_marker_is_stored_uncompressed_whatever_the_topic_says() -> None:
    marker = build_end_transaction_marker(ControlRecordType.ABORT, coordinator_epoch=1, producer_id=1, producer_epoch=0, timestamp=NOW)
    result = validate(marker, origin=AppendOrigin.COORDINATOR, target_compression=CompressionType.ZSTD)
    assert (RecordBatch(result.records).compression, len(result.records)) == (CompressionType.NONE, 78)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("position", [0, 4, 8, 14, 15, 17])
def test_a_length_that_does_not_add_up_is_an_invalid_record(codec: CompressionType, position: int) -> None:
    view = RecordBatch(build_batch([Record(0, NOW, b"key", b"value", [("h", b"x")]), Record(1, NOW, b"key", b"value", [])]))
    body = bytearray(view.body())
    body[position] ^= 0x10
    fields = {"base_offset": 0, "partition_leader_epoch": -1, "attributes": int(codec), "last_offset_delta": 1, "base_timestamp": NOW}
    batch = assemble(
        compress(codec, body), max_timestamp=NOW, producer_id=-1, producer_epoch=-1, base_sequence=-1, record_count=2, **fields
    )
    with pytest.raises(ApiException) as raised:
        validate(batch)
    assert raised.value.error is Errors.INVALID_RECORD
