"""Record batches (message format v2, magic 2) as views over bytes; nothing is copied.

    0  baseOffset i64            21 attributes i16          43 producerId i64
    8  batchLength i32           23 lastOffsetDelta i32     51 producerEpoch i16
    12 partitionLeaderEpoch i32  27 baseTimestamp i64       53 baseSequence i32
    16 magic i8                  35 maxTimestamp i64        57 recordCount i32
    17 crc u32                   61 records, or one compressed stream of all of them

`batchLength` counts what follows it, so a batch takes batchLength + 12 bytes. The CRC-32C covers
bytes 21 to the end: base offset and leader epoch lie before it, because the leader assigns them to
a batch that the producer has sealed. The magic byte is not covered either. Attributes: bits 0-2
codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon (then baseTimestamp is the
horizon, and the deltas are against it).

Messages of format v0 and v1 have another structure with the same first 17 bytes (offset i64, size
i32, crc i32, magic i8); see `legacy`. The number of records and the lengths inside a batch are only
claims until they are read: `records()` checks them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import ApiException
from kmirror.common.ports import Buffer
from kmirror.record.compression import MAX_DECOMPRESSED_SIZE_BYTES, CompressionType, decompress
from kmirror.record.legacy import wrong_magic
from kmirror.record.record import NO_SEQUENCE, Record, corrupt_message, increment_sequence, invalid_record, read_record

LOG_OVERHEAD: Final = 12
HEADER_SIZE_UP_TO_MAGIC: Final = 17
RECORD_BATCH_OVERHEAD: Final = 61
MIN_LEGACY_RECORD_SIZE: Final = 14
"""The smallest batchLength of any format (an empty v0 message). Less is corruption, for Kafka's
scanners and ours.
"""
CURRENT_MAGIC: Final = 2
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""The 61 bytes: base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count.
"""
_LENGTH_AND_MAGIC: Final = struct.Struct(">8xi4xb")


