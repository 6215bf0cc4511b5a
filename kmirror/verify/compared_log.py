"""A partition's log as the comparison sees it: one run of bytes that can also be walked batch by
batch.

There are two kinds. `DirectoryLog` is a partition's folder, its segments one after the other.
`FetchedLog` (`fetched_log`) is what a live cluster serves, chunk by chunk, each a run of whole
batches. Both are read with a `LogCursor` over *parts* (segments or chunks). A part begins with a
batch, so

    a batch boundary of one log is one of the other as long as their bytes were equal since a common
      boundary

This is why the fast path may compare blindly and look for the boundary afterwards, in the part that
it is in.

A cursor never reads past the size that a segment had when the folder was listed, so a running
broker may go on appending. Incomplete bytes after the last batch of the last segment are what it
was just writing, or what a crash left (`LogFacts.trailing_bytes`). Before another segment they are
corruption. Memory is one block, or one batch if that is larger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, Protocol

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import File, FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import CURRENT_MAGIC, RECORD_BATCH_OVERHEAD, RecordBatch
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX
from kmirror.storage.reader import PartitionFiles, SegmentFiles, SegmentReader
from kmirror.verify.cleaner_facts import NOTHING_KNOWN, CleanerFacts
from kmirror.verify.verdict import LocatedBatch, LogFacts

WALK_BLOCK_BYTES: Final = 256 * 1024
Place = tuple[int, int]
"""(index of a segment, byte in it)."""
_INDEX_SLOT: Final = struct.Struct(">ii")


class LogCursor(Protocol):
    """A place in a log, between bytes. `read` and `rewind` are for the fast path, `peek` and
    `advance` for the walk."""

    def remaining(self) -> int:
        """Returns the bytes from here to the end of the part (or of the next part, if this one is
        at its end); 0 at the end of the log."""
        ...

    def read(self, size: int) -> bytes:
        """Returns the next `size` bytes of this part (at most `remaining`)."""
        ...

    def bytes_into_batch(self, *, trusts_index: bool) -> int:
        """Returns how many bytes this place is after the beginning of a batch. It walks from the
        last known beginning, or from one that an index knows."""
        ...

    def rewind(self, size: int, *, to_batch: bool = False) -> None:
        """Moves back by `size` bytes, within the part; with `to_batch` to where a batch begins."""
        ...

    def misplaced(self) -> KmirrorError:
        """Returns the error that this part begins where the other log, equal so far, has the middle
        of a batch."""
        ...

    def peek(self) -> LocatedBatch | None:
        """Returns the batch that begins here, None at the end of the log. CorruptFileError if there
        is something else."""
        ...

    def advance(self) -> None:
        """Moves past the batch that `peek` returned."""
        ...

    def at_end(self) -> bool:
        """Whether nothing is left to compare, because the log, or the compared part of it, has
        ended."""
        ...

    def close(self) -> None: ...


class ComparedLog(Protocol):
    """One side of a comparison. The log's cleaner may have removed offsets below
    `cleaned_offset`."""

    @property
    def name(self) -> str: ...

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int | None: ...

    @property
    def cleaned_offset(self) -> int: ...

    @property
    def cleaner(self) -> CleanerFacts:
        """What the log's cluster says of its cleaner."""
        ...

    @property
    def active_offset(self) -> int:
        """Where the newest segment begins, which no cleaner touches; `ANY_OFFSET` if that cannot be
        seen."""
        ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def is_live(self) -> bool:
        """Whether only what lies below its high watermark can be seen."""
        ...

    def cursor(self, offset: int) -> LogCursor:
        """Returns a cursor at the batch that holds `offset`, or at the first one after it."""
        ...

    def facts(self) -> LogFacts: ...


