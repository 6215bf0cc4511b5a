"""The cleaner's work on files: building the offset map from dirty segments, and writing the cleaned
copy of a group of segments.

Everything here may run on a worker thread, except the constructors. It reads sealed segments by
position, writes `.cleaned` files that nobody else knows, and calls `check_not_aborted` before every
segment and batch. What it needs to know about the log was collected on the loop (`SegmentSource`,
aborted transactions, live producers).

A meter counts what is read and written. Both pieces of work are iterators that stop when the meter
is due, so that their caller can check whether it must pause (log.cleaner.io.max.bytes.per.second).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final

from msgspec import Struct

from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.common.ports import File
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.batch_header import BatchHeader, unpack_header
from kmirror.storage.cleaned_transaction_metadata import CleanedTransactionMetadata
from kmirror.storage.cleaner_offset_map import OffsetMap
from kmirror.storage.cleaner_record_filter import CleanerRecordFilter
from kmirror.storage.cleaner_record_keys import record_keys
from kmirror.storage.fetch_data_info import AbortedTxn
from kmirror.storage.log_offset_metadata import MAX_RELATIVE_OFFSET
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.ports import LogPorts
from kmirror.storage.segment_files import LogFolder, create_new_cleaned_segment
from kmirror.storage.throttler import ThrottlerMeter
from kmirror.storage.unified_log import UnifiedLog

READ_CHUNK_BYTES: Final = 1 << 20
WRITE_CHUNK_BYTES: Final = 1 << 20


class SegmentSource(Struct, frozen=True):
    """A sealed segment as a worker needs it: the open file, the byte range to read, and the offset
    at which the segment ends.
    """

    file: File
    position: int
    size: int
    end_offset: int

    @classmethod
    def of(cls, segment: LogSegment, *, start_offset: int, end_offset: int) -> SegmentSource:
        """The source begins with the batch that the index gives for `start_offset`, at or before
        it.
        """
        position = segment.offset_index.lookup(start_offset).position
        return cls(segment.file, position, segment.size, end_offset)


def read_batches(source: SegmentSource, meter: ThrottlerMeter) -> Iterator[RecordBatch]:
    """Yields the batches of a segment in order; CorruptFileError if the file holds an incomplete
    batch or one with a wrong CRC.

    Kafka's cleaner does not check the CRC. But a damaged key would hide another key's record, and a
    rewritten batch would get a CRC that makes the damage look valid.
    """
    position = source.position
    wanted = READ_CHUNK_BYTES
    while position < source.size:
        view = memoryview(source.file.pread(min(wanted, source.size - position), position))
        meter.observe(len(view))
        consumed = 0
        for batch in _batches_in(view, source.file.path, position):
            yield batch
            consumed += batch.size_in_bytes
        wanted = READ_CHUNK_BYTES
        if consumed == 0:
            wanted = _size_of_batch_at(view, source, position)
        position += consumed


def _batches_in(view: memoryview, path: str, position: int) -> Iterator[RecordBatch]:
    batches = iter_batches(view)
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                batch.ensure_valid()
        except ApiException as error:
            raise CorruptFileError(path, position, error.message) from error
        if batch is None:
            return
        yield batch
        position += batch.size_in_bytes


def _size_of_batch_at(view: memoryview, source: SegmentSource, position: int) -> int:
    left = source.size - position
    size = int.from_bytes(view[8:12], "big") + 12 if len(view) >= 12 else left + 1
    if size > left:
        raise CorruptFileError(source.file.path, position, f"a batch of {size} bytes begins where {left} bytes are left")
    return size


class OffsetMapBuilder:
    """Fills the offset map from the dirty section (Kafka's `buildOffsetMap`), up to
    `max_entries`.
    """

    def __init__(
        self,
        sources: list[SegmentSource],
        aborted_transactions: Iterable[AbortedTxn],
        offset_map: OffsetMap,
        *,
        start_offset: int,
        max_entries: int,
        meter: ThrottlerMeter,
        check_not_aborted: Callable[[], None],
    ) -> None:
        self._sources = sources
        self._meter = meter
        self._offset_map = offset_map
        self._start_offset = start_offset
        self._max_entries = max_entries
        self._check_not_aborted = check_not_aborted
        self._transaction_metadata = CleanedTransactionMetadata()
        self._transaction_metadata.add_aborted_transactions(aborted_transactions)

    def build(self) -> Iterator[None]:
        """Fills the map; yields whenever the meter is due."""
        for source in self._sources:
            self._check_not_aborted()
            if not (yield from self._add_segment(source)):
                return

    def _add_segment(self, source: SegmentSource) -> Generator[None, None, bool]:
        """False when the map is full. The map then covers everything up to the last key that it
        took.
        """
        for batch in read_batches(source, self._meter):
            if self._meter.is_due:
                yield
            self._check_not_aborted()
            try:
                if not self._add_batch(batch):
                    return False
            except ApiException as error:
                raise CorruptFileError(
                    source.file.path, source.position, f"batch at offset {batch.base_offset}: {error.message}"
                ) from error
            if batch.last_offset >= self._start_offset:
                self._offset_map.update_latest_offset(batch.last_offset)
        self._offset_map.update_latest_offset(source.end_offset - 1)
        return True

    def _add_batch(self, batch: RecordBatch) -> bool:
        if batch.is_control:
            self._transaction_metadata.on_control_batch_read(batch)
            return True
        if self._transaction_metadata.on_batch_read(batch):
            return True
        for record in record_keys(batch):
            if record.key is None or record.offset < self._start_offset:
                continue
            if len(self._offset_map) >= self._max_entries:
                return False
            self._offset_map.put(record.key, record.offset)
        return True


def group_segments_by_size(
    segments: list[LogSegment], *, max_size: int, max_index_size: int, first_uncleanable_offset: int
) -> list[list[LogSegment]]:
    """Groups neighbours that together fit into one segment, greedily from the front."""
    groups: list[list[LogSegment]] = []
    sizes = (0, 0, 0)
    for index, segment in enumerate(segments):
        end_offset = segments[index + 1].base_offset if index + 1 < len(segments) else first_uncleanable_offset
        new_sizes = (segment.size, segment.offset_index.entries * 8, segment.time_index.entries * 12)
        total = tuple(old + new for old, new in zip(sizes, new_sizes, strict=True))
        fits = bool(groups) and total[0] <= max_size and total[1] <= max_index_size and total[2] <= max_index_size
        if fits and (segment.size == 0 or end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET):
            groups[-1].append(segment)
            sizes = (total[0], total[1], total[2])
        else:
            groups.append([segment])
            sizes = new_sizes
    return groups


class SegmentCleaner:
    """Copies one group of segments into one `.cleaned` segment (Kafka's `cleanSegments`), which it
    owns until the swap.
    """

    def __init__(
        self,
        log: UnifiedLog,
        segments: list[LogSegment],
        record_filter: CleanerRecordFilter,
        ports: LogPorts,
        *,
        meter: ThrottlerMeter,
        check_not_aborted: Callable[[], None],
    ) -> None:
        """Collects what it needs from the log. Must run on the loop."""
        self._meter = meter
        self._folder = LogFolder(log.directory, log.topic_partition, log.config, ports, log.segments)
        self._filter = record_filter
        self._check_not_aborted = check_not_aborted
        self._base_offset = segments[0].base_offset
        self._last_modified_ms = segments[-1].last_modified_ms
        ends = [segment.base_offset for segment in segments[1:]] + [segments[-1].read_next_offset()]
        self._sources = [SegmentSource(segment.file, 0, segment.size, end) for segment, end in zip(segments, ends, strict=True)]
        self._aborted_transactions = [
            log.collect_aborted_transactions(segment.base_offset, end) for segment, end in zip(segments, ends, strict=True)
        ]
        self._cleaned: LogSegment | None = None
        self._pending = bytearray()
        self._pending_headers: list[BatchHeader] = []

    @property
    def cleaned(self) -> LogSegment:
        assert self._cleaned is not None, "clean() has not run"
        return self._cleaned

    def clean(self) -> Iterator[None]:
        """Writes, seals and syncs the cleaned segment, on a worker. Yields whenever the meter is
        due.
        """
        cleaned = self._cleaned = create_new_cleaned_segment(self._folder, self._base_offset)
        for source, aborted_transactions in zip(self._sources, self._aborted_transactions, strict=True):
            self._filter.transaction_metadata.add_aborted_transactions(aborted_transactions)
            yield from self._clean_into(cleaned, source)
        for aborted in self._filter.transaction_metadata.take_retained_aborted_transactions():
            cleaned.txn_index.append(aborted)
        cleaned.on_become_inactive_segment()
        cleaned.flush()
        cleaned.set_last_modified_ms(self._last_modified_ms)

    def _clean_into(self, cleaned: LogSegment, source: SegmentSource) -> Iterator[None]:
        for batch in read_batches(source, self._meter):
            if self._meter.is_due:
                yield
            self._check_not_aborted()
            try:
                kept = self._filter.filter(batch)
            except ApiException as error:
                raise CorruptFileError(source.file.path, 0, f"batch at offset {batch.base_offset}: {error.message}") from error
            if kept is not None:
                self._pending_headers.append(unpack_header(kept, 0, len(self._pending)))
                self._pending += kept
            if len(self._pending) >= WRITE_CHUNK_BYTES:
                self._write_pending(cleaned)
        self._write_pending(cleaned)

    def _write_pending(self, cleaned: LogSegment) -> None:
        if self._pending:
            cleaned.append(self._pending_headers[-1].last_offset, self._pending_headers, bytes(self._pending))
            self._meter.observe(len(self._pending))
            self._pending_headers.clear()
            self._pending.clear()

    def discard(self) -> None:
        """Removes what was written; the folder may have been renamed or removed meanwhile."""
        if self._cleaned is not None:
            self._cleaned.delete_if_exists()