class TimestampType(IntEnum):
    """What a batch's timestamps are (bit 3 of the attributes)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def text(self) -> str:
        """As Kafka prints it: CreateTime, LogAppendTime."""
        return "LogAppendTime" if self else "CreateTime"


class RecordBatch:
    """A view of the batch that begins at `position` of `buffer`. The header is unpacked once,
    records on demand.

    Times are ms. CORRUPT_MESSAGE if the buffer does not hold the whole batch (`iter_batches` makes
    sure that it does).
    """

    __slots__ = (
        "memory",
        "base_offset",
        "size_in_bytes",
        "partition_leader_epoch",
        "magic",
        "crc",
        "attributes",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "record_count",
    )
    memory: memoryview
    base_offset: int
    size_in_bytes: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
        there = len(view) - position
        if there < RECORD_BATCH_OVERHEAD:
            raise _too_small(there)
        (
            self.base_offset,
            length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(view, position)
        size = length + LOG_OVERHEAD
        if not RECORD_BATCH_OVERHEAD <= size <= there:
            if size < RECORD_BATCH_OVERHEAD:
                raise _too_small(size)
            raise corrupt_message(f"Record batch is corrupt (it claims {size} bytes and {there} are there)")
        self.size_in_bytes = size
        self.memory = view[position : position + size]

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> CompressionType:
        return CompressionType.for_id(self.attributes & COMPRESSION_MASK)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the tombstones or the marker in this batch may be removed; None if the cleaner has
        not set it.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > -1

    @property
    def last_sequence(self) -> int:
        return NO_SEQUENCE if self.base_sequence == NO_SEQUENCE else increment_sequence(self.base_sequence, self.last_offset_delta)

    def compute_crc(self) -> int:
        """CRC-32C of the bytes as they are now (the stored one is `crc`)."""
        return crc32c(self.memory[ATTRIBUTES_POSITION:])

    def is_valid(self) -> bool:
        return crc32c(self.memory[ATTRIBUTES_POSITION:]) == self.crc

    def ensure_valid(self) -> None:
        """Raises CORRUPT_MESSAGE unless the CRC is right."""
        computed = self.compute_crc()
        if computed != self.crc:
            raise corrupt_message(f"Record is corrupt (stored crc = {self.crc}, computed crc = {computed})")

    def payload(self, *, max_size: int = MAX_DECOMPRESSED_SIZE_BYTES) -> Buffer:
        """The records' bytes: a view if they are uncompressed, else the decompressed bytes."""
        payload = self.memory[RECORD_BATCH_OVERHEAD:]
        return decompress(self.compression, payload, max_size=max_size) if self.is_compressed and self.record_count else payload

    def body(self, *, max_size: int = MAX_DECOMPRESSED_SIZE_BYTES) -> memoryview:
        """`payload` as a view."""
        return memoryview(self.payload(max_size=max_size))

    def records(self) -> Iterator[Record]:
        """Yields the records in order.

        INVALID_RECORD or CORRUPT_MESSAGE if the bytes are not what the header claims.
        """
        count = self.record_count
        if count < 0:
            raise invalid_record(f"Found invalid record count {count} in magic v{self.magic} batch")
        if count == 0:
            return
        body = self.body()
        size = len(body)
        base_offset, base_timestamp, base_sequence = self.base_offset, self.base_timestamp, self.base_sequence
        log_append_time = self.max_timestamp if self.attributes & LOG_APPEND_TIME_FLAG else None
        position = 0
        for index in range(1, count + 1):
            if position >= size:
                raise invalid_record("Incorrect declared batch size, premature EOF reached")
            record, position = read_record(
                body,
                position,
                base_offset=base_offset,
                base_timestamp=base_timestamp,
                base_sequence=base_sequence,
                log_append_time=log_append_time,
            )
            if index == count and position != size:
                raise invalid_record("Incorrect declared batch size, records still remaining in file")
            yield record

    def __repr__(self) -> str:
        return (
            f"RecordBatch(magic={self.magic}, offsets=[{self.base_offset}, {self.last_offset}], sequence=[{self.base_sequence}, "
            f"{self.last_sequence}], is_transactional={self.is_transactional}, is_control={self.is_control}, "
            f"compression={self.attributes & COMPRESSION_MASK}, timestamp_type={self.timestamp_type.text}, crc={self.crc})"
        )


def _too_small(size: int) -> ApiException:
    return corrupt_message(
        f"Record batch is corrupt (the size {size} is smaller than the minimum allowed overhead {RECORD_BATCH_OVERHEAD})"
    )


def next_batch_size(buffer: Buffer, position: int, *, end: int | None = None) -> int | None:
    """Bytes of the batch at `position`; None if it is not complete.

    CORRUPT_MESSAGE for an impossible length. The magic is not checked: batches of magic 0 and 1
    have the same length field (Kafka's `ByteBufferLogInputStream.nextBatchSize`).
    """
    remaining = (len(buffer) if end is None else end) - position
    if remaining < HEADER_SIZE_UP_TO_MAGIC:
        if remaining >= LOG_OVERHEAD:
            _check_length(int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True))
        return None
    length: int = _LENGTH_AND_MAGIC.unpack_from(buffer, position)[0]
    if length < MIN_LEGACY_RECORD_SIZE:
        _check_length(length)
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= remaining else None


def _check_length(length: int) -> None:
    if length < MIN_LEGACY_RECORD_SIZE:
        raise corrupt_message(f"Record size {length} is less than the minimum record overhead ({MIN_LEGACY_RECORD_SIZE})")


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Yields the batches in `buffer` from `position` on. An incomplete one at the end is skipped
    silently, as in Kafka.

    CORRUPT_MESSAGE for an impossible length or magic, UNSUPPORTED_FOR_MESSAGE_FORMAT for messages
    of format v0 or v1.
    """
    view = memoryview(buffer)
    while (size := next_batch_size(view, position)) is not None:
        magic = view[position + 16]
        if magic != CURRENT_MAGIC:
            raise wrong_magic(magic)
        yield RecordBatch(view, position)
        position += size
