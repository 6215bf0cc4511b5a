"""What lies inside batches, which their headers and CRCs only claim: `kmirror verify-logs --deep`.

A CRC says that a batch is as it was sealed, not that it was sealed rightly. So each batch is
unpacked, and its records are held against its header: they can be decoded, they are as many as it
says, their offsets ascend within those of the batch, and the newest of their timestamps is its own.

This reads a slice a second time and costs 3 to 40 times the CPU of headers and CRCs alone, by codec
and size of record. Memory is bounded by the unpacker's buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.record.columns import RecordColumns
from kmirror.record.record_batch import LOG_APPEND_TIME_FLAG, RecordBatch
from kmirror.verify.batch_walk import BadBytes, walk
from kmirror.verify.replay.structure import BatchPlace
from kmirror.verify.slices import LogSlice
from kmirror.verify.unpacking import MalformedBatchError, Unpacker

KIND = "records"


def record_problems(files: FileSystem, piece: LogSlice, *, check_crc: bool) -> Iterator[BatchPlace]:
    """Yields the batches of a slice whose records are not what their headers say. Bytes that are
    no sound batch are left out; the walk over headers tells them. OSError as the file system
    says."""
    unpacker = Unpacker()
    try:
        for found in walk(files, piece, check_crc=check_crc, skip_bad=True):
            if not isinstance(found, BadBytes):
                yield from _problems(unpacker, found.positions, found.batches)
    except CorruptFileError:
        return  # so is where the walk ends


def _problems(unpacker: Unpacker, positions: Sequence[int], batches: Sequence[RecordBatch]) -> Iterator[BatchPlace]:
    start = 0
    while start < len(batches):
        rest = batches[start:]
        check = _Check(rest)
        try:
            for first, columns in unpacker.pieces(rest):
                check.add(first, columns)
        except MalformedBatchError as error:
            check.problems[error.index] = f"the records cannot be read: {error.problem.message}"
            check.end(error.index)
            start += error.index + 1
        else:
            check.end(len(rest))
            start = len(batches)
        for index, text in sorted(check.problems.items()):
            batch = rest[index]
            yield BatchPlace(
                positions[len(batches) - len(rest) + index],
                batch.base_offset,
                batch.last_offset,
                KIND,
                text,
            )


class _Check:
    """Takes in the pieces of consecutive batches; a batch may be in several."""

    def __init__(self, batches: Sequence[RecordBatch]) -> None:
        self._batches = batches
        self._last = np.array([batch.base_offset - 1 for batch in batches], dtype=np.int64)
        self._newest = np.full(len(batches), -1, dtype=np.int64)
        self.problems: dict[int, str] = {}

    def add(self, first: int, columns: RecordColumns) -> None:
        if not len(columns.offset):
            return
        batch = columns.batch_index + first
        begins = np.concatenate(([True], batch[1:] != batch[:-1]))
        before = np.where(begins, self._last[batch], np.roll(columns.offset, 1))
        for row in np.flatnonzero(columns.offset <= before).tolist():
            text = f"a record has offset {int(columns.offset[row])}, and {int(before[row]) + 1} is the least that can follow"
            self.problems.setdefault(int(batch[row]), text)
        starts = np.flatnonzero(begins)
        at = batch[starts]
        self._last[at] = np.maximum.reduceat(columns.offset, starts)
        self._newest[at] = np.maximum(self._newest[at], np.maximum.reduceat(columns.timestamp, starts))

    def end(self, count: int) -> None:
        """Holds the first `count` batches, which are complete, against their headers."""
        for index, batch in enumerate(self._batches[:count]):
            if not batch.record_count:
                continue
            last, newest = int(self._last[index]), int(self._newest[index])
            if last > batch.last_offset:
                self.problems.setdefault(index, f"a record has offset {last}, and the batch ends at {batch.last_offset}")
            elif newest != batch.max_timestamp and not batch.attributes & LOG_APPEND_TIME_FLAG:
                text = f"its newest record is of {newest} ms, its header says {batch.max_timestamp}"
                self.problems.setdefault(index, text)
