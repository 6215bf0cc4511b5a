"""Builds record batches byte by byte as Kafka's `MemoryRecordsBuilder` does.

These rules decide the bytes. The base timestamp is the first record's, or the delete horizon if
there is one. Deltas are against it, even with LogAppendTime. The max timestamp is the largest
record timestamp, or with LogAppendTime the broker's time. The last offset delta comes from the last
record, unless the caller keeps a higher one, as in a compacted batch. The header is written last,
because it holds the count, the length and the CRC.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.crc32c import crc32c
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.compression import CompressionType, compress
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Header, Record, java_long, write_record
from kmirror.record.record_batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CRC_POSITION,
    CURRENT_MAGIC,
    DELETE_HORIZON_FLAG,
    HEADER,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    TimestampType,
)


class RecordBatchBuilder:
    """Collects records and builds one batch.

    All times are in ms. Offset deltas are against `base_offset`.
    """

    def __init__(
        self,
        *,
        base_offset: int = 0,
        compression: CompressionType = CompressionType.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.compression = compression
        self.compression_level = compression_level
        self.timestamp_type = timestamp_type
        self.log_append_time = log_append_time
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control = is_control
        self.partition_leader_epoch = partition_leader_epoch
        self.delete_horizon_ms = delete_horizon_ms
        self.last_offset = base_offset - 1
        self.max_timestamp = NO_TIMESTAMP
        self.record_count = 0
        self._base_timestamp = delete_horizon_ms
        self._body = bytearray()

    def append(self, offset: int, timestamp: int, key: Buffer | None, value: Buffer | None, headers: list[Header]) -> None:
        """Adds a record; offsets must ascend."""
        assert offset > self.last_offset, f"offset {offset} after {self.last_offset}"
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        write_record(
            self._body,
            offset_delta=offset - self.base_offset,
            timestamp_delta=java_long(timestamp - self._base_timestamp),
            key=key,
            value=value,
            headers=headers,
        )
        self.last_offset = offset
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.record_count += 1

    def override_last_offset(self, last_offset: int) -> None:
        """Keeps a last offset above that of the last record (compaction)."""
        self.last_offset = last_offset

    def build(self) -> bytearray:
        """The batch as a bytearray, so that offset and epoch can still be patched in place."""
        attributes = int(self.compression)
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_FLAG
        if self.is_transactional:
            attributes |= TRANSACTIONAL_FLAG
        if self.is_control:
            attributes |= CONTROL_FLAG
        if self.delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON_FLAG
        log_append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return assemble(
            compress(self.compression, self._body, level=self.compression_level),
            base_offset=self.base_offset,
            partition_leader_epoch=self.partition_leader_epoch,
            attributes=attributes,
            last_offset_delta=self.last_offset - self.base_offset,
            base_timestamp=NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            max_timestamp=self.log_append_time if log_append_time else self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.record_count,
        )


def assemble(
    payload: Buffer,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytearray:
    """Joins a header and `payload` (the records' bytes, compressed as `attributes` says) into one
    batch with its CRC.
    """
    batch = bytearray(RECORD_BATCH_OVERHEAD + len(payload))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        partition_leader_epoch,
        CURRENT_MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch[RECORD_BATCH_OVERHEAD:] = payload
    rewrite_crc(batch)
    return batch


def rewrite_crc(batch: bytearray | memoryview) -> None:
    """Sets the CRC of the single batch in `batch`."""
    batch[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]).to_bytes(4, "big")


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: CompressionType = CompressionType.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytearray:
    """One batch of `records`. Their `sequence` is ignored: it follows from `base_sequence`."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        compression=compression,
        compression_level=compression_level,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        partition_leader_epoch=partition_leader_epoch,
        delete_horizon_ms=delete_horizon_ms,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, record.headers)
    if last_offset is not None:
        builder.override_last_offset(last_offset)
    return builder.build()


def rebuild_batch(batch: RecordBatch, records: Iterable[Record], *, delete_horizon_ms: int | None = None) -> bytearray:
    """`batch` with only `records`, as the cleaner writes it.

    Base and last offset, codec, timestamp type, producer fields, leader epoch, and the
    transactional and control bits stay. Base and max timestamp come from the records that are left;
    a LogAppendTime batch keeps its max. With `delete_horizon_ms` None the batch keeps the horizon
    it has.
    """
    return build_batch(
        records,
        base_offset=batch.base_offset,
        compression=batch.compression,
        timestamp_type=batch.timestamp_type,
        log_append_time=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms,
        last_offset=batch.last_offset,
    )


def empty_batch(batch: RecordBatch) -> bytearray:
    """`batch` without its records: a bare header that keeps the offsets, producer fields and max
    timestamp (Kafka's `writeEmptyHeader`).
    """
    return assemble(
        b"",
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes & (LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG),
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=0,
    )
