"""What is known of a segment that was read: its chunks, where its last batch lies, and which file
it was.

A file with the same size, modification time and identity (`file_identity`) as before is not read
again. A file that has grown is read from its old end on, if its former last batch is still in its
place. In one log the same
offset, leader epoch and CRC mean the same batch with the same past (replication relies on that),
and a cleaner rewrites only closed files. Everything else is read again.

Chunks end before the first place that is not sound: no batch, an incomplete one within the log, or
offsets that do not ascend. The byte-by-byte comparison goes on from there, and says what is wrong.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.record.record_batch import ATTRIBUTES_POSITION, RECORD_BATCH_OVERHEAD
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, LOG_FILE_SUFFIX
from kmirror.storage.reader import PartitionFiles, SegmentFiles
from kmirror.verify.chunks import NO_CHUNKS, Chunks, chunks_of, coalesced
from kmirror.verify.file_identity import segment_identity
from kmirror.verify.fingerprint import Uint64s, body_hash
from kmirror.verify.header_scan import HeaderBlock, read_headers
from kmirror.verify.planner import TASK_BYTES, Listing, index_entries
from kmirror.verify.slices import LogSlice

NO_BATCH: Final = -1


class SlicePrint(NamedTuple):
    """What a task finds in one slice."""

    path: str
    base_offset: int
    start: int
    end_position: int
    """Where the last sound batch ends."""
    last_position: int
    """Where the last sound batch begins; NO_BATCH if there is none."""
    last_header: bytes
    """The header of the last sound batch; b"" if there is none."""
    chunks: Chunks
    problem: str | None


@dataclass(frozen=True)
class SegmentPrint:
    """What is known of a whole segment."""

    base_offset: int
    size_bytes: int
    mtime_ms: int
    is_deep: bool
    end_position: int
    last_position: int
    last_header: bytes
    chunks: Chunks
    problem: str | None = None
    identity: str = ""
    """Which file it was (`file_identity`)."""
    bytes_read: int = 0
    """How many bytes of the log were read for this print."""


@dataclass(frozen=True)
class PartitionPlan:
    """What has to be read of a partition, and what is already known of it."""

    known: dict[int, SegmentPrint]
    """By base offset: segments that need not be read, and the known first part of those that have
    grown."""
    mtimes: dict[int, int]
    identities: dict[int, str]
    slices: list[LogSlice]


def plan_partition(
    files: FileSystem,
    partition: PartitionFiles,
    location: str,
    known: Mapping[int, SegmentPrint],
    *,
    is_deep: bool,
    task_bytes: int = TASK_BYTES,
    cleaned_offset: int = 0,
) -> PartitionPlan:
    """Plans what to read. `known` is what an earlier run knew, by base offset."""
    identities = {
        segment.base_offset: segment_identity(files, segment.path(), segment.base_offset, cleaned_offset) for segment in partition.segments
    }
    mtimes = {segment.base_offset: files.mtime_ms(segment.path()) for segment in partition.segments}
    kept: dict[int, SegmentPrint] = {}
    anew = []
    slices: list[LogSlice] = []
    last = partition.segments[-1] if partition.segments else None
    for segment in partition.segments:
        before = known.get(segment.base_offset)
        file = mtimes[segment.base_offset], identities[segment.base_offset]
        is_longer = before is not None and before.size_bytes < segment.log_size
        is_same = before is not None and before.size_bytes == segment.log_size and (before.mtime_ms, before.identity) == file
        if before is None or before.is_deep is not is_deep or not (is_longer or is_same):
            anew.append(segment)
        elif is_same:
            kept[segment.base_offset] = before
        elif before.problem is None and _still_lies(files, segment.path(), before):
            kept[segment.base_offset] = before
            name = partition.topic_partition
            size = segment.log_size
            slices.append(LogSlice(location, segment.path(), *name, segment.base_offset, before.end_position, size, size, segment is last))
        else:
            anew.append(segment)
    chosen = PartitionFiles(partition.path, partition.topic_partition, anew, [], [])
    for piece in Listing(location, partition.path, [chosen], True, {}).slices(files, chosen, task_bytes=task_bytes):
        slices.append(piece._replace(is_last_segment=last is not None and piece.base_offset == last.base_offset))
    return PartitionPlan(kept, mtimes, identities, slices)


def _still_lies(files: FileSystem, path: str, before: SegmentPrint) -> bool:
    """Whether the last batch that an earlier run saw in a file is still where it was."""
    if before.last_position == NO_BATCH:
        return before.size_bytes == 0
    file = files.open(path, write=False)
    try:
        return file.pread(RECORD_BATCH_OVERHEAD, before.last_position) == before.last_header
    finally:
        file.close()


def print_slice(files: FileSystem, piece: LogSlice, *, is_deep: bool) -> SlicePrint:
    """Reads a slice. OSError as the file system says; what is wrong with the bytes is in the
    result."""
    found: list[Chunks] = []
    end, last_position, last_header = piece.start, NO_BATCH, b""
    problem: str | None = None
    next_offset = piece.base_offset
    try:
        for block in read_headers(files, piece, check_crc=True):
            count = _rising(block, next_offset)
            if count < len(block.headers):
                problem = f"{piece.path}: at byte {block.positions[count]}: offsets do not rise"
                block = _first_rows(block, count)
            if count:
                bodies = _bodies(files, piece.path, block) if is_deep else None
                found.append(chunks_of(block.headers, block.positions, block.crc_ok, piece.base_offset, bodies))
                end, last_position = block.end_position, int(block.positions[-1])
                next_offset = int(found[-1]["last_offset"][-1]) + 1
            if problem is not None:
                break
    except CorruptFileError as error:
        problem = str(error)
    if problem is None and end < piece.end and _index_goes_on(files, piece, last_position):
        problem = f"{piece.path}: at byte {end}: a batch claims more than is left, and the index knows of another one"
    if last_position != NO_BATCH:
        file = files.open(piece.path, write=False)
        try:
            last_header = file.pread(RECORD_BATCH_OVERHEAD, last_position)
        finally:
            file.close()
    chunks = coalesced(np.concatenate(found)) if found else NO_CHUNKS
    return SlicePrint(piece.path, piece.base_offset, piece.start, end, last_position, last_header, chunks, problem)


def _index_goes_on(files: FileSystem, piece: LogSlice, last_position: int) -> bool:
    """Whether the offset index knows of a batch after the last one that was found, so that no
    append can be under way there."""
    index = piece.path.removesuffix(LOG_FILE_SUFFIX) + INDEX_FILE_SUFFIX
    if not files.exists(index):
        return False
    segment = SegmentFiles(
        posixpath.dirname(piece.path), piece.base_offset, {LOG_FILE_SUFFIX: piece.segment_size, INDEX_FILE_SUFFIX: files.size(index)}
    )
    positions = index_entries(files, segment)["position"]
    return bool(len(positions)) and int(positions[-1]) > last_position


def _rising(block: HeaderBlock, next_offset: int) -> int:
    """Returns how many batches, from the first on, begin after the end of the one before."""
    first = block.headers["base_offset"].astype(np.int64)
    delta = block.headers["last_offset_delta"].astype(np.int64)
    behind = np.concatenate(([next_offset], (first + delta)[:-1] + 1))
    wrong = np.flatnonzero((first < behind) | (delta < 0))
    return int(wrong[0]) if wrong.size else len(first)


def _first_rows(block: HeaderBlock, count: int) -> HeaderBlock:
    crc_ok = None if block.crc_ok is None else block.crc_ok[:count]
    return HeaderBlock(block.headers[:count], block.positions[:count], crc_ok, [one for one in block.controls if one.row < count])


def _bodies(files: FileSystem, path: str, block: HeaderBlock) -> Uint64s:
    """Returns hashes of what the CRCs cover, which is read once more."""
    file = files.open(path, write=False)
    try:
        begin = int(block.positions[0])
        data = memoryview(file.pread(block.end_position - begin, begin))
    finally:
        file.close()
    starts = (block.positions - begin).tolist()
    ends = [*starts[1:], len(data)]
    return np.array([body_hash(data[start + ATTRIBUTES_POSITION : end]) for start, end in zip(starts, ends)], dtype=np.uint64)


def segment_prints(partition: PartitionFiles, plan: PartitionPlan, read: Sequence[SlicePrint], *, is_deep: bool) -> list[SegmentPrint]:
    """Returns the prints of a partition's segments from what was known and what was `read` of the
    plan's slices (in any order)."""
    by_segment: dict[int, list[SlicePrint]] = {}
    for piece in sorted(read, key=lambda one: (one.base_offset, one.start)):
        by_segment.setdefault(piece.base_offset, []).append(piece)
    return [
        _segment_print(
            segment.base_offset,
            segment.log_size,
            (plan.mtimes[segment.base_offset], plan.identities[segment.base_offset]),
            plan.known.get(segment.base_offset),
            by_segment.get(segment.base_offset, []),
            is_deep=is_deep,
        )
        for segment in partition.segments
    ]


