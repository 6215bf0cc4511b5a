"""Offsets of a partition on disk by time, and the offset after its last record: what a broker
answers to ListOffsets.

To find the first record at or after a time (Kafka's `UnifiedLog.fetchOffsetByTimestamp`), segments
whose time index ends before it are skipped. The time index of the next one says from which offset
on to look, headers say in which batch, and only that batch is unpacked. Without a time index the
headers of the segment are read. The last segment's index may lack its newest entry, so that segment
is always searched.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.record.columns import Int64s
from kmirror.record.record_batch import LOG_OVERHEAD, RecordBatch
from kmirror.storage.index_reader import read_time_index
from kmirror.storage.log_file_names import TIME_INDEX_FILE_SUFFIX
from kmirror.storage.reader import PartitionFiles, SegmentFiles
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.header_scan import read_headers
from kmirror.verify.planner import MAX_OFFSET, Listing
from kmirror.verify.slices import LogSlice
from kmirror.verify.unpacking import MalformedBatchError, Unpacker


def log_end_offset(files: FileSystem, partition: PartitionFiles) -> int:
    """Returns the offset after the last whole batch."""
    return DirectoryLog(files, partition).log_end_offset()


def offset_for_time(files: FileSystem, listing: Listing, partition: PartitionFiles, timestamp: int, *, log_start: int) -> int | None:
    """Returns the offset of the first record from `log_start` on whose timestamp is `timestamp`
    (ms) or later; None if there is none. What DeleteRecords removed lies below `log_start`."""
    segments = partition.segments
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if not is_last and segments[index + 1].base_offset <= log_start:
            continue
        times, offsets = time_index_entries(files, segment)
        if len(times) and times[-1] < timestamp and not is_last:
            continue
        before = int(np.searchsorted(times, timestamp)) - 1  # everything up to its offset is older
        low = max(int(offsets[before]) if before >= 0 else segment.base_offset, log_start)
        high = MAX_OFFSET if is_last else segments[index + 1].base_offset - 1
        for piece in listing.slices(files, partition, low=low, high=high):
            found = _first_at(files, piece, timestamp, log_start)
            if found is not None:
                return found
    return None


def time_index_entries(files: FileSystem, segment: SegmentFiles) -> tuple[Int64s, Int64s]:
    """Returns the (timestamps, offsets) of a segment's time index up to the first entry that cannot
    be true: both must ascend."""
    none = np.zeros(0, dtype=np.int64)
    if not segment.sizes.get(TIME_INDEX_FILE_SUFFIX, 0):
        return none, none
    rows = read_time_index(files, segment.path(TIME_INDEX_FILE_SUFFIX))
    times = rows["timestamp"].astype(np.int64)
    offsets = rows["relative_offset"].astype(np.int64)
    sound = (times >= 0) & (offsets >= 0)
    sound[1:] &= (np.diff(times) > 0) & (np.diff(offsets) >= 0)
    count = len(sound) if sound.all() else int(np.argmin(sound))
    return times[:count], offsets[:count] + segment.base_offset


def _first_at(files: FileSystem, piece: LogSlice, timestamp: int, log_start: int) -> int | None:
    for block in read_headers(files, piece, check_crc=False):
        last_offset = block.headers["base_offset"] + block.headers["last_offset_delta"]
        rows = np.flatnonzero((block.headers["max_timestamp"] >= timestamp) & (last_offset >= log_start)).tolist()
        sizes = (block.headers["length"][rows] + LOG_OVERHEAD).tolist()
        for position, batch in _batches(files, piece, block.positions[rows].tolist(), sizes):
            found = _first_record(piece, position, batch, timestamp, log_start)
            if found is not None:
                return found
    return None


def _batches(files: FileSystem, piece: LogSlice, positions: list[int], sizes: list[int]) -> Iterator[tuple[int, RecordBatch]]:
    file = files.open(piece.path, write=False)
    try:
        for position, size in zip(positions, sizes):
            batch = RecordBatch(file.pread(size, position))
            if not batch.is_valid():
                raise CorruptFileError(piece.path, position, f"the CRC of the batch at offset {batch.base_offset} is wrong")
            yield position, batch
    finally:
        file.close()


def _first_record(piece: LogSlice, position: int, batch: RecordBatch, timestamp: int, log_start: int) -> int | None:
    if batch.is_control:
        return batch.base_offset
    try:
        for _, records in Unpacker().pieces([batch]):
            rows = np.flatnonzero((records.timestamp >= timestamp) & (records.offset >= log_start))
            if len(rows):
                return int(records.offset[rows[0]])
    except MalformedBatchError as error:
        raise CorruptFileError(piece.path, position, error.problem.message) from error
    return None
