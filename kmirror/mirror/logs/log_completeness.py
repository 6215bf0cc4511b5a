"""Whether the part of our log that stays after a cut lacks records that the removed part had
replaced.

A cleaner drops a record for a later one of its key. If a cut takes the later one, the key is lost
here, while the source may still have the earlier one. How far our own cleaner has been does not
help: a replica that was built from a leader has that leader's holes, although its own cleaner has
not run.

The holes show it. A log that no cleaner has touched has a record at every offset (including aborted
ones and markers), so only a log with a hole before the cut is compared (`has_holes`). Then what the
source has in our holes is read, and for each of its records there our log must have a later record
of the same key before the cut: the record that replaced it, which stays. A record of a transaction
that was aborted, or that does not end before the cut, does not count as a replacement. What the
source's own cleaner removed is not missed: nobody has it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from kmirror.common.ports import Buffer
from kmirror.mirror.logs.log_comparison import ALONE_IN_ITS_REQUEST_BYTES, CHANGING, records_of_source
from kmirror.mirror.logs.log_questions import ComparedLog, OnWorker, Question
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.unified_log import UnifiedLog

MISSING_KEYS_LIMIT = 1_000_000
KEY_DIGEST_BYTES = 16


def has_holes(log: ComparedLog, until: int) -> bool:
    """Whether a cleaner, here or where this log was copied from, removed records before `until`.
    This scans headers, so it runs on a worker.
    """
    expected = log.log_start_offset
    for header in log.batch_headers(log.log_start_offset):
        if header.base_offset >= until:
            break
        if header.base_offset > expected or header.record_count <= header.last_offset_delta:
            return True
        expected = header.next_offset
    return False


def is_complete(log: UnifiedLog, source_start: int, until: int) -> Generator[Question, Any, bool]:
    """Whether our log before `until`, all of which is the source's, has every record that the
    source has there, or a later record of the same key.
    """
    if not (yield OnWorker(partial(has_holes, log, until))):
        return True
    missing = _Missing(until)
    offset = max(source_start, log.log_start_offset)
    while offset < until:
        ours = log.batch_containing(offset)
        if ours is None or ours.base_offset >= until:
            ours = log.batch_before(until)
        if ours is None:
            break
        records = yield from records_of_source(ours, ALONE_IN_ITS_REQUEST_BYTES, offset)
        if not isinstance(records, Buffer):
            break
        end: int = yield OnWorker(partial(missing.note, log, offset, records))
        if missing.is_too_much:
            return False
        if end <= offset:
            raise SourceError(CHANGING)
        offset = end
    position: int | None = log.log_start_offset
    while missing.offsets and position is not None:
        position = yield OnWorker(partial(missing.strike_what_is_replaced, log, position))
    return not missing.offsets


@dataclass(slots=True)
class _Missing:
    """Keys for which the source has a record where we have none, each with the last such offset."""

    until: int
    offsets: dict[bytes | None, int] = field(default_factory=dict)
    open_transactions: dict[int, list[tuple[bytes | None, int]]] = field(default_factory=dict)
    """By producer: the keys that our records replace, with their offsets, if its transaction is
    committed.
    """

    @property
    def is_too_much(self) -> bool:
        return len(self.offsets) > MISSING_KEYS_LIMIT

    def note(self, log: UnifiedLog, offset: int, records: Buffer) -> int:
        """Notes the missing keys in the answer to a fetch from `offset`; returns where the answer
        ends.
        """
        end = offset
        ours = log.batch_headers(offset)
        our = next(ours, None)
        for theirs in iter_batches(records):
            end = theirs.next_offset
            if theirs.base_offset >= self.until:
                break
            while our is not None and our.last_offset < theirs.base_offset:
                our = next(ours, None)
            if not theirs.is_control:
                self._note_batch(log, our, theirs, max(offset, log.log_start_offset))
        return end

    def _note_batch(self, log: UnifiedLog, our: BatchHeader | None, theirs: RecordBatch, start: int) -> None:
        is_there = our is not None and our.base_offset == theirs.base_offset
        if is_there and our is not None and (our.crc == theirs.crc or our.record_count > our.last_offset_delta):
            return
        theirs.ensure_valid()
        present = {record.offset for record in _read(log, our).records()} if is_there and our is not None else set()
        for record in theirs.records():
            if record.offset not in present and start <= record.offset < self.until:
                self.offsets[_digest(record)] = record.offset

    def strike_what_is_replaced(self, log: UnifiedLog, start: int) -> int | None:
        """Removes the missing keys that a later record of ours replaces. Scans one part of our log;
        returns where the next part begins, None at the end.
        """
        size = 0
        for header in log.batch_headers(start):
            if header.base_offset >= self.until:
                return None
            if size > ALONE_IN_ITS_REQUEST_BYTES:
                return header.base_offset
            size += header.size_in_bytes
            if not header.is_transactional:
                self._strike(self._replacements(log, header))
            elif not header.is_control:
                self.open_transactions.setdefault(header.producer_id, []).extend(self._replacements(log, header))
            else:
                found = self.open_transactions.pop(header.producer_id, [])
                if found and _is_commit(_read(log, header)):
                    self._strike(found)
        return None

    def _replacements(self, log: UnifiedLog, header: BatchHeader) -> list[tuple[bytes | None, int]]:
        if header.is_control or not header.record_count:
            return []
        found = ((_digest(record), record.offset) for record in _read(log, header).records() if record.key is not None)
        return [(key, offset) for key, offset in found if key in self.offsets]

    def _strike(self, replacements: list[tuple[bytes | None, int]]) -> None:
        for key, offset in replacements:
            if self.offsets.get(key, offset) < offset:
                del self.offsets[key]


def _is_commit(batch: RecordBatch) -> bool:
    return any(ControlRecordType.parse(record.key) is ControlRecordType.COMMIT for record in batch.records())


def _read(log: UnifiedLog, header: BatchHeader) -> RecordBatch:
    read = log.read(header.base_offset, header.size_in_bytes, FetchIsolation.LOG_END, min_one_message=True)
    return RecordBatch(read.records.to_bytes())


def _digest(record: Record) -> bytes | None:
    """A digest of the record's key, since keys may be long."""
    return None if record.key is None else blake2b(record.key, digest_size=KEY_DIGEST_BYTES).digest()
