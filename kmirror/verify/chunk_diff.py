"""Compares two logs by their chunks: what is equal without being read again, and which parts have
to be compared byte by byte.

Both lists are walked together. Intervals are nested or disjoint, so of the two current ones one
contains the other or comes first. The chunks of the finer side are combined. If count and value are
equal and the CRCs hold, the chunks are equal. Everything else, and what only one side has, is a
*part*: from where the logs were last equal to where they are equal again. No batch of a part
reaches into the equal chunk after it: both logs have the first batch of that chunk, and everything
before it lies below. So comparing the parts finds the same differences as comparing everything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kmirror.storage.reader import PartitionFiles
from kmirror.verify.chunks import NO_CHUNKS, Chunks, coalesced
from kmirror.verify.compared_log import Place
from kmirror.verify.fingerprint import concatenated
from kmirror.verify.segment_print import SegmentPrint

NO_END: Final = (1 << 63) - 1


class PartToCompare(NamedTuple):
    """Where to compare byte by byte. Start places of None mean where the comparison begins; end
    places of None mean the ends of both logs, or of what is compared of them."""

    left: Place | None
    right: Place | None
    left_end: Place | None
    right_end: Place | None


class ComparedChunks(NamedTuple):
    """The outcome for one partition."""

    parts: list[PartToCompare]
    equal_bytes: int
    end_offset: int | None = None
    """Where the compared part of both logs ends: there, and not at their ends, a part without end
    places ends. None: at their ends."""


class LogPrint:
    """A partition's prints as one list of chunks, up to the first place that is not sound."""

    def __init__(self, partition: PartitionFiles, prints: Sequence[SegmentPrint]) -> None:
        self.segments = [segment.base_offset for segment in partition.segments]
        found: list[Chunks] = []
        self.is_sound = True
        self.sound_end: Place = (0, 0)
        self.next_offset: int | None = None
        """The offset after the last sound batch."""
        for index, one in enumerate(prints):
            following = self.segments[index + 1] if index + 1 < len(prints) else None
            if following is not None and len(one.chunks) and int(one.chunks["last_offset"][-1]) >= following:
                self.is_sound, self.sound_end = False, (index, 0)
                break
            found.append(one.chunks)
            self.sound_end = (index, one.end_position)
            if len(one.chunks):
                self.next_offset = int(one.chunks["last_offset"][-1]) + 1
            if one.problem is not None or (one.end_position < one.size_bytes and following is not None):
                self.is_sound = False
                break
        self.trailing_bytes = prints[-1].size_bytes - prints[-1].end_position if prints and self.is_sound else 0
        self.chunks = coalesced(np.concatenate(found)) if found else NO_CHUNKS

    def place(self, row: int) -> Place:
        """Returns where a chunk begins; for the row after the last one, where the sound part
        ends."""
        if row >= len(self.chunks):
            return self.sound_end
        chunk = self.chunks[row]
        return bisect_left(self.segments, int(chunk["segment"])), int(chunk["position"])


def compare_chunks(left: LogPrint, right: LogPrint, start_offset: int, end_offset: int | None = None) -> ComparedChunks:
    """Compares from `start_offset` on, the higher of the two log starts, up to `end_offset`
    (exclusive; default: everything)."""
    if end_offset is not None and end_offset <= start_offset:
        return ComparedChunks([], 0, end_offset)
    if any(not log.is_sound and log.segments and start_offset > log.segments[0] for log in (left, right)):
        return ComparedChunks([PartToCompare(None, None, None, None)], 0, end_offset)  # comparing bytes finds offsets in a damaged log
    walk = _Walk(left, right, start_offset, NO_END if end_offset is None else end_offset)
    walk.run()
    return ComparedChunks(walk.parts, walk.equal_bytes, end_offset)


class _Side:
    def __init__(self, log: LogPrint, start_offset: int, end_offset: int) -> None:
        chunks = log.chunks
        self.log = log
        self.row = int(np.searchsorted(chunks["last_offset"], start_offset))
        self.count = int(np.searchsorted(chunks["first_offset"], end_offset))
        self.is_sound = log.is_sound or (log.next_offset or 0) > end_offset
        """Whether everything below the end is sound."""
        self.starts: list[int] = chunks["start"].tolist()
        self.ends: list[int] = (chunks["start"] + (1 << chunks["level"])).tolist()
        self.rows: Any = chunks

    def within(self, end: int) -> int:
        """Returns the first row after the current chunk that is not in the interval up to `end`."""
        return bisect_left(self.starts, end, self.row)


class _Walk:
    def __init__(self, left: LogPrint, right: LogPrint, start_offset: int, end_offset: int) -> None:
        self._left, self._right = _Side(left, start_offset, end_offset), _Side(right, start_offset, end_offset)
        self._start_offset = start_offset
        self._end_offset = end_offset
        self.parts: list[PartToCompare] = []
        self.equal_bytes = 0
        self._open: tuple[Place | None, Place | None] | None = None
        """Where the current part begins."""

    def run(self) -> None:
        left, right = self._left, self._right
        while left.row < left.count or right.row < right.count:
            end = self._interval_end()
            rows = left.within(end), right.within(end)
            size = self._equal_size(rows)
            if size is None:
                self._differs()
            else:
                self._agrees()
                self.equal_bytes += size
            left.row, right.row = rows
        if not (left.is_sound and right.is_sound):
            self._differs()
        if self._open is not None:
            self.parts.append(PartToCompare(*self._open, None, None))

    def _interval_end(self) -> int:
        """Returns the end of the first current interval, or of the larger one that contains it."""
        sides = [side for side in (self._left, self._right) if side.row < side.count]
        end = min(side.ends[side.row] for side in sides)
        return max(side.ends[side.row] for side in sides if side.starts[side.row] < end)

    def _equal_size(self, rows: tuple[int, int]) -> int | None:
        """Returns the bytes that both sides have from the current rows to `rows`; None if these are
        not equal."""
        left, right = (_together(side, row) for side, row in zip((self._left, self._right), rows))
        if left is None or right is None or left[:2] != right[:2] or min(left[3], right[3]) < self._start_offset:
            return None
        if any(int(side.rows["last_offset"][row - 1]) >= self._end_offset for side, row in zip((self._left, self._right), rows)):
            return None
        return left[2]

    def _differs(self) -> None:
        if self._open is None:
            sides = self._left, self._right
            is_cut = any(side.row < side.count and int(side.rows["first_offset"][side.row]) < self._start_offset for side in sides)
            left, right = (side.log.place(side.row) for side in sides)
            self._open = (None, None) if is_cut else (left, right)

    def _agrees(self) -> None:
        if self._open is not None:
            left, right = (side.log.place(side.row) for side in (self._left, self._right))
            self.parts.append(PartToCompare(*self._open, left, right))
            self._open = None


def _together(side: _Side, behind: int) -> tuple[int, int, int, int] | None:
    """Returns (value, batches, bytes, first offset) of the chunks from the current one on; None if
    there is none, or a CRC in them does not hold."""
    value, count, size = 0, 0, 0
    for row in side.rows[side.row : behind]:
        if row["bad_crc_count"]:
            return None
        value = concatenated(value, count, int(row["value"]))
        count += int(row["batch_count"])
        size += int(row["size_bytes"])
    return (value, count, size, int(side.rows["first_offset"][side.row])) if count else None
