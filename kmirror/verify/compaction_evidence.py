"""Whether compaction explains that one of two live logs of a mirrored partition lacks a record,
judging by what both hold after it.

A cleaner removes a record only because of a later one, or because of what it is:

- Its log has, or had, a later committed record of the key. If it has one, that record can be found,
  even beyond what is compared (a record that was written to a stopped mirror, or a source record
  that is not mirrored yet). If it had one, the other log has it, below the end of the mirrored
  part, where both logs once were the same; in its own log it may have been removed since, as a
  tombstone past its retention time.
- It is a tombstone, a record of an aborted transaction, or without a key.
- It is the marker of a transaction of which no batch is left (`marker_evidence`).

So the newest record of a key is lost if it is missing from the mirror although the mirror got past
its offset. It is reported. So is one that only the mirror has and that the source never visibly
replaced: the source's tombstone came and went without being mirrored, and the key stays on the
mirror (C31).

Two cases cannot be told. One is a tombstone beyond the mirrored part that is past its retention
time (delete.retention.ms): if a side deleted keys that long after the mirror was stopped or paused,
their records count as lost. The other is a marker that is missing together with every batch of its
transaction: it counts as cleaned.

This costs another pass over both logs from the first such record on, and memory for each distinct
key; it is only made if a record is missing. With more than `MAX_KEYS` keys nothing can be told, and
compaction is assumed. While the logs are compared, writers and cleaners keep going. So before a
record counts as lost, what both logs have received since is read too.
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
"""How often the logs are checked for new records; with more lost records than that, the last ones
hardly matter."""


class _Keys:
    """The last committed offset of each key in one log, from some offset on."""

    def __init__(self, mirrored_end: int) -> None:
        self.mirrored: dict[bytes, int] = {}
        """The last offset of each key below the end of the mirrored part."""
        self.beyond: set[bytes] = set()
        """Keys of committed records at or above that end."""
        self._mirrored_end = mirrored_end
        self._records = CommittedRecords(self._commit)
        self.is_aborted = self._records.is_aborted

    @property
    def size(self) -> int:
        return len(self.mirrored) + len(self.beyond)

    def add(self, batch: RecordBatch) -> None:
        from kmirror.record.columns import decode_columns  # imports numpy, which equal logs do not need

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
    """The two logs of a mirrored partition, `left` being the source's. `open_left` and `open_right`
    open a log from an offset to its end."""

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

    def is_lost(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Nothing else says that a cleaner has been there, so `may_lack` tells all."""
        return False

    def is_out_of_reach(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Not looked at: `may_lack` tells all."""
        return False

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        """Whether a cleaner of `log` can have removed this control record."""
        if ControlRecordType.parse(key) not in MARKERS:
            return False
        return self._markers.may_lack(0 if log is self._left else 1, offset, producer_id)

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether a cleaner of `log` can have removed this record.

        KmirrorError if the logs cannot be read.
        """
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
        """Reads what the logs have received since the last reading. Nothing below the first missing
        record matters, because later questions are about records after it."""
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
