"""Two large logs of one partition, cut into pieces that can be compared separately: bytes against
bytes, on many machines.

A cut is an offset at which a batch begins in both logs. No difference reaches across a cut, because
both logs have a boundary there. None is joined with the one after it, because what is missing on
one side cannot begin there. The left log's offset index proposes a cut every `task_bytes`, and the
right log is searched for the same offset. Without a common batch there is no cut, and the piece
grows.

Pieces whose bytes are equal need nothing more. The others become `PartToCompare`s, in their order, for
`diff_parts`. A part that is itself large is cut in the same way (`cut_part`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.verify.chunk_diff import ComparedChunks, PartToCompare
from kmirror.verify.compared_log import DirectoryLog, Place
from kmirror.verify.log_diff import BLOCK_BYTES, places_of
from kmirror.verify.planner import index_entries

WHOLE: Final = PartToCompare(None, None, None, None)


class PairedSlice(NamedTuple):
    """A range of both logs, from one place to another in each."""

    left: Place
    left_end: Place
    right: Place
    right_end: Place
    left_bytes: int
    right_bytes: int


def is_large(left: DirectoryLog, right: DirectoryLog, task_bytes: int) -> bool:
    """Whether two logs are worth cutting."""
    return left.size_bytes > task_bytes * 3 // 2 and bool(right.partition.segments)


def paired_slices(left: DirectoryLog, right: DirectoryLog, task_bytes: int, end_offset: int | None = None) -> list[PairedSlice]:
    """Returns the pieces of two logs, from the higher log start on, up to `end_offset` or the ends
    of both; none if the logs are small or cannot be cut."""
    if not is_large(left, right, task_bytes):
        return []
    try:
        return list(_slices(left, right, _bounded(left, right, WHOLE, end_offset), task_bytes))
    except (KmirrorError, OSError):
        return []  # comparing them whole reports what is wrong


def _bounded(left: DirectoryLog, right: DirectoryLog, part: PartToCompare, end_offset: int | None) -> PartToCompare:
    """Returns a part without end places as one that ends at `end_offset`."""
    if part.left_end is not None or end_offset is None:
        return part
    left_end, right_end = places_of(left, right, end_offset)
    return part._replace(left_end=left_end, right_end=right_end)


def cut_part(
    left: DirectoryLog, right: DirectoryLog, part: PartToCompare, task_bytes: int, end_offset: int | None = None
) -> list[PartToCompare]:
    """Returns the part in pieces, or unchanged if it is small or cannot be cut. A part without end
    places ends at `end_offset`."""
    start, end = part.left or (0, 0), part.left_end or _end(left)
    if _bytes_between(left, start, end) <= task_bytes * 3 // 2 or not right.partition.segments:
        return [part]
    try:
        pieces = list(_slices(left, right, _bounded(left, right, part, end_offset), task_bytes))
    except (KmirrorError, OSError):
        return [part]  # comparing it reports what is wrong
    made = [PartToCompare(piece.left, piece.right, piece.left_end, piece.right_end) for piece in pieces]
    made[0] = made[0]._replace(left=part.left, right=part.right)
    made[-1] = made[-1]._replace(left_end=part.left_end, right_end=part.right_end)
    return made


def part_bytes(left: DirectoryLog, right: DirectoryLog, part: PartToCompare) -> int:
    """Returns the bytes of both logs together."""
    sizes = ((left, part.left, part.left_end), (right, part.right, part.right_end))
    return sum(_bytes_between(log, start or (0, 0), end or _end(log)) for log, start, end in sizes)


def _slices(left: DirectoryLog, right: DirectoryLog, part: PartToCompare, task_bytes: int) -> Iterator[PairedSlice]:
    start_offset = max(left.log_start_offset, right.log_start_offset)
    if part.left is None or part.right is None:
        with closing(left.cursor(start_offset)) as one, closing(right.cursor(start_offset)) as two:
            places = one.place, two.place
    else:
        places = part.left, part.right
    ends = part.left_end or _end(left), part.right_end or _end(right)
    for cut in _proposed(left, places[0], ends[0], task_bytes):
        with closing(left.cursor_at(cut)) as cursor:
            head = cursor.peek()
        if head is None:
            break
        offset = head.batch.base_offset
        with closing(right.cursor(offset)) as cursor:
            other = cursor.peek()
            found = cursor.place
        if offset <= start_offset or other is None or other.batch.base_offset != offset or not places[1] < found < ends[1]:
            continue
        yield _slice(left, right, (places[0], cut), (places[1], found))
        places = cut, found
    yield _slice(left, right, (places[0], ends[0]), (places[1], ends[1]))


def _slice(left: DirectoryLog, right: DirectoryLog, ours: tuple[Place, Place], theirs: tuple[Place, Place]) -> PairedSlice:
    return PairedSlice(*ours, *theirs, _bytes_between(left, *ours), _bytes_between(right, *theirs))


def _proposed(log: DirectoryLog, start: Place, end: Place, task_bytes: int) -> Iterator[Place]:
    """Yields places between two others where batches begin in a log, about `task_bytes` apart."""
    last = start
    for index, segment in enumerate(log.partition.segments):
        if index < start[0] or not segment.log_size:
            continue
        if (index, 0) >= end:
            return
        if index > start[0] and _bytes_between(log, last, (index, 0)) >= task_bytes:
            last = (index, 0)
            yield last
        positions = index_entries(log.files, segment)["position"] if segment.log_size > task_bytes // 2 else ()
        while True:
            wanted = task_bytes - _bytes_between(log, last, (index, 0))
            row = bisect_left(positions, max(wanted, last[1] + 1 if last[0] == index else 1))
            if row == len(positions) or segment.log_size - int(positions[row]) < task_bytes // 2:
                break
            if _bytes_between(log, (index, int(positions[row])), end) < task_bytes // 2:
                return
            last = (index, int(positions[row]))
            yield last


def _end(log: DirectoryLog) -> Place:
    segments = log.partition.segments
    return (len(segments) - 1, segments[-1].log_size) if segments else (0, 0)


def _bytes_between(log: DirectoryLog, start: Place, end: Place) -> int:
    segments = log.partition.segments
    return sum(segment.log_size for segment in segments[start[0] : end[0]]) - start[1] + end[1]


def are_equal(left: DirectoryLog, right: DirectoryLog, piece: PairedSlice) -> bool:
    """Whether both logs have equal bytes. OSError, or CorruptFileError if a file became shorter."""
    if piece.left_bytes != piece.right_bytes:
        return False
    with closing(left.cursor_at(piece.left, piece.left_end)) as one, closing(right.cursor_at(piece.right, piece.right_end)) as two:
        while size := min(one.remaining(), two.remaining(), BLOCK_BYTES):
            if one.read(size) != two.read(size):
                return False
    return True


def outcome_of(slices: Sequence[PairedSlice], equal: Sequence[bool]) -> ComparedChunks:
    """Returns what `diff_parts` is to compare."""
    parts = []
    for index, (piece, is_equal) in enumerate(zip(slices, equal)):
        if not is_equal:
            is_last = index + 1 == len(slices)
            ends = (None, None) if is_last else (piece.left_end, piece.right_end)
            parts.append(PartToCompare(piece.left, piece.right, *ends))
    return ComparedChunks(parts, sum(piece.left_bytes for piece, is_equal in zip(slices, equal) if is_equal))
