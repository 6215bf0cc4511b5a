"""Messages of the formats v0 and v1 (before Kafka 0.11), as a consumer finds them in old logs.

    offset i64, size i32, crc32 u32, magic i8, attributes i8, [timestamp i64 in v1],
    key (i32 length, -1 null), value (i32 length, -1 null)

The CRC-32 covers what follows it. Attributes: bits 0-2 codec (none, gzip, snappy, lz4), bit 3
timestamp type (v1). A compressed message is a wrapper: its value is a compressed row of messages of
the same magic. In v0 those carry their own offsets. In v1 they are numbered from the first one, and
the wrapper has the offset of the last one; with LogAppendTime the wrapper's timestamp is that of
all. LZ4 streams of v0 have a wrong header checksum (KAFKA-3160), which is put right here.

A message, or a wrapper with what is in it, stands here as one batch, as in Kafka.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.record.compression import CompressionType, DecompressionError, decompress
from kmirror.record.record import NO_TIMESTAMP, Record, corrupt_message
from kmirror.record.record_batch import COMPRESSION_MASK, CURRENT_MAGIC, LOG_APPEND_TIME_FLAG, RecordBatch, TimestampType, next_batch_size

_HEADER: Final = struct.Struct(">qiIbb")
_LENGTH: Final = struct.Struct(">i")


class LegacyBatch:
    """One message or one wrapper. It has what a consumer asks of a `RecordBatch`."""

    is_control = False
    partition_leader_epoch = -1

    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.size_in_bytes = len(memory)
        if len(memory) < _HEADER.size + 8:
            raise corrupt_message(f"Record is corrupt (the size {len(memory)} is smaller than the minimum of a message)")
        self.last_offset: int
        self.attributes: int
        self.last_offset, _, self.crc, self.magic, self.attributes = _HEADER.unpack_from(memory)
        self.timestamp = struct.unpack_from(">q", memory, _HEADER.size)[0] if self.magic else NO_TIMESTAMP

    @property
    def base_offset(self) -> int:
        """Of a wrapper, only the last offset is outside; the first is found by unpacking."""
        first = next(self.records(), None) if self.is_compressed else None
        return self.last_offset if first is None else first.offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    def ensure_valid(self) -> None:
        """Raises CORRUPT_MESSAGE unless the CRC-32 is right."""
        computed = zlib.crc32(self.memory[16:])
        if computed != self.crc:
            raise corrupt_message(f"Record is corrupt (stored crc = {self.crc}, computed crc = {computed})")

    def records(self) -> Iterator[Record]:
        """Yields the message, or those in the wrapper, in order."""
        key, value = self._key_and_value()
        if not self.is_compressed:
            yield Record(self.last_offset, self.timestamp, key, value, [])
            return
        if value is None:
            raise corrupt_message(f"Found invalid compressed record set with null value (magic = {self.magic})")
        codec = CompressionType.for_id(self.attributes & COMPRESSION_MASK)
        if codec is CompressionType.ZSTD:
            raise ApiException(Errors.UNSUPPORTED_COMPRESSION_TYPE, "ZStandard is not supported in messages of format v0 and v1")
        inner = list(_legacy_batches(memoryview(_unpacked(codec, value))))
        shift = self.last_offset - inner[-1].last_offset if inner and self.magic else 0
        for message in inner:
            if message.is_compressed or message.magic != self.magic:
                raise corrupt_message("Compressed message magic does not match wrapper magic, or is compressed again")
            inner_key, inner_value = message._key_and_value()
            timestamp = self.timestamp if self.timestamp_type is TimestampType.LOG_APPEND_TIME else message.timestamp
            yield Record(message.last_offset + shift, timestamp, inner_key, inner_value, [])

    def _key_and_value(self) -> tuple[memoryview | None, memoryview | None]:
        key, position = self._bytes(_HEADER.size + (8 if self.magic else 0))
        value, position = self._bytes(position)
        return key, value

    def _bytes(self, position: int) -> tuple[memoryview | None, int]:
        if position + 4 > len(self.memory):
            raise corrupt_message("Record is corrupt (a length lies outside of the message)")
        (length,) = _LENGTH.unpack_from(self.memory, position)
        if length < 0:
            return None, position + 4
        end = position + 4 + length
        if end > len(self.memory):
            raise corrupt_message(f"Record is corrupt (a field of {length} bytes does not fit into the message)")
        return self.memory[position + 4 : end], end


def iter_any_batches(buffer: Buffer) -> Iterator[RecordBatch | LegacyBatch]:
    """Yields the batches of any format. An incomplete one at the end is skipped, as in Kafka.
    CORRUPT_MESSAGE for an impossible length or a magic that never existed."""
    view = memoryview(buffer)
    position = 0
    while (size := next_batch_size(view, position)) is not None:
        magic = view[position + 16]
        if magic == CURRENT_MAGIC:
            yield RecordBatch(view, position)
        elif magic > CURRENT_MAGIC:
            raise corrupt_message(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
        else:
            yield LegacyBatch(view[position : position + size])
        position += size


def _legacy_batches(view: memoryview) -> Iterator[LegacyBatch]:
    for batch in iter_any_batches(view):
        if not isinstance(batch, LegacyBatch):
            raise corrupt_message("Compressed message magic does not match wrapper magic")
        yield batch


def _unpacked(codec: CompressionType, value: memoryview) -> Buffer:
    if codec is not CompressionType.LZ4:
        return decompress(codec, value)
    try:
        return decompress(codec, value)
    except DecompressionError:
        return decompress(codec, _with_right_header_checksum(value))


def _with_right_header_checksum(frame: memoryview) -> bytes:
    """The frame with the checksum over its descriptor alone. Old clients computed it over the magic
    number too; a decoder refuses that."""
    if len(frame) < 7:
        raise corrupt_message("LZ4 frame is cut off")
    size = 2 + (8 if frame[4] >> 3 & 1 else 0)
    checksum = _xxh32(bytes(frame[4 : 4 + size])) >> 8 & 0xFF
    return bytes(frame[: 4 + size]) + bytes((checksum,)) + bytes(frame[5 + size :])


def _xxh32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes."""
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = prime5 + len(data) & mask
    position = 0
    while position + 4 <= len(data):
        value = value + int.from_bytes(data[position : position + 4], "little") * prime3 & mask
        value = (value << 17 | value >> 15) & mask
        value = value * prime4 & mask
        position += 4
    for byte in data[position:]:
        value = value + byte * prime5 & mask
        value = (value << 11 | value >> 21) & mask
        value = value * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16
