"""Walking the batches of a `.log` file from a position on.

As in Kafka's file scanner, a tail too short for a batch (17 bytes or less, or less than its length
says) is silently taken for the end of the log, and a length below 14 is corruption. A message of
format v0 or v1 with a valid CRC is reported as such; it is neither skipped nor cut off. If its CRC
is not valid, the magic byte is just a byte that a torn write left.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import File
from kmirror.record.record_batch import (
    CURRENT_MAGIC,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_LEGACY_RECORD_SIZE,
    RECORD_BATCH_OVERHEAD,
)
from kmirror.storage.batch_header import BatchHeader, unpack_header

HEADER_BLOCK_BYTES: Final = 4096
SCAN_BLOCK_BYTES: Final = 1 << 20


class CorruptBatchError(CorruptFileError):
    """The bytes at this position are not a valid batch; recovery cuts the log here."""


def read_header(file: File, position: int, end: int) -> BatchHeader | None:
    """The header at `position` if a whole batch lies before `end`."""
    return next(scan_headers(file, position, end, block_bytes=RECORD_BATCH_OVERHEAD), None)


def scan_headers(file: File, position: int, end: int, *, block_bytes: int = HEADER_BLOCK_BYTES) -> Iterator[BatchHeader]:
    """Yields the headers of the whole batches in [position, end); records are neither read nor
    checked.
    """
    block = b""
    block_position = position
    while position < end - HEADER_SIZE_UP_TO_MAGIC:
        start = position - block_position
        if start < 0 or start + RECORD_BATCH_OVERHEAD > len(block):
            block = file.pread(min(block_bytes, end - position), position)
            block_position, start = position, 0
        header = _header(file, block, start, position, end)
        if header is None:
            return
        yield header
        position = header.end_position


def scan_batches(file: File, position: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yields headers and bytes of the whole batches in [position, end); the CRC is unchecked."""
    block = memoryview(b"")
    block_position = position
    while position < end - HEADER_SIZE_UP_TO_MAGIC:
        start = position - block_position
        if start + RECORD_BATCH_OVERHEAD > len(block):
            block = memoryview(file.pread(min(SCAN_BLOCK_BYTES, end - position), position))
            block_position, start = position, 0
        header = _header(file, block, start, position, end)
        if header is None:
            return
        size = header.size_in_bytes
        if start + size > len(block):
            block = memoryview(file.pread(min(max(size, SCAN_BLOCK_BYTES), end - position), position))
            block_position, start = position, 0
            if len(block) < size:
                return
        yield header, block[start : start + size]
        position += size


def read_block_with_batch(file: File, position: int, end: int) -> bytes:
    """Bytes from `position` on that begin with a whole batch, its CRC unchecked; empty if the log
    ends before one.

    A mebibyte unless the batch is larger. CorruptBatchError if the bytes there are not a batch.
    """
    if position >= end - HEADER_SIZE_UP_TO_MAGIC:
        return b""
    block = file.pread(min(SCAN_BLOCK_BYTES, end - position), position)
    header = _header(file, block, 0, position, end)
    if header is None:
        return b""
    size = header.size_in_bytes
    if size > len(block):
        block = file.pread(size, position)
    return block if len(block) >= size else b""


def refuse_crc(path: str, position: int, stored: int, computed: int) -> None:
    """Raises CorruptBatchError: the batch at `position` says `stored`, its bytes give
    `computed`.
    """
    raise CorruptBatchError(path, position, f"Record is corrupt (stored crc = {stored}, computed crc = {computed})")


def _header(file: File, block: bytes | memoryview, start: int, position: int, end: int) -> BatchHeader | None:
    if len(block) - start < HEADER_SIZE_UP_TO_MAGIC:
        return None
    length = int.from_bytes(block[start + 8 : start + 12], "big", signed=True)
    if length < MIN_LEGACY_RECORD_SIZE:
        raise CorruptBatchError(
            file.path, position, f"found record size {length} smaller than minimum record overhead ({MIN_LEGACY_RECORD_SIZE})"
        )
    if position > end - LOG_OVERHEAD - length:
        return None
    magic = block[start + 16]
    if magic < CURRENT_MAGIC:
        raise _not_our_format(file, position, length, magic)
    if length + LOG_OVERHEAD < RECORD_BATCH_OVERHEAD or len(block) - start < RECORD_BATCH_OVERHEAD:
        raise CorruptBatchError(
            file.path, position, f"a batch of {length + LOG_OVERHEAD} bytes is smaller than its header of {RECORD_BATCH_OVERHEAD}"
        )
    return unpack_header(block, start, position)


def _not_our_format(file: File, position: int, length: int, magic: int) -> CorruptFileError:
    """The error for a message of an old format (CRC-32 of everything after it, at byte 12), or for
    bytes that only look like one.
    """
    message = file.pread(length, position + LOG_OVERHEAD)
    computed, stored = zlib.crc32(message[4:]), int.from_bytes(message[:4], "big")
    if computed != stored:
        return CorruptBatchError(
            file.path, position, f"Record is corrupt (magic {magic}, stored crc = {stored}, computed crc = {computed})"
        )
    text = f"the batch has message format v{magic}, but kmirror reads format v2 only; rewrite the topic with Apache Kafka first"
    return CorruptFileError(file.path, position, text)
