"""The 61 bytes in front of every record batch v2, unpacked once; storage decides everything by them.

    base offset i64 | length i32 | leader epoch i32 | magic i8 | crc u32 | attributes i16 | last offset delta i32 |
    base timestamp i64 | max timestamp i64 | producer id i64 | producer epoch i16 | base sequence i32 | record count i32

The length counts from byte 12 on; the CRC covers byte 21 to the end. Offset, length, epoch and magic are outside it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from kmirror.common.ports import Buffer

LOG_OVERHEAD: Final = 12
HEADER_SIZE_UP_TO_MAGIC: Final = 17
RECORD_BATCH_OVERHEAD: Final = 61
CRC_COVERS_FROM: Final = 21
MIN_BATCH_LENGTH: Final = 14
CURRENT_MAGIC: Final = 2

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

COMPRESSION_CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_FLAG_MASK: Final = 0x10
CONTROL_FLAG_MASK: Final = 0x20
DELETE_HORIZON_FLAG_MASK: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
RawHeader = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The 13 fields as unpacked, without a position: what hot loops work with."""
unpack_raw_header: Final = cast(Callable[[Buffer, int], RawHeader], _HEADER.unpack_from)
assert _HEADER.size == RECORD_BATCH_OVERHEAD, (_HEADER.size, RECORD_BATCH_OVERHEAD)


class BatchHeader(NamedTuple):
    """One batch's header and the position it was read from (in a file or in a buffer)."""

    base_offset: int
    length: int
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
    position: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_in_bytes(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def end_position(self) -> int:
        return self.position + self.length + LOG_OVERHEAD

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG_MASK)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG_MASK)

    @property
    def compression_id(self) -> int:
        return self.attributes & COMPRESSION_CODEC_MASK

    @property
    def last_sequence(self) -> int:
        """Wraps from 2^31 - 1 to 0; -1 when the batch has no sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """`sequence + increment` in Kafka's arithmetic, where 0 follows 2^31 - 1."""
    return (sequence + increment) & 0x7FFFFFFF


def decrement_sequence(sequence: int, decrement: int) -> int:
    return (sequence - decrement) & 0x7FFFFFFF


def unpack_header(buffer: Buffer, position: int, file_position: int) -> BatchHeader:
    """The header at `buffer[position:]`, which must hold 61 bytes; `file_position` becomes `.position`."""
    return tuple.__new__(BatchHeader, (*_HEADER.unpack_from(buffer, position), file_position))
