"""Whether a cleaner can have removed a transaction's marker that one of two logs lacks.

A cleaner walks its log from the beginning, and keeps a COMMIT or ABORT as long as it has met a
batch of its transaction in that same pass (`storage.cleaned_transaction_metadata`). Suppose a log
lacks a marker, but before that place still has a transactional batch of the marker's producer, with
no other marker in between. Then its cleaner did not remove the marker: readers of that log would
never learn what became of those records. If no such batch is left, the marker may have been
removed, and nothing tells whether it was: its transaction has no records there any more. A control
record of another type is never removed.

This costs a pass over both logs, up to the last missing marker, and memory for each producer. The
cleaners keep running meanwhile. A batch that was read before the comparison came to its marker may
have been removed since, together with the marker, so it is looked up again before the marker counts
as lost.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.compared_log import ComparedLog, LogCursor

MARKERS = (ControlRecordType.COMMIT, ControlRecordType.ABORT)


class _Transactions:
    """The last transactional batch and the last marker of each producer in one log, by base offset,
    up to where it was read."""

    def __init__(self, open_log: Callable[[int], ComparedLog], start_offset: int) -> None:
        self.open_log = open_log
        self.batches: dict[int, int] = {}
        self.markers: dict[int, int] = {}
        self._start_offset = start_offset
        self._cursor: LogCursor | None = None

    def read_to(self, offset: int) -> None:
        """Reads every batch that begins below `offset`; offsets must not decrease from call to
        call."""
        if self._cursor is None:
            log = self.open_log(self._start_offset)
            self._cursor = log.cursor(log.log_start_offset)
        while (located := self._cursor.peek()) is not None and located.batch.base_offset < offset:
            self._cursor.advance()
            batch = located.batch
            if not batch.is_control:
                if batch.is_transactional:
                    self.batches[batch.producer_id] = batch.base_offset
            elif _ends_a_transaction(batch):
                self.markers[batch.producer_id] = batch.base_offset

    def still_has(self, offset: int) -> bool:
        """Whether a batch begins at `offset` now."""
        cursor = self.open_log(offset).cursor(offset)
        try:
            located = cursor.peek()
            return located is not None and located.batch.base_offset == offset
        finally:
            cursor.close()


def _ends_a_transaction(batch: RecordBatch) -> bool:
    """Whether a batch is a marker, or the empty batch that a cleaner leaves of one to keep its
    producer's epoch."""
    record = next(batch.records(), None)
    return record is None or ControlRecordType.parse(record.key) in MARKERS


class MarkerEvidence:
    """The two logs of a partition. Each is given as a function that opens it from an offset to its
    end; both are read from `start_offset` on."""

    def __init__(self, open_left: Callable[[int], ComparedLog], open_right: Callable[[int], ComparedLog], start_offset: int) -> None:
        self._logs = (_Transactions(open_left, start_offset), _Transactions(open_right, start_offset))

    def may_lack(self, side: int, offset: int, producer_id: int) -> bool:
        """Whether the cleaner of log 0 or 1 can have removed the marker at `offset`. KmirrorError
        if the logs cannot be read."""
        for log in self._logs:
            log.read_to(offset)
        own = self._logs[side]
        last_batch = own.batches.get(producer_id, -1)
        last_marker = max(log.markers.get(producer_id, -1) for log in self._logs)
        return last_batch <= last_marker or not own.still_has(last_batch)
