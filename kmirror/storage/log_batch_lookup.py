"""Finding batches of a log by offset, reading only their headers. Mirroring compares logs this way:
it takes epochs from batches (C5), cuts at batch boundaries (C35) and searches backwards for the
last equal batch (C36b).
"""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_io import LogIo
from kmirror.storage.log_segment import LogSegment


class LogBatchLookup:
    """Reads the segments of one log and changes nothing."""

    __slots__ = ("_io", "_local_log")

    def __init__(self, local_log: LocalLog, io: LogIo) -> None:
        self._local_log = local_log
        self._io = io

    def last_batch(self) -> BatchHeader | None:
        """Header of the last batch in the log; None if there is none (the log end may lie beyond
        it).
        """
        with self._io.guarded(f"Error while reading batch headers of {self._local_log.topic_partition}"):
            for segment in reversed(self._local_log.segments.values):
                header = segment.last_batch()
                if header is not None:
                    return header
            return None

    def batch_containing(self, offset: int) -> BatchHeader | None:
        """Header of the first batch whose last offset is >= `offset`: the one that contains it or,
        after a gap, the next one.
        """
        with self._io.guarded(f"Error while reading batch headers of {self._local_log.topic_partition}"):
            segments = self._local_log.segments
            segment = segments.floor_segment(offset) or segments.first_segment
            while segment is not None:
                header = segment.header_at_or_after(offset)
                if header is not None:
                    return header
                segment = segments.higher_segment(segment.base_offset)
            return None

    def batch_before(self, offset: int) -> BatchHeader | None:
        """Header of the last batch whose base offset is < `offset`; None if there is none. The
        search for the last equal batch steps back with it (C36b).
        """
        with self._io.guarded(f"Error while reading batch headers of {self._local_log.topic_partition}"):
            segment = self._local_log.segments.lower_segment(offset)
            while segment is not None:
                found = None
                for header in _headers_from(segment, offset - 1):
                    if header.base_offset >= offset:
                        break
                    found = header
                if found is not None:
                    return found
                segment = self._local_log.segments.lower_segment(segment.base_offset)
            return None

    def batch_headers(self, start_offset: int = 0) -> Iterator[BatchHeader]:
        """Yields the headers of all batches from the one that contains `start_offset` to the log
        end.
        """
        with self._io.guarded(f"Error while reading batch headers of {self._local_log.topic_partition}"):
            segments = self._local_log.segments
            segment = segments.floor_segment(start_offset) or segments.first_segment
            while segment is not None:
                for header in _headers_from(segment, start_offset):
                    if header.last_offset >= start_offset:
                        yield header
                segment = segments.higher_segment(segment.base_offset)

    def latest_batch_epoch(self) -> int | None:
        """Leader epoch of the last batch; None without batches. The epoch cache is not used,
        because it may hold an epoch that has no batch yet (C5).
        """
        last = self.last_batch()
        return None if last is None else last.partition_leader_epoch


def _headers_from(segment: LogSegment, offset: int) -> Iterator[BatchHeader]:
    """Headers from a batch at or before `offset` on.

    Nothing is read from a segment without files. An index file beside a `partition.metadata` that
    is not synced yet would make a folder without data look as if it had some.
    """
    return iter(()) if segment.is_deferred else segment.batch_headers(segment.offset_index.lookup(offset).position)
