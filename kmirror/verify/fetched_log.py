"""A partition's log as a live cluster serves it, for a comparison.

The log is fetched chunk by chunk. A chunk is a run of whole batches, and one part of the comparison
(see `compared_log`).
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import HEADER_SIZE_UP_TO_MAGIC, RECORD_BATCH_OVERHEAD, RecordBatch
from kmirror.verify.cleaner_facts import ANY_OFFSET, NOTHING_KNOWN, CleanerFacts
from kmirror.verify.compared_log import LogCursor, located_batch
from kmirror.verify.verdict import LocatedBatch, LogFacts


class FetchedLog:
    """The log as a live cluster serves it. `fetch(offset)` returns whole batches from the one that
    holds `offset` on, and b"" at the end.

    It ends at `high_watermark`, as it was when the comparison began: what is written later is not
    read.
    """

    is_live = True

    def __init__(
        self,
        name: str,
        topic_partition: TopicPartition,
        fetch: Callable[[int], bytes],
        *,
        log_start_offset: int,
        high_watermark: int,
        cleaner: CleanerFacts = NOTHING_KNOWN,
    ) -> None:
        self.name = name
        self.topic_partition = topic_partition
        self.fetch = fetch
        self.log_start_offset = log_start_offset
        self.high_watermark: int | None = high_watermark
        self.end_offset = high_watermark
        self.cleaned_offset = 0
        self.cleaner = cleaner
        self.active_offset = ANY_OFFSET
        self.size_bytes = 0
        """Bytes fetched so far."""

    def cursor(self, offset: int) -> LogCursor:
        return FetchedCursor(self, offset)

    def facts(self) -> LogFacts:
        return LogFacts(self.name, self.log_start_offset, self.end_offset, self.high_watermark, self.size_bytes, 0)


class FetchedCursor:
    """A `LogCursor` over the answers of a live cluster; positions count from the first byte
    fetched."""

    def __init__(self, log: FetchedLog, offset: int) -> None:
        self._log = log
        self._next_offset = offset
        self._chunk = b""
        self._chunk_start = 0
        self._position = 0
        self._head: LocatedBatch | None = None

    def close(self) -> None:
        self._chunk = b""

    def at_end(self) -> bool:
        return self.peek() is None

    def remaining(self) -> int:
        if self._position == len(self._chunk) and self._next_offset < self._log.end_offset:
            self._chunk_start += len(self._chunk)
            self._position = 0
            self._chunk = self._fetch()
        return len(self._chunk) - self._position

    def _fetch(self) -> bytes:
        """Returns the next whole batches, without those past the end, and moves the offset on."""
        data = self._log.fetch(self._next_offset)
        end, asked = 0, self._next_offset
        while len(data) - end >= HEADER_SIZE_UP_TO_MAGIC:
            size = int.from_bytes(data[end + 8 : end + 12], "big", signed=True) + 12
            if size < RECORD_BATCH_OVERHEAD or end + size > len(data):
                break
            batch = RecordBatch(data, end)
            if batch.base_offset >= self._log.end_offset:
                self._next_offset = self._log.end_offset
                break
            end += size
            self._next_offset = batch.next_offset
        if self._next_offset <= asked:
            raise KmirrorError(f"{self._log.name}: no batch was served at offset {asked}, below the high watermark {self._log.end_offset}")
        self._log.size_bytes += end
        return data[:end]

    def read(self, size: int) -> bytes:
        self._head = None
        start, self._position = self._position, self._position + size
        return self._chunk[start : self._position] if size < len(self._chunk) else self._chunk

    def bytes_into_batch(self, *, trusts_index: bool) -> int:
        start = 0
        while start < self._position:
            size = RecordBatch(self._chunk, start).size_in_bytes
            if start + size > self._position:
                return self._position - start
            start += size
        return 0

    def rewind(self, size: int, *, to_batch: bool = False) -> None:
        assert size <= self._position, f"rewinding {size} bytes from {self._position}"
        self._head = None
        self._position -= size

    def misplaced(self) -> KmirrorError:
        return CorruptFileError(
            self._log.name, self._chunk_start, "what was served begins within a batch of the other log, though all bytes before are equal"
        )

    def peek(self) -> LocatedBatch | None:
        if self._head is None and self.remaining():
            self._head = located_batch(self._log.name, self._chunk_start + self._position, RecordBatch(self._chunk, self._position))
        return self._head

    def advance(self) -> None:
        assert self._head is not None, "advance without a batch"
        self._position += self._head.batch.size_in_bytes
        self._head = None
