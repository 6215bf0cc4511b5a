"""What a partition's leader checks and changes in a batch before it is stored (Kafka's
`LogValidator`).

Batch: a client's batch must span as many offsets as it has records, must have at least one, must
not be a control batch, and needs a sequence if it has a producer id. Records: one hop from record
to record by their lengths reads only the offset delta, the timestamp and whether there is a key;
keys and values are skipped. A record that breaks a rule of the topic (no key in a compacted topic,
timestamp out of range) goes into the list of record errors and the batch is refused: with
INVALID_TIMESTAMP if any error was a timestamp, else with INVALID_RECORD.

A batch that is kept in place stays as the producer sent it, except for base offset, leader epoch
and, if they change, max timestamp and timestamp type (then the CRC is computed anew). The batch is
rebuilt if its codec is not the topic's, or if the offset deltas of a compressed batch are not 0, 1,
2 ...

A stream that does not decompress is UNKNOWN_SERVER_ERROR, as in Kafka, so that clients give up.
They would retry CORRUPT_MESSAGE for ever, since it stands for a batch that was damaged in transit.
A stream that decompresses to more than the limit is MESSAGE_TOO_LARGE: Java's producer splits such
a batch. Here the whole stream is decompressed before its records are read. Kafka does both
together, and so finds a record's fault before a fault later in the stream.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.varint import read_varint, read_varlong
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import assemble, rewrite_crc
from kmirror.record.compression import CompressionType, DecompressedTooLargeError, DecompressionError, compress
from kmirror.record.record import MAX_LONG, MIN_LONG, NO_TIMESTAMP, Record, invalid_record, java_long, write_record
from kmirror.record.record_batch import (
    ATTRIBUTES_POSITION,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    TimestampType,
    iter_batches,
)
from kmirror.record.record_hop import UNBOUNDED, hop_records

MAX_VALIDATED_SIZE_BYTES: Final = 128 * 1024 * 1024
"""The bytes that a produced batch may decompress to.

Kafka needs no such limit because it streams. A batch of a normal producer decompresses to some
megabytes.
"""
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_ATTRIBUTES: Final = struct.Struct(">h")


class RecordError(NamedTuple):
    """A record that was refused: its index in the batch, and the reason (part of the Produce
    response from version 8 on).
    """

    batch_index: int
    message: str


class RecordValidationException(ApiException):
    """A batch was refused because of some of its records; `record_errors` lists them all."""

    def __init__(self, error: Errors, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(error, message)
        self.record_errors = record_errors


class ValidationResult(NamedTuple):
    """What to store. Times are ms."""

    records: bytearray | memoryview
    """The bytes to write: the input patched in place, or a new batch."""
    log_append_time_ms: int
    max_timestamp_ms: int
    shallow_offset_of_max_timestamp: int
    """The last offset of the batch that holds the max timestamp, -1 if no record has one."""
    message_size_maybe_changed: bool
    """True when the batch was rebuilt: its size must be checked against the topic's limit again."""
    record_count: int
    next_offset: int
    """The offset after the last record."""
    conversion_count: int = 0
    """Records that were rewritten (0 in place)."""


class _Rules(NamedTuple):
    """The topic's settings that records are checked against."""

    topic_partition: object
    now_ms: int
    compact: bool
    timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int