class DirectoryLog:
    """The log in a partition's folder. With `log_start_offset` None it begins where its first
    segment does."""

    is_live = False

    def __init__(
        self,
        files: FileSystem,
        partition: PartitionFiles,
        *,
        log_start_offset: int | None = None,
        high_watermark: int | None = None,
        cleaned_offset: int = 0,
        cleaner: CleanerFacts = NOTHING_KNOWN,
    ) -> None:
        self.files = files
        self.partition = partition
        self.high_watermark = high_watermark
        self.cleaned_offset = cleaned_offset
        self.cleaner = cleaner
        self.active_offset = partition.segments[-1].base_offset if partition.segments else 0
        first = partition.segments[0].base_offset if partition.segments else 0
        self.log_start_offset = max(first, log_start_offset or 0)

    @property
    def name(self) -> str:
        return self.partition.path

    @property
    def topic_partition(self) -> TopicPartition:
        return self.partition.topic_partition

    @property
    def size_bytes(self) -> int:
        return self.partition.size

    def check_complete(self) -> None:
        """KmirrorError if a segment is missing: because a swap of cleaned segments was listed in
        the middle, or because its name has no file."""
        self.partition.check_complete()
        name = self.partition.unfinished_swap
        if name is not None:
            raise KmirrorError(
                f"{self.partition.path}/{name}: a cleaned segment that is not in its place yet, so its records are missing; "
                "compare again or, if the broker is down, after it was started and stopped once"
            )

    def cursor_at(self, place: Place, end: Place | None = None) -> DirectoryCursor:
        """Returns a cursor at `place`, where a batch begins. What lies from `end` on, another batch
        boundary, can only be peeked at."""
        return DirectoryCursor(self, *place, end=end)

    def cursor(self, offset: int, end: Place | None = None) -> DirectoryCursor:
        segments = self.partition.segments
        index = max((row for row, segment in enumerate(segments) if segment.base_offset <= offset), default=0)
        position = 0
        if index < len(segments) and offset > segments[index].base_offset:
            position = self._position_of(segments[index], offset)
        return DirectoryCursor(self, index, position, end=end)

    def _position_of(self, segment: SegmentFiles, offset: int) -> int:
        """Returns where the first batch that ends at `offset` or later begins; the end of the last
        batch if there is none."""
        start = self.indexed_position(segment, offset=offset)
        with SegmentReader(self.files, segment.path(), start=start, end=segment.log_size) as reader:
            for position, batch in reader.batches(block_bytes=WALK_BLOCK_BYTES):
                if batch.last_offset >= offset:
                    return position
            return reader.valid_bytes

    def indexed_position(self, segment: SegmentFiles, *, offset: int | None = None, position: int | None = None) -> int:
        """Returns a batch boundary that the offset index knows, at or before `offset` or
        `position`; 0 without a sound index.

        The index is only a hint: if the batch there does not have the offset that the index says,
        the walk begins at byte 0.
        """
        if not segment.sizes.get(INDEX_FILE_SUFFIX, 0):
            return 0
        index = self.files.open(segment.path(INDEX_FILE_SUFFIX), write=False)
        try:
            low, high = 0, index.size() // _INDEX_SLOT.size
            while low < high:
                middle = (low + high) // 2
                if _is_before(_INDEX_SLOT.unpack(index.pread(_INDEX_SLOT.size, middle * _INDEX_SLOT.size)), segment, offset, position):
                    low = middle + 1
                else:
                    high = middle
            if not low:
                return 0
            relative_offset, start = _INDEX_SLOT.unpack(index.pread(_INDEX_SLOT.size, (low - 1) * _INDEX_SLOT.size))
        finally:
            index.close()
        return start if self._begins_batch(segment, start, segment.base_offset + relative_offset) else 0

    def _begins_batch(self, segment: SegmentFiles, start: int, indexed_offset: int) -> bool:
        with SegmentReader(self.files, segment.path(), start=start, end=segment.log_size) as reader:
            try:
                batch = next((batch for _, batch in reader.batches(block_bytes=RECORD_BATCH_OVERHEAD)), None)
            except CorruptFileError:
                return False
        return batch is not None and batch.magic == CURRENT_MAGIC and batch.base_offset <= indexed_offset <= batch.last_offset

    def log_end_offset(self) -> int:
        """Returns the offset after the last complete batch. CorruptFileError if the last segment
        cannot be walked."""
        return self._end()[0]

    def _end(self) -> tuple[int, int]:
        """Returns (`log_end_offset`, bytes of an incomplete batch after it)."""
        trailing_bytes: int | None = None
        for segment in reversed(self.partition.segments):
            start = self.indexed_position(segment)
            with SegmentReader(self.files, segment.path(), start=start, end=segment.log_size) as reader:
                _, headers = reader.headers()
            if trailing_bytes is None:
                trailing_bytes = reader.trailing_bytes
            if len(headers):
                return int(headers["base_offset"][-1]) + int(headers["last_offset_delta"][-1]) + 1, trailing_bytes
            if segment.base_offset > self.log_start_offset:
                return segment.base_offset, trailing_bytes
        return self.log_start_offset, trailing_bytes or 0

    def facts(self) -> LogFacts:
        return self.facts_of(*self._end())

    def facts_of(self, log_end_offset: int, trailing_bytes: int) -> LogFacts:
        """Returns the same as `facts`, for callers that know where the log ends."""
        end = max(log_end_offset, self.log_start_offset)
        segment_count = len(self.partition.segments)
        return LogFacts(self.name, self.log_start_offset, end, self.high_watermark, self.size_bytes, segment_count, trailing_bytes)


