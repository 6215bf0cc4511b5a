"""One segment: a `.log` with its three indexes (Kafka's `LogSegment`).

The rule for index entries is part of the format, because two brokers that get the same batches
write the same indexes. `bytes_since_last_index_entry` is 0 when the segment is created, opened or
truncated. For each appended batch: update the running largest timestamp; if the counter is *above*
index.interval.bytes, add (last offset of the batch -> its start) to the offset index and (largest
timestamp, last offset of the batch that has it) to the time index, and reset the counter; then add
the batch's size to the counter. So the first batch never gets an entry.

The first segment of a new log has no files until something is appended (`is_deferred`): an idle
partition costs none.

When a segment stops being active, or is closed after its largest timestamp was read, that timestamp
becomes the final entry of the time index, and the indexes are cut to their entries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import Buffer, Clock, FileSystem, Random
from kmirror.record.record import NO_TIMESTAMP
from kmirror.storage.batch_header import BatchHeader, RawHeader
from kmirror.storage.fetch_data_info import FetchDataInfo
from kmirror.storage.file_records import FileRecords
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import MAX_RELATIVE_OFFSET, LogOffsetMetadata
from kmirror.storage.log_segment_files import LogSegmentFiles
from kmirror.storage.log_segment_recovery import SegmentRecovery
from kmirror.storage.offset_index import pack_offset_entry
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.segment_scan import CorruptBatchError, read_header, scan_batches, scan_headers
from kmirror.storage.time_index import TimestampOffset, pack_time_entry

log = logging.getLogger(__name__)
LONG_MAX = (1 << 63) - 1
_INDEXED_FIELDS = itemgetter(0, 1, 6, 8)
"""Base offset, length, last offset delta and max timestamp of a header."""


class LogOffsetPosition(NamedTuple):
    """A batch found by offset: its base offset, start position and size."""

    offset: int
    position: int
    size: int


class LogSegment(LogSegmentFiles):
    """Owner of one segment's files. Offsets are absolute; positions are bytes in the `.log`."""

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        files: FileSystem,
        clock: Clock,
        roll_jitter_ms: int = 0,
        suffix: str = "",
        deferred: bool = False,
    ) -> None:
        super().__init__(directory, base_offset, config, files=files, suffix=suffix)
        self.roll_jitter_ms = roll_jitter_ms
        self._index_interval_bytes = config.index_interval
        self._clock = clock
        self._created_ms = clock.time_ms()
        self._rolling_based_timestamp: int | None = None
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self._bytes_since_last_index_entry = 0
        self._is_synced = False
        self._index_size_to_append: int | None = None
        self._size = self._file.initial_size
        if not deferred:
            self._file.create()

    @classmethod
    def open(
        cls,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        files: FileSystem,
        clock: Clock,
        random: Random,
        suffix: str = "",
        deferred: bool = False,
    ) -> LogSegment:
        """Opens or creates a segment.

        An existing `.log` keeps its size; a new one is empty (preallocated if so configured). A
        `deferred` one is created only with the first append.
        """
        limit = min(config.segment_jitter_ms, config.segment_ms)
        jitter = random.randrange(limit) if limit > 0 else 0
        return cls(directory, base_offset, config, files=files, clock=clock, roll_jitter_ms=jitter, suffix=suffix, deferred=deferred)

    # state
    @property
    def size(self) -> int:
        """Bytes of batches."""
        return self._size

    def mark_synced(self) -> None:
        """Marks the segment as synced: a clean shutdown wrote what is on disk."""
        self._is_synced = True

    @property
    def last_modified_ms(self) -> int:
        return self._created_ms if self.is_deferred else self._files.mtime_ms(self.path)

    @property
    def max_timestamp_and_offset(self) -> TimestampOffset:
        """The largest batch timestamp so far and the last offset of that batch; read from the time
        index on first use.
        """
        if self._max_timestamp_and_offset is None:
            if self.is_deferred:
                return TimestampOffset(NO_TIMESTAMP, self.base_offset)
            self._max_timestamp_and_offset = self.time_index.last_entry
        return self._max_timestamp_and_offset

    @property
    def max_timestamp_so_far(self) -> int:
        return self.max_timestamp_and_offset.timestamp

    @property
    def largest_timestamp(self) -> int:
        """For retention: the largest record timestamp, or the file's time if there is none."""
        timestamp = self.max_timestamp_so_far
        return timestamp if timestamp >= 0 else self.last_modified_ms

    @property
    def first_batch_timestamp(self) -> int:
        """Max timestamp of the first batch; 2^63 - 1 without one (Kafka's
        `getFirstBatchTimestamp`).
        """
        self._load_first_batch_timestamp()
        timestamp = self._rolling_based_timestamp
        return timestamp if timestamp is not None and timestamp >= 0 else LONG_MAX

    def _load_first_batch_timestamp(self) -> None:
        if self._rolling_based_timestamp is None and self._size:
            header = read_header(self._file, 0, self._size)
            if header is not None:
                self._rolling_based_timestamp = header.max_timestamp

    # roll
    def should_roll(
        self, config: LogConfig, *, max_timestamp_in_messages: int, max_offset_in_messages: int, messages_size: int, now_ms: int
    ) -> bool:
        """Whether a new segment must begin first, by five rules: size, time, offset index full,
        time index full, offset too far from the base.
        """
        size = self._size
        if size > config.segment_size - messages_size:
            return True
        if size and self.time_waited_for_roll(now_ms, max_timestamp_in_messages) > config.max_segment_ms - self.roll_jitter_ms:
            return True
        if self._index_size_to_append is not None:
            self.resize_indexes(self._index_size_to_append)
        if self._file.exists and (self.offset_index.is_full or self.time_index.is_full):
            return True
        return not 0 <= max_offset_in_messages - self.base_offset <= MAX_RELATIVE_OFFSET

    def time_waited_for_roll(self, now_ms: int, message_timestamp: int) -> int:
        if self._rolling_based_timestamp is None:
            self._load_first_batch_timestamp()
        first = self._rolling_based_timestamp
        return message_timestamp - first if first is not None and first >= 0 else now_ms - self._created_ms

    def on_become_inactive_segment(self) -> None:
        """Adds the final time index entry, and cuts the indexes and a preallocated log to their
        contents.
        """
        self.create_files()
        largest = self.max_timestamp_and_offset
        self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        if self._file.size() > self._size:
            self._file.truncate(self._size)

    def resize_indexes(self, size: int) -> None:
        if self.is_deferred:
            return
        self._index_size_to_append = None
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def resize_indexes_before_append(self, size: int) -> None:
        """As `resize_indexes`, but only before something is appended: a log that is merely opened
        leaves its indexes unread.
        """
        self._index_size_to_append = size

    # append
    def append(self, largest_offset: int, headers: Iterable[BatchHeader | RawHeader], records: Buffer) -> None:
        """Writes `records`, whose batches are `headers`, with one write, and indexes them."""
        is_in_reach = 0 <= largest_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        assert is_in_reach, ("offset overflow", largest_offset, self.base_offset, self.path)
        if not self._file.exists:
            self.create_files()
        if self._index_size_to_append is not None:
            self.resize_indexes(self._index_size_to_append)
        position = self._size
        self._is_synced = False
        self._size = position + self._file.pwrite(records, position)
        if position == 0:
            self._rolling_based_timestamp = None
            self.offset_index.ensure_created()
        counter = self._bytes_since_last_index_entry
        interval = self._index_interval_bytes
        largest = self.max_timestamp_and_offset
        max_timestamp, offset_of_max_timestamp = largest
        segment_base_offset = self.base_offset
        offset_entries, time_entries = bytearray(), bytearray()
        first_indexed = last_indexed = -1
        for base_offset, length, last_offset_delta, timestamp in map(_INDEXED_FIELDS, headers):
            last_offset = base_offset + last_offset_delta
            if timestamp > max_timestamp:
                max_timestamp = timestamp
                offset_of_max_timestamp = last_offset
            if counter > interval:
                offset_entries += pack_offset_entry(last_offset - segment_base_offset, position)
                time_entries += pack_time_entry(max_timestamp, offset_of_max_timestamp - segment_base_offset)
                last_indexed = last_offset
                if first_indexed < 0:
                    first_indexed = last_offset
                counter = 0
            elif position == 0:
                self._rolling_based_timestamp = timestamp
            length += 12
            position += length
            counter += length
        if first_indexed >= 0:
            self.offset_index.extend(first_indexed, last_indexed, offset_entries)
            self.time_index.extend(time_entries)
        self._bytes_since_last_index_entry = counter
        if max_timestamp != largest.timestamp:
            self._max_timestamp_and_offset = TimestampOffset(max_timestamp, offset_of_max_timestamp)
        assert position == self._size, ("batches and bytes differ", position, self._size, self.path)

    # read
    def batch_headers(self, position: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        return scan_headers(self._file, position, self._size if end is None else end)

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Headers and bytes; the CRC is unchecked."""
        return scan_batches(self._file, position, self._size if end is None else end)

    def header_at_or_after(self, offset: int, starting_position: int = 0) -> BatchHeader | None:
        """The first batch whose last offset is >= `offset`."""
        if not self._size:
            return None
        position = max(self.offset_index.lookup(offset).position, starting_position)
        for header in scan_headers(self._file, position, self._size):
            if header.base_offset + header.last_offset_delta >= offset:
                return header
        return None

    def translate_offset(self, offset: int, starting_position: int = 0) -> LogOffsetPosition | None:
        """Where the first batch with last offset >= `offset` lies; None if there is none."""
        header = self.header_at_or_after(offset, starting_position)
        return None if header is None else LogOffsetPosition(header.base_offset, header.position, header.size_in_bytes)

    def read(
        self, start_offset: int, max_size: int, max_position: int | None = None, *, min_one_message: bool = False, bounded: bool = False
    ) -> FetchDataInfo | None:
        """A slice from the batch that contains `start_offset` on; None if the segment ends before
        it.

        It ends at `max_position`, by default the segment's end. If `bounded` and without a
        position, it has no bytes and only says where they are.
        """
        found = self.translate_offset(start_offset)
        if found is None:
            return None
        metadata = LogOffsetMetadata(start_offset, self.base_offset, found.position)
        adjusted_max_size = max(max_size, found.size) if min_one_message else max_size
        if adjusted_max_size == 0 or (bounded and max_position is None):
            return FetchDataInfo(metadata, FileRecords(self._file, found.position, 0))
        end = self._size if max_position is None else max_position
        fetch_size = max(min(end - found.position, adjusted_max_size), 0)
        return FetchDataInfo(metadata, FileRecords(self._file, found.position, fetch_size), adjusted_max_size < found.size)

    def last_batch(self) -> BatchHeader | None:
        """Header of the last batch, found by scanning from the last index entry."""
        last: BatchHeader | None = None
        if not self._size:
            return None
        for header in scan_headers(self._file, self.offset_index.lookup(self.offset_index.last_offset).position, self._size):
            last = header
        return last

    def read_next_offset(self) -> int:
        """The offset after the last batch; the base offset of an empty segment."""
        last = self.last_batch()
        return self.base_offset if last is None else last.next_offset

    def has_overflow(self) -> bool:
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.offset_index.can_append_offset(next_offset - 1)

    # recovery and truncation
    def recover(
        self,
        producer_state_manager: ProducerStateManager,
        leader_epoch_cache: LeaderEpochFileCache | None,
        before_cut: Callable[[int], None] | None = None,
    ) -> int:
        """Checks every batch, rebuilds the indexes, and updates epochs and producers. Cuts the log
        at the first bad batch, after calling `before_cut` with the offset at which the log will
        end. Returns the number of bytes cut.
        """
        self.reset_indexes()
        recovery = SegmentRecovery(
            self, producer_state_manager, leader_epoch_cache, size=self._size, index_interval_bytes=self._index_interval_bytes
        )
        try:
            recovery.scan()
        except CorruptBatchError as error:
            log.warning("Found invalid messages in log segment: %s", error)
        finally:
            self._max_timestamp_and_offset = recovery.largest
        recovery.finish()
        if self._size > recovery.valid_bytes and before_cut is not None:
            before_cut(recovery.next_offset)
        return self._finish_recovery(recovery.valid_bytes)

    def _finish_recovery(self, valid_bytes: int) -> int:
        truncated = self._size - valid_bytes
        assert truncated >= 0, ("recovered more than there is", valid_bytes, self._size, self.path)
        self._truncate_file(valid_bytes)
        if truncated:
            self._file.fsync()  # or a second power loss brings valid old batches back behind what is appended now
        self.offset_index.trim_to_valid_size()
        largest = self.max_timestamp_and_offset
        self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)
        self.time_index.trim_to_valid_size()
        return truncated

    def truncate_to(self, offset: int) -> int:
        """Cuts at the start of the batch that contains `offset` (or is the first after it); returns
        the number of bytes cut.
        """
        if self.is_deferred:
            self._created_ms = self._clock.time_ms()
            return 0
        mapping = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.resize_indexes(self.offset_index.max_index_size)
        truncated = 0
        if mapping is not None:
            truncated = self._size - mapping.position
            self._truncate_file(mapping.position)
        if self._size == 0:
            self._created_ms = self._clock.time_ms()
            self._rolling_based_timestamp = None
        self._bytes_since_last_index_entry = 0
        if self.max_timestamp_so_far >= 0:
            self._max_timestamp_and_offset = self._read_largest_timestamp()
        return truncated

    def _truncate_file(self, size: int) -> None:
        if self._file.size() != size:
            self._file.truncate(size)
            self._is_synced = False
        self._size = size

    def _read_largest_timestamp(self) -> TimestampOffset:
        """Reads the largest timestamp from the last time index entry and the batches after it."""
        largest = self.time_index.last_entry
        for header in scan_headers(self._file, self.offset_index.lookup(largest.offset).position, self._size):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    # life
    def flush(self) -> None:
        """Syncs the log and the indexes, unless a clean shutdown did and nothing was written
        since.
        """
        if self._is_synced or self.is_deferred:
            return
        self._file.fsync()
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def close(self) -> None:
        """Trims and closes everything. Damaged indexes of old segments are left as they are."""
        if self.is_deferred:
            self._file.close()
            return
        if self._max_timestamp_and_offset is not None:
            largest = self._max_timestamp_and_offset
            try:
                self.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)
            except CorruptFileError as error:
                log.warning("No final entry in a damaged time index: %s", error)
        self.offset_index.close()
        self.time_index.close()
        if self._file.is_open and self._file.size() > self._size:
            self._file.truncate(self._size)
        self._file.close()

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self._size}, path={self.path})"