def validate_and_assign_offsets(
    records: bytearray | memoryview,
    *,
    offset: int,
    now_ms: int,
    source_compression: CompressionType,
    target_compression: CompressionType,
    compact: bool,
    timestamp_type: TimestampType,
    timestamp_before_max_ms: int,
    timestamp_after_max_ms: int,
    partition_leader_epoch: int,
    origin: AppendOrigin,
    topic_partition: object = "?",
    target_compression_level: int | None = None,
) -> ValidationResult:
    """Checks the one batch in `records` (writable) and gives its records the offsets from `offset`
    on.

    `target_compression` is the topic's codec, already resolved: for compression.type=producer it is
    the source's. An uncompressed control batch is never compressed. Raises
    `RecordValidationException`, or ApiException INVALID_RECORD / CORRUPT_MESSAGE /
    UNSUPPORTED_FOR_MESSAGE_FORMAT / UNKNOWN_SERVER_ERROR (does not decompress, or has a negative
    timestamp other than -1 and must be compressed anew, as in Kafka) / MESSAGE_TOO_LARGE
    (decompresses to more than `MAX_VALIDATED_SIZE_BYTES`). The bytes are unchanged then.
    """
    if memoryview(records).readonly:
        records = bytearray(records)
    batch = _only_batch(records)
    _validate_batch(batch, origin, topic_partition)
    if batch.is_control and source_compression is CompressionType.NONE:
        target_compression = CompressionType.NONE
    rules = _Rules(topic_partition, now_ms, compact, timestamp_type, timestamp_before_max_ms, timestamp_after_max_ms)
    body = _unpacked(batch)
    min_timestamp, max_timestamp, consecutive = _validate_records(batch, body, rules)
    compressed = not (source_compression is CompressionType.NONE and target_compression is CompressionType.NONE)
    if source_compression is not target_compression or (compressed and not consecutive):
        if min_timestamp < NO_TIMESTAMP:  # MemoryRecordsBuilder takes none, and its error is no ApiException
            raise ApiException(Errors.UNKNOWN_SERVER_ERROR, f"Invalid negative timestamp {min_timestamp}")
        return _rebuild(
            batch,
            body,
            rules,
            offset=offset,
            partition_leader_epoch=partition_leader_epoch,
            compression=target_compression,
            compression_level=target_compression_level,
            max_timestamp=max_timestamp,
            consecutive=consecutive,
        )
    last_offset = offset + batch.record_count - 1
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = now_ms
    _patch(batch, last_offset - batch.last_offset_delta, partition_leader_epoch, timestamp_type, max_timestamp)
    with_timestamp = compressed or max_timestamp > NO_TIMESTAMP
    return ValidationResult(
        records=records,
        log_append_time_ms=now_ms,
        max_timestamp_ms=max_timestamp,
        shallow_offset_of_max_timestamp=last_offset if with_timestamp else -1,
        message_size_maybe_changed=False,
        record_count=batch.record_count,
        next_offset=last_offset + 1,
    )


def _unpacked(batch: RecordBatch) -> Buffer:
    try:
        return batch.payload(max_size=MAX_VALIDATED_SIZE_BYTES)
    except DecompressedTooLargeError as error:
        raise ApiException(Errors.MESSAGE_TOO_LARGE, error.message) from error
    except DecompressionError as error:
        raise ApiException(Errors.UNKNOWN_SERVER_ERROR, error.message) from error


def _only_batch(records: bytearray | memoryview) -> RecordBatch:
    batches = iter_batches(records)
    batch = next(batches, None)
    if batch is None:
        raise invalid_record("Record batch has no batches at all")
    if next(batches, None) is not None:
        raise invalid_record("Compressed outer record has more than one batch")
    return batch


def _validate_batch(batch: RecordBatch, origin: AppendOrigin, topic_partition: object) -> None:
    if origin is not AppendOrigin.CLIENT:
        return
    count_from_offsets = batch.last_offset_delta + 1
    where = f"in topic partition {topic_partition}"
    if count_from_offsets <= 0:
        raise invalid_record(f"Batch has an invalid offset range: [{batch.base_offset}, {batch.last_offset}] {where}")
    if batch.record_count <= 0:
        raise invalid_record(f"Invalid reported count for record batch: {batch.record_count} {where}")
    if count_from_offsets != batch.record_count:
        raise invalid_record(
            f"Inconsistent batch offset range [{batch.base_offset}, {batch.last_offset}] and count of records {batch.record_count} {where}"
        )
    if batch.is_control:
        raise invalid_record(f"Clients are not allowed to write control records {where}")
    if batch.has_producer_id and batch.base_sequence < 0:
        raise invalid_record(f"Invalid sequence number {batch.base_sequence} in record batch with producerId {batch.producer_id} {where}")


