"""What lies where no whole batch begins: an append under way, or corruption that hides what
follows.

The CRC does not cover the length in a batch's header. A length that is too large looks like a batch
that a broker is just writing, or that a crash cut off, so everything after it would be left out
silently. At the end of a partition's last segment, an incomplete batch is sound only if

    its base offset can follow the batch before it, and its magic is 2,
    its CRC is not that of the bytes that are there (otherwise it is whole, and its length is
      wrong), and
    no whole batch with a valid CRC and a later offset follows it.

Anywhere else an incomplete batch is corruption. One case cannot be told: a last batch whose length
and CRC are both wrong. Kafka cuts it off.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import File, FileSystem
from kmirror.record.record_batch import (
    ATTRIBUTES_POSITION,
    CURRENT_MAGIC,
    HEADER,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
)
from kmirror.verify.slices import LogSlice

_STEP_BYTES: Final = 4 << 20
_LAST_RELATIVE_OFFSET: Final = (1 << 31) - 1
_CRC: Final = struct.Struct(">I")


def check_tail(files: FileSystem, piece: LogSlice, position: int, next_offset: int) -> None:
    """CorruptFileError unless the bytes of a slice from `position` on can be an append under way;
    `next_offset` is the one after the last batch."""
    if position >= piece.end:
        return
    file = files.open(piece.path, write=False)
    try:
        problem = tail_problem(file, piece, position, next_offset)
    finally:
        file.close()
    if problem is not None:
        raise CorruptFileError(piece.path, position, problem)


def tail_problem(file: File, piece: LogSlice, position: int, next_offset: int) -> str | None:
    """Returns what is wrong with the bytes from `position` to the end of the slice, None if they
    can be an append under way."""
    left = piece.end - position
    if not (piece.is_last_segment and piece.ends_segment):
        return f"{_claim(file, position, left)}: {left} bytes are left up to byte {piece.end}, and this is not the end of the log"
    head = file.pread(min(RECORD_BATCH_OVERHEAD, left), position)
    if len(head) < min(RECORD_BATCH_OVERHEAD, left):
        return "the file became shorter while it was read"
    if len(head) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    base_offset = int.from_bytes(head[:8], "big", signed=True)
    if not next_offset <= base_offset <= _most_offset(piece):
        return f"no batch: it would have offset {base_offset}, and offset {next_offset} is the next"
    if head[16] != CURRENT_MAGIC:
        return f"no batch: its magic would be {head[16]}"
    if left >= RECORD_BATCH_OVERHEAD and _crc_of(file, position + ATTRIBUTES_POSITION, piece.end) == _CRC.unpack_from(head, 17)[0]:
        return f"{_claim(file, position, left)}, but its CRC is that of the {left} bytes that are there"
    behind = find_batch(file, piece, position + 1, next_offset + 1)
    if behind is not None:
        return f"{_claim(file, position, left)} of the {left} that are left, but a whole batch begins at byte {behind}"
    return None


def find_batch(file: File, piece: LogSlice, start: int, least_offset: int) -> int | None:
    """Returns the first byte from `start` on where a whole batch begins: plausible header, base
    offset at least `least_offset`, valid CRC."""
    while piece.end - start >= RECORD_BATCH_OVERHEAD:
        data = file.pread(min(_STEP_BYTES, piece.end - start), start)
        if len(data) < RECORD_BATCH_OVERHEAD:
            return None
        for row in _candidates(data, piece.end - start, least_offset, _most_offset(piece)):
            header = HEADER.unpack_from(data, row)
            size = header[1] + LOG_OVERHEAD
            if _crc_of(file, start + row + ATTRIBUTES_POSITION, start + row + size) == header[4]:
                return start + row
        start += len(data) - RECORD_BATCH_OVERHEAD + 1
    return None


def begins_batch(file: File, piece: LogSlice, position: int, least_offset: int) -> bool:
    """Whether a whole batch with a valid CRC begins at `position`."""
    head = file.pread(min(RECORD_BATCH_OVERHEAD, piece.end - position), position)
    if len(head) < RECORD_BATCH_OVERHEAD or 0 not in _candidates(head, piece.end - position, least_offset, _most_offset(piece)):
        return False
    header = HEADER.unpack(head)
    return _crc_of(file, position + ATTRIBUTES_POSITION, position + header[1] + LOG_OVERHEAD) == int(header[4])


def _most_offset(piece: LogSlice) -> int:
    return piece.base_offset + _LAST_RELATIVE_OFFSET


def _candidates(data: bytes, left: int, least_offset: int, most_offset: int) -> list[int]:
    """Returns where a header could begin in `data`; `left` bytes are left up to the end of the
    slice."""
    array = np.frombuffer(data, dtype=np.uint8)
    rows = np.flatnonzero(array[16 : len(array) - RECORD_BATCH_OVERHEAD + 17] == CURRENT_MAGIC)
    offset = array[rows[:, None] + np.arange(8)].view(">i8").reshape(-1)
    rows = rows[(offset >= least_offset) & (offset <= most_offset)]
    length = array[rows[:, None] + np.arange(8, 12)].view(">i4").reshape(-1)
    fits = (length >= RECORD_BATCH_OVERHEAD - LOG_OVERHEAD) & (length + LOG_OVERHEAD <= left - rows)
    found: list[int] = rows[fits].tolist()
    return found


def _crc_of(file: File, start: int, end: int) -> int:
    crc = 0
    while start < end:
        data = file.pread(min(_STEP_BYTES, end - start), start)
        if not data:
            break
        crc = crc32c(data, crc)
        start += len(data)
    return crc


def _claim(file: File, position: int, left: int) -> str:
    head = file.pread(min(LOG_OVERHEAD, left), position)
    if len(head) < LOG_OVERHEAD:
        return "the last batch is not whole"
    return f"a batch claims {int.from_bytes(head[8:12], 'big', signed=True) + LOG_OVERHEAD} bytes"
