"""Whether compaction explains that one of two live logs of a mirrored partition lacks a record: told from what both hold behind it.

A cleaner removes a record only for what comes after it, or for what it is:

- Its log has, or had, a later committed record of the key. Has: it is there to be found, be it beyond what is compared (an own record
  of a mirror that was stopped, a record of the source that is not mirrored yet). Had: the other log has it, below the end of the mirrored
  part, where both logs had the same; there it may since have gone as a tombstone whose time was over.
- It is a tombstone, a record of an aborted transaction, or without a key.
- It is the marker of a transaction of which no batch is left (`marker_evidence`).

So the newest record of a key that is missing from the mirror, though the mirror came past its offset, is lost, and
is reported. So is one that only the mirror has and the source never replaced visibly: the source's tombstone came and went unmirrored,
and the key stays on the mirror (C31).

Two things are not told. A tombstone beyond the mirrored part whose time (delete.retention.ms) is over: where a side has deleted keys that long
after the mirror was stopped or paused, their records count as lost. And a marker that is missing together with every batch of its
transaction is taken for cleaned.

Costs another pass over both logs from the first such record on, and memory by distinct keys; only made when a record is missing. With
more than `MAX_KEYS` keys nothing can be told, and compaction is believed. While the logs are compared they go on, and so do their cleaners:
before a record counts as lost, what both have got since is read, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch
from kmirror.verify import key_evidence
from kmirror.verify.committed_records import CommittedRecords
from kmirror.verify.compared_log import ComparedLog
from kmirror.verify.marker_evidence import MARKERS, MarkerEvidence

MAX_READINGS: Final = 1_000
"""So often is it looked whether the logs went on; of more lost records than that hardly anybody asks for the last ones."""


class _Keys:
    """Of one log, from some offset on: the last committed offset of each key."""

    def __init__(self, mirrored_end: int) -> None:
        self.mirrored: dict[bytes, int] = {}
        """Below the end of the mirrored part."""
        self.beyond: set[bytes] = set()
        """Keys of committed records at or above it."""
        self._mirrored_end = mirrored_end
        self._records = CommittedRecords(self._commit)
        self.is_aborted = self._records.is_aborted

    @property
    def size(self) -> int:
        return len(self.mirrored) + len(self.beyond)

    def add(self, batch: RecordBatch) -> None:
        from kmirror.record.columns import decode_columns  # numpy, which equal logs need not

        if batch.is_control:
            self._records.add_control(batch)
        elif batch.record_count:
            columns = decode_columns([batch])
            for row, offset in enumerate(columns.offset.tolist()):
                if (key := columns.key(row)) is not None:
                    self._records.add_record(batch, key_evidence.short_name(bytes(key)), offset)

    def _commit(self, name: bytes, offset: int) -> None:
        if offset >= self._mirrored_end:
            self.beyond.add(name)
        elif offset > self.mirrored.get(name, -1):
            self.mirrored[name] = offset


class CompactionEvidence:
    """The two logs of a mirrored partition, `left` the source's. `open_left` and `open_right` give a log from an offset to its end."""

    decides = True
    undecided = None

    def __init__(
        self,
        left: ComparedLog,
        open_left: Callable[[int], ComparedLog],
        open_right: Callable[[int], ComparedLog],
        *,
        mirrored_end: int,
    ) -> None:
        self._left = left
        self._open = (open_left, open_right)
        self._keys = (_Keys(mirrored_end), _Keys(mirrored_end))
        self._next_offsets: list[int] = []
        self._readings = 0
        self._is_too_much = False
        self._markers = MarkerEvidence(open_left, open_right, left.log_start_offset)

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        """Whether a cleaner of `log` can have removed this control record."""
        if ControlRecordType.parse(key) not in MARKERS:
            return False
        return self._markers.may_lack(0 if log is self._left else 1, offset, producer_id)

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether a cleaner of `log` can have removed this record. KmirrorError if the logs cannot be read."""
        if key is None or is_tombstone:
            return True
        name = key_evidence.short_name(key)
        if self._explains(log, offset, name, transaction):
            return True
        self._read_on(offset)
        return self._is_too_much or self._explains(log, offset, name, transaction)

    def _explains(self, log: ComparedLog, offset: int, name: bytes, transaction: int | None) -> bool:
        own, other = self._keys if log is self._left else reversed(self._keys)
        if transaction is not None and other.is_aborted(transaction, offset):
            return True
        return name in own.beyond or own.mirrored.get(name, -1) > offset or other.mirrored.get(name, -1) > offset

    def _read_on(self, offset: int) -> None:
        """What the logs have got since they were read last. Nothing below the first record that is missing matters: those that are asked
        about later lie behind it."""
        if self._is_too_much or self._readings >= MAX_READINGS:
            return
        if not self._next_offsets:
            self._next_offsets = [offset, offset]
        for side, (keys, open_log) in enumerate(zip(self._keys, self._open, strict=True)):
            log = open_log(self._next_offsets[side])
            cursor = log.cursor(log.log_start_offset)
            try:
                while (located := cursor.peek()) is not None:
                    cursor.advance()
                    keys.add(located.batch)
                    self._next_offsets[side] = located.batch.last_offset + 1
                    if keys.size > key_evidence.MAX_KEYS:
                        self._is_too_much = True
                        return
            finally:
                cursor.close()
        self._readings += 1