def _validate_records(batch: RecordBatch, body: Buffer, rules: _Rules) -> tuple[int, int, bool]:
    """(smallest timestamp, largest timestamp, whether the offset deltas are 0, 1, 2 ...). Raises if
    a record is malformed or breaks a rule of the topic.
    """
    if batch.record_count < 0:
        raise invalid_record(f"Found invalid record count {batch.record_count} in magic v{batch.magic} batch")
    check_range = rules.timestamp_type is TimestampType.CREATE_TIME
    log_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    if check_range and not log_append_time:
        lowest = rules.now_ms - rules.timestamp_before_max_ms - batch.base_timestamp
        highest = rules.now_ms + rules.timestamp_after_max_ms - batch.base_timestamp
    else:
        lowest, highest = -UNBOUNDED, UNBOUNDED
    hopped = hop_records(body, batch.record_count)
    if hopped is None:
        for _ in batch.records():  # the strict reader says what is wrong, in Kafka's words
            pass
        raise invalid_record("Found invalid record structure")
    min_delta, max_delta, consecutive, keys_missing = hopped
    wraps = batch.record_count > 0 and not MIN_LONG <= batch.base_timestamp + min_delta <= batch.base_timestamp + max_delta <= MAX_LONG
    if log_append_time or wraps or lowest > min_delta or max_delta > highest or (keys_missing and rules.compact):
        _refuse_broken_rules(batch, rules)
    if not batch.record_count:
        return NO_TIMESTAMP, NO_TIMESTAMP, consecutive
    if log_append_time:
        return batch.max_timestamp, batch.max_timestamp, consecutive
    smallest, largest = batch.base_timestamp + min_delta, batch.base_timestamp + max_delta
    if wraps:
        timestamps = [record.timestamp for record in batch.records()]
        smallest, largest = min(timestamps), max(timestamps)
    return smallest, max(largest, NO_TIMESTAMP), consecutive


def _refuse_broken_rules(batch: RecordBatch, rules: _Rules) -> None:
    """Looks at each record and refuses the batch if one breaks a rule; returns if none does
    (timestamp -1 is always allowed).
    """
    found: list[tuple[Errors, RecordError]] = []
    for index, record in enumerate(batch.records()):
        if rules.compact and record.key is None:
            text = f"Compacted topic cannot accept message without key in topic partition {rules.topic_partition}"
            found.append((Errors.INVALID_RECORD, RecordError(index, text)))
        elif rules.timestamp_type is TimestampType.CREATE_TIME and record.timestamp != NO_TIMESTAMP:
            age_ms = java_long(rules.now_ms - record.timestamp)
            if age_ms > rules.timestamp_before_max_ms or java_long(-age_ms) > rules.timestamp_after_max_ms:
                earliest, latest = rules.now_ms - rules.timestamp_before_max_ms, rules.now_ms + rules.timestamp_after_max_ms
                text = (
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The timestamp should be within "
                    f"[{java_long(earliest)}, {java_long(latest)}]"
                )
                found.append((Errors.INVALID_TIMESTAMP, RecordError(index, text)))
        elif batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            text = f"Invalid timestamp type in message {_describe(batch, record)}. Producer should not set timestamp type to LogAppendTime."
            found.append((Errors.INVALID_TIMESTAMP, RecordError(index, text)))
    if found:
        _refuse(found)


def _refuse(found: list[tuple[Errors, RecordError]]) -> None:
    record_errors = [record_error for _, record_error in found]
    if any(error is Errors.INVALID_TIMESTAMP for error, _ in found):
        raise RecordValidationException(
            Errors.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", record_errors
        )
    shown = ", ".join(f"RecordError(batchIndex={error.batch_index}, message='{error.message}')" for error in record_errors[:3])
    raise RecordValidationException(
        Errors.INVALID_RECORD,
        f"One or more records have been rejected due to {len(record_errors)} record errors in total, and only showing the first three "
        f"errors at most: [{shown}]",
        record_errors,
    )