class DirectoryCursor:
    """A `LogCursor` over the segments of a folder."""

    def __init__(self, log: DirectoryLog, index: int, position: int, *, end: Place | None = None) -> None:
        self._log = log
        self._end = end
        self._segments = log.partition.segments
        self._index = index
        self._position = position
        self._boundary = position
        """The last place in this segment where a batch is known to begin; without an offset index
        the walk starts there."""
        self._file: File | None = None
        self._reader: SegmentReader | None = None
        self._batches: Iterator[tuple[int, RecordBatch]] | None = None
        self._head: LocatedBatch | None = None

    def close(self) -> None:
        self._drop_walk()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _drop_walk(self) -> None:
        self._head = None
        self._batches = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _next_segment(self) -> None:
        self.close()
        self._index += 1
        self._position = self._boundary = 0

    @property
    def place(self) -> Place:
        """The current place; between two segments, the beginning of the second one."""
        self._left_in_segment()
        return self._index, self._position

    def remaining(self) -> int:
        left = self._left_in_segment()
        if self._end is None or self._index < self._end[0]:
            return left
        return max(min(left, self._end[1] - self._position), 0) if self._index == self._end[0] else 0

    def at_end(self) -> bool:
        return (self._end is not None and self.place >= self._end) or self.peek() is None

    def is_astray(self) -> bool:
        """Whether reading on, batch by batch, did not lead to the cursor's given end: some batch
        has a wrong length."""
        return self._end is not None and self.place != self._end

    def _left_in_segment(self) -> int:
        """Returns the bytes from here to the end of the segment, or of the next one; 0 at the end
        of the log."""
        while self._index < len(self._segments):
            left = self._segments[self._index].log_size - self._position
            if left > 0:
                return left
            if self._index + 1 == len(self._segments):
                return 0
            self._next_segment()
        return 0

    def read(self, size: int) -> bytes:
        path = self._segments[self._index].path()
        if self._batches is not None:
            self._drop_walk()
        if self._file is None:
            self._file = self._log.files.open(path, write=False)
        data = self._file.pread(size, self._position)
        if len(data) < size:
            raise CorruptFileError(path, self._position + len(data), "the file became shorter while it was read")
        self._position += size
        return data

    def bytes_into_batch(self, *, trusts_index: bool) -> int:
        if self._index >= len(self._segments) or not self._position:
            return 0
        segment = self._segments[self._index]
        start = self._boundary
        if trusts_index:
            start = max(self._log.indexed_position(segment, position=self._position), start)
        with SegmentReader(self._log.files, segment.path(), start=start, end=self._position) as reader:
            reader.headers()
            return self._position - reader.valid_bytes

    def rewind(self, size: int, *, to_batch: bool = False) -> None:
        assert size <= self._position, f"rewinding {size} bytes from {self._position}"
        self._drop_walk()
        self._position -= size
        if to_batch:
            self._boundary = self._position

    def misplaced(self) -> CorruptFileError:
        index = min(self._index, len(self._segments) - 1)
        if index > 0:
            before = self._segments[index - 1]
            start = self._log.indexed_position(before)
            with SegmentReader(self._log.files, before.path(), start=start, end=before.log_size) as reader:
                reader.headers()
                if reader.trailing_bytes:
                    return _incomplete(before, reader.valid_bytes, self._segments[index])
        return CorruptFileError(self._segments[index].path(), 0, "no batch begins here in the other log, though all bytes before are equal")

    def peek(self) -> LocatedBatch | None:
        while self._head is None and self._left_in_segment():
            segment = self._segments[self._index]
            if self._batches is None:
                self._reader = SegmentReader(self._log.files, segment.path(), start=self._position, end=segment.log_size)
                self._batches = self._reader.batches(block_bytes=WALK_BLOCK_BYTES)
            found = next(self._batches, None)
            if found is not None:
                self._head = located_batch(segment.path(), found[0], found[1])
            elif self._index + 1 == len(self._segments):
                return None
            elif self._position < segment.log_size:
                raise _incomplete(segment, self._position, self._segments[self._index + 1])
        return self._head

    def advance(self) -> None:
        assert self._head is not None, "advance without a batch"
        self._position += self._head.batch.size_in_bytes
        self._boundary = self._position
        self._head = None


def _incomplete(segment: SegmentFiles, position: int, following: SegmentFiles) -> CorruptFileError:
    return CorruptFileError(segment.path(), position, f"an incomplete batch, and {following.path()} follows")


def _is_before(slot: tuple[int, int], segment: SegmentFiles, offset: int | None, position: int | None) -> bool:
    """Whether an index slot is in use, points into the file, and is not past `offset` or
    `position`."""
    relative_offset, start = slot
    if not 0 < start <= segment.log_size - RECORD_BATCH_OVERHEAD:
        return False
    return (offset is None or segment.base_offset + relative_offset <= offset) and (position is None or start <= position)


def located_batch(file: str, position: int, batch: RecordBatch) -> LocatedBatch:
    """Returns the batch with its place; raises CorruptFileError for an old message format."""
    if batch.magic != CURRENT_MAGIC:
        raise CorruptFileError(file, position, f"a batch of magic {batch.magic}; only message format v2 can be compared")
    return LocatedBatch(file=file, position=position, batch=batch)