def _segment_print(
    base_offset: int, size_bytes: int, file: tuple[int, str], known: SegmentPrint | None, pieces: list[SlicePrint], *, is_deep: bool
) -> SegmentPrint:
    chunks = [known.chunks] if known is not None else []
    end = known.end_position if known is not None else 0
    last_position, last_header = (known.last_position, known.last_header) if known is not None else (NO_BATCH, b"")
    problem = known.problem if known is not None else None
    for piece in _sound_pieces(pieces, end, chunks):
        if isinstance(piece, str):
            problem = piece
            break
        chunks.append(piece.chunks)
        end, problem = piece.end_position, piece.problem
        if piece.last_position != NO_BATCH:
            last_position, last_header = piece.last_position, piece.last_header
        if problem is not None:
            break
    whole = coalesced(np.concatenate(chunks)) if chunks else NO_CHUNKS
    bytes_read = sum(piece.end_position - piece.start for piece in pieces)
    mtime_ms, identity = file
    return SegmentPrint(base_offset, size_bytes, mtime_ms, is_deep, end, last_position, last_header, whole, problem, identity, bytes_read)


def _sound_pieces(pieces: list[SlicePrint], end: int, before: list[Chunks]) -> Iterator[SlicePrint | str]:
    """Yields the slices as long as each begins where the one before ended, with higher offsets;
    then what is wrong, if anything."""
    last_offset = max((int(chunks["last_offset"][-1]) for chunks in before if len(chunks)), default=-1)
    for piece in pieces:
        if piece.start != end:
            yield f"{piece.path}: at byte {end}: nothing was read up to byte {piece.start}"
            return
        if len(piece.chunks):
            if int(piece.chunks["first_offset"][0]) <= last_offset:
                yield f"{piece.path}: at byte {piece.start}: offsets do not rise"
                return
            last_offset = int(piece.chunks["last_offset"][-1])
        yield piece
        end = piece.end_position