def _describe(batch: RecordBatch, record: Record) -> str:
    name = "PartialDefaultRecord" if batch.is_compressed else "DefaultRecord"
    key_size = 0 if record.key is None else len(record.key)
    value_size = 0 if record.value is None else len(record.value)
    return f"{name}(offset={record.offset}, timestamp={record.timestamp}, key={key_size} bytes, value={value_size} bytes)"


def _patch(batch: RecordBatch, base_offset: int, partition_leader_epoch: int, timestamp_type: TimestampType, max_timestamp: int) -> None:
    """Writes the leader's decisions into the header; the CRC only if a covered field changes."""
    memory = batch.memory
    _BASE_OFFSET.pack_into(memory, 0, base_offset)
    _LEADER_EPOCH.pack_into(memory, 12, partition_leader_epoch)
    if batch.timestamp_type is not timestamp_type or batch.max_timestamp != max_timestamp:
        attributes = batch.attributes & 0x7F & ~LOG_APPEND_TIME_FLAG
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_FLAG
        _ATTRIBUTES.pack_into(memory, ATTRIBUTES_POSITION, attributes)
        _BASE_OFFSET.pack_into(memory, 35, max_timestamp)
        rewrite_crc(memory)


def _rebuild(
    batch: RecordBatch,
    body: Buffer,
    rules: _Rules,
    *,
    offset: int,
    partition_leader_epoch: int,
    compression: CompressionType,
    compression_level: int | None,
    max_timestamp: int,
    consecutive: bool,
) -> ValidationResult:
    """The batch with the topic's codec.

    If the deltas can stay (the usual case), the records are compressed again without being decoded.
    """
    log_append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    batch_max_timestamp = rules.now_ms if log_append_time else max_timestamp
    keeps_deltas = consecutive and batch.record_count > 0 and not batch.attributes & (LOG_APPEND_TIME_FLAG | DELETE_HORIZON_FLAG)
    if not (keeps_deltas and _first_timestamp_delta(body) == 0):
        body, base_timestamp = _renumber(batch)
    else:
        base_timestamp = batch.base_timestamp
    attributes = int(compression) | batch.attributes & TRANSACTIONAL_FLAG | (LOG_APPEND_TIME_FLAG if log_append_time else 0)
    rebuilt = assemble(
        compress(compression, body, level=compression_level),
        base_offset=offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=batch.record_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=batch_max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.record_count,
    )
    last_offset = offset + batch.record_count - 1
    return ValidationResult(
        records=rebuilt,
        log_append_time_ms=rules.now_ms,
        max_timestamp_ms=batch_max_timestamp,
        shallow_offset_of_max_timestamp=last_offset if batch_max_timestamp > NO_TIMESTAMP else -1,
        message_size_maybe_changed=True,
        record_count=batch.record_count,
        next_offset=last_offset + 1,
        conversion_count=batch.record_count,
    )


def _first_timestamp_delta(body: Buffer) -> int:
    _, start = read_varint(body, 0)
    return read_varlong(body, start + 1)[0]


def _renumber(batch: RecordBatch) -> tuple[bytearray, int]:
    """(the records encoded anew with offset deltas 0, 1, 2 ... and timestamp deltas against the
    first record's timestamp, that timestamp).
    """
    out = bytearray()
    base_timestamp: int | None = None
    for index, record in enumerate(batch.records()):
        if base_timestamp is None:
            base_timestamp = record.timestamp
        delta = java_long(record.timestamp - base_timestamp)
        write_record(out, offset_delta=index, timestamp_delta=delta, key=record.key, value=record.value, headers=record.headers)
    return out, NO_TIMESTAMP if base_timestamp is None else base_timestamp
