"""The partial of one slice: the work of a task.

One pass over the headers feeds every part. Bytes that cannot be read end the slice with a problem
in its structure. Everything before them counts; what the rest would have said is unknown (`close`
takes that into account before it calls a file wrong).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kmirror.common.errors import CorruptFileError, disk_error_text
from kmirror.common.ports import FileSystem
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD
from kmirror.storage.index_reader import OFFSET_INDEX_DTYPE, TIME_INDEX_DTYPE
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, LOG_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX
from kmirror.storage.reader import BLOCK_BYTES
from kmirror.verify.header_scan import HeaderBlock, read_headers
from kmirror.verify.replay import leader_epochs, structure
from kmirror.verify.replay.indexes import OffsetIndexScan, TimeIndexScan
from kmirror.verify.replay.leader_epochs import Runs
from kmirror.verify.replay.partial import ReplayPartial, Section, SegmentPart, merge_sections
from kmirror.verify.replay.producer_scan import ProducerScan
from kmirror.verify.replay.record_check import record_problems
from kmirror.verify.replay.structure import GONE, BatchPlace, Structure
from kmirror.verify.slices import LogSlice


def replay_slice(
    files: FileSystem,
    piece: LogSlice,
    *,
    cuts: Sequence[int] = (),
    check_crc: bool = True,
    unpack: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> ReplayPartial:
    """Returns the partial of `piece`. `cuts` are the offsets of all snapshots and segments of the
    partition, ascending, the same for all its slices.

    Damage is reported in the partial, and so is a file that cannot be read.
    """
    replay = _SliceReplay(files, piece, cuts)
    try:
        replay.read(check_crc=check_crc, block_bytes=block_bytes)
        if unpack:
            replay.check_records(check_crc=check_crc)
    except CorruptFileError as error:
        replay.add_problem(error.position, "corrupt", error.reason)
    except FileNotFoundError:
        replay.add_problem(piece.start, GONE, "the segment was listed, but its file no longer exists")
    except OSError as error:
        replay.add_problem(piece.start, "unreadable", disk_error_text(error))
    return replay.finish()


class _SliceReplay:
    def __init__(self, files: FileSystem, piece: LogSlice, cuts: Sequence[int]) -> None:
        self._files = files
        self._piece = piece
        self._cuts = cuts
        self._structure = Structure()
        self._epochs: Runs = ()
        self._sections: tuple[Section, ...] = ()
        self._section: tuple[int, int, ProducerScan] | None = None
        """(cut, first offset, scan) of the section under way."""
        self._next_offset = piece.base_offset
        self._offset_index = OffsetIndexScan(np.empty(0, OFFSET_INDEX_DTYPE), piece.base_offset, start=piece.start)
        self._time_index = TimeIndexScan(np.empty(0, TIME_INDEX_DTYPE), piece.base_offset)

    def read(self, *, check_crc: bool, block_bytes: int) -> None:
        """Reads through the slice; what was read before an error counts."""
        files, piece = self._files, self._piece
        stem = piece.path.removesuffix(LOG_FILE_SUFFIX)
        index, time_index = stem + INDEX_FILE_SUFFIX, stem + TIME_INDEX_FILE_SUFFIX
        if files.exists(index):
            self._offset_index = OffsetIndexScan(_entries(files, index, OFFSET_INDEX_DTYPE, piece), piece.base_offset, start=piece.start)
        if files.exists(time_index):
            self._time_index = TimeIndexScan(_entries(files, time_index, TIME_INDEX_DTYPE, piece), piece.base_offset)
        for block in read_headers(files, piece, check_crc=check_crc, block_bytes=block_bytes):
            self._add(block)

    def check_records(self, *, check_crc: bool) -> None:
        """Adds the batches whose records are not what their headers say."""
        for problem in record_problems(self._files, self._piece, check_crc=check_crc):
            self._structure = self._structure.with_problem(problem)

    def add_problem(self, position: int, kind: str, text: str) -> None:
        """Adds the problem that ends the slice."""
        self._structure = self._structure.with_problem(BatchPlace(position, self._next_offset, self._next_offset, kind, text))

    def finish(self) -> ReplayPartial:
        piece = self._piece
        self._end_section()
        segment = SegmentPart(
            piece.base_offset, piece.path, piece.segment_size, self._structure, self._offset_index.check, self._time_index.check
        )
        return ReplayPartial((segment,), self._epochs, self._sections)

    def _add(self, block: HeaderBlock) -> None:
        self._structure = structure.merge(self._structure, structure.of_block(block))
        self._epochs = leader_epochs.merge(self._epochs, leader_epochs.of_block(block))
        self._offset_index.add(block)
        self._time_index.add(block)
        base = block.headers["base_offset"]
        start, count = 0, len(base)
        while start < count:
            cut_index = bisect_right(self._cuts, int(base[start]))
            cut = self._cuts[cut_index - 1] if cut_index else -1
            stop = count
            if cut_index < len(self._cuts):
                above = base[start:] >= self._cuts[cut_index]
                stop = start + int(np.argmax(above)) if above.any() else count
            self._add_rows(block, start, stop, cut)
            start = stop
        self._next_offset = int(base[-1]) + int(block.headers["last_offset_delta"][-1]) + 1

    def _add_rows(self, block: HeaderBlock, start: int, stop: int, cut: int) -> None:
        if self._section is None or self._section[0] != cut:
            self._end_section()
            self._section = (cut, int(block.headers["base_offset"][start]), ProducerScan())
        self._section[2].add(block, start, stop)
        last = stop - 1
        self._next_offset = int(block.headers["base_offset"][last]) + int(block.headers["last_offset_delta"][last]) + 1

    def _end_section(self) -> None:
        if self._section is not None:
            cut, first_offset, scan = self._section
            self._sections = merge_sections(self._sections, (Section(cut, first_offset, self._next_offset, scan.finish()),))
            self._section = None


def _entries(files: FileSystem, path: str, dtype: np.dtype[Any], piece: LogSlice) -> npt.NDArray[Any]:
    """Returns the slots of an index, at most as many as the segment can have batches (and one
    more): an open index has room for a million in reserve."""
    count = piece.segment_size // RECORD_BATCH_OVERHEAD + 2
    file = files.open(path, write=False)
    try:
        data = file.pread(min(count * dtype.itemsize, file.size()), 0)
    finally:
        file.close()
    return np.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)
