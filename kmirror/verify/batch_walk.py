"""The batches of a slice, each checked before it is trusted, for callers that read records.

Anything that is not a batch of the log is an error that names file and byte or, for a caller who
wants the rest, a `BadBytes` between the sound batches: an impossible length, another magic, an
offset that cannot follow, a wrong CRC, an incomplete batch that is no append under way (`tail`).
After a bad batch the walk goes on right behind it if a sound one begins there, otherwise where the
next sound one begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.record.record_batch import ATTRIBUTES_POSITION, CURRENT_MAGIC, RecordBatch
from kmirror.storage.reader import BatchBlock, SegmentReader
from kmirror.verify.slices import LogSlice
from kmirror.verify.tail import begins_batch, find_batch, tail_problem

WALK_BLOCK_BYTES: Final = 4 << 20
_LAST_RELATIVE_OFFSET: Final = (1 << 31) - 1


class SoundBatches(NamedTuple):
    """Batches that follow each other: views into one buffer, and their byte positions in the
    segment."""

    positions: list[int]
    batches: list[RecordBatch]


class BadBytes(NamedTuple):
    """Bytes `position` to `end` of a segment are no sound batch."""

    position: int
    end: int
    offset: int
    """The offset in the batch's header, or the next offset that the log would have."""
    reason: str


def walk(
    files: FileSystem, piece: LogSlice, *, check_crc: bool = True, skip_bad: bool = False, block_bytes: int = WALK_BLOCK_BYTES
) -> Iterator[SoundBatches | BadBytes]:
    """Yields the batches of `piece` in order. CorruptFileError at the first bad one, unless
    `skip_bad` asks for `BadBytes`."""
    walker = _Walker(files, piece, check_crc=check_crc)
    position = piece.start
    while position < piece.end:
        yield from walker.sound(position, block_bytes)
        bad = walker.bad
        if bad is None:
            return
        if not skip_bad:
            raise CorruptFileError(piece.path, bad.position, bad.reason)
        yield bad
        position = bad.end


class _Walker:
    def __init__(self, files: FileSystem, piece: LogSlice, *, check_crc: bool) -> None:
        self._files = files
        self._piece = piece
        self._check_crc = check_crc
        self._next_offset = piece.base_offset
        self.bad: BadBytes | None = None
        """Why `sound` ended before the slice did."""

    def sound(self, position: int, block_bytes: int) -> Iterator[SoundBatches]:
        """Yields the batches from `position` to the end or to the first bad one."""
        self.bad = None
        with SegmentReader(self._files, self._piece.path, start=position, end=self._piece.end) as reader:
            try:
                for block in reader.blocks(block_bytes=block_bytes):
                    count = self._sound_count(block)
                    if count:
                        yield SoundBatches(block.positions[:count], block.batches[:count])
                    if self.bad is not None:
                        return
            except CorruptFileError as error:
                self.bad = self._bad(error.position, error.reason, self._next_offset)
                return
            if reader.valid_bytes < self._piece.end:
                with closing(self._files.open(self._piece.path, write=False)) as file:
                    problem = tail_problem(file, self._piece, reader.valid_bytes, self._next_offset)
                if problem is not None:
                    self.bad = self._bad(reader.valid_bytes, problem, self._next_offset)

    def _sound_count(self, block: BatchBlock) -> int:
        for row, batch in enumerate(block.batches):
            problem = self._problem(batch)
            if problem is not None:
                position = block.positions[row]
                self.bad = self._bad(position, problem, batch.base_offset, batch_end=position + batch.size_in_bytes)
                return row
            self._next_offset = batch.next_offset
        return len(block.batches)

    def _problem(self, batch: RecordBatch) -> str | None:
        if batch.magic != CURRENT_MAGIC:
            return f"a batch of magic {batch.magic}; only message format v2 can be read"
        if self._check_crc and crc32c(batch.memory[ATTRIBUTES_POSITION:]) != batch.crc:
            return f"the CRC of the batch at offset {batch.base_offset} is {batch.compute_crc()}, its header says {batch.crc}"
        expected, most = self._next_offset, self._piece.base_offset + _LAST_RELATIVE_OFFSET
        if not expected <= batch.base_offset <= batch.last_offset <= most:
            if batch.last_offset <= most:
                self._next_offset = batch.next_offset  # one of two that do not fit is wrong, not all that follow
            return f"a batch with offsets {batch.base_offset} to {batch.last_offset}, and offset {expected} is the next"
        return None

    def _bad(self, position: int, reason: str, offset: int, *, batch_end: int | None = None) -> BadBytes:
        piece, least = self._piece, self._piece.base_offset
        with closing(self._files.open(piece.path, write=False)) as file:
            if batch_end is not None and (batch_end >= piece.end or begins_batch(file, piece, batch_end, least)):
                end = batch_end
            else:
                found = find_batch(file, piece, position + 1, least)
                end = piece.end if found is None else found
        return BadBytes(position, end, offset, reason)
