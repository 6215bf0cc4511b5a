"""The 61-byte header of a record batch v2, unpacked once. Storage makes all its decisions by it.

Layout, sizes and flags are those of `record.record_batch`; this is the header as a value, without
the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, cast

from kmirror.common.ports import Buffer
from kmirror.record.record import NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence
from kmirror.record.record_batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
)

RawHeader = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The 13 fields as unpacked, without a position; hot loops use this form."""
unpack_raw_header: Final = cast(Callable[[Buffer, int], RawHeader], HEADER.unpack_from)
assert HEADER.size == RECORD_BATCH_OVERHEAD, (HEADER.size, RECORD_BATCH_OVERHEAD)


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
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def compression_id(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def last_sequence(self) -> int:
        """Wraps from 2^31 - 1 to 0; -1 if the batch has no sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def unpack_header(buffer: Buffer, position: int, file_position: int) -> BatchHeader:
    """The header at `buffer[position:]`, which must hold 61 bytes; `file_position` becomes
    `.position`.
    """
    return tuple.__new__(BatchHeader, (*HEADER.unpack_from(buffer, position), file_position))
