"""What a chain of `batch_diff` has seen: the batches of both logs, what only one of them has, and
whether its cleaner explains that.

A chain keeps counts, a few offsets to name and the headers of the first batches. So chains can be
joined: a tail of a million batches that the other log lacks is one difference, with the range of
their offsets.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.common.errors import ApiException
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.cleaner_facts import ANY_TIME, Barrier
from kmirror.verify.compared_log import ComparedLog, LogCursor
from kmirror.verify.compared_record import ComparedRecord, records_of
from kmirror.verify.key_evidence import Evidence
from kmirror.verify.verdict import BatchFacts, LocatedBatch

MAX_BATCHES_SHOWN: Final = 10
MAX_OFFSETS_NAMED: Final = 5


class Side(NamedTuple):
    """A log, and the comparison's place in it."""

    log: ComparedLog
    cursor: LogCursor
    evidence: Evidence


@dataclass(slots=True)
class ChainSide:
    """What a chain has seen of one log."""

    side: Side
    name: str
    batches: list[BatchFacts] = field(default_factory=list)
    batch_count: int = 0
    size_bytes: int = 0
    last_offset: int = -1
    is_at_end: bool = False
    """Whether the log ends after the chain; only set if it has no batch in the chain."""
    only_here: list[int] = field(default_factory=list)
    only_here_count: int = 0
    unexplained_count: int = 0
    newest_of_key: tuple[int, bytes] | None = None
    """Offset and key of the first record that the other log lacks without a reason known to the
    evidence."""
    undecided: str | None = None
    """Why it is not known whether the other log's cleaner removed the unexplained records; None if
    it is known for at least one of them."""
    not_cleaned: str | None = None
    """Why the other log's cleaner cannot have removed the first of them, where it could be thought
    so."""
    lost_keys: list[tuple[int, bytes]] = field(default_factory=list)
    """(offset, key) of the first records whose keys the other log lost."""
    lost_key_count: int = 0
    lost_marker: int | None = None
    """The offset of the first control record that is missing in this way."""
    unexplained_markers: int = 0
    """Control records that the other log's cleaner is not known to have removed."""
    tombstone_keys: list[bytes] = field(default_factory=list)
    tombstone_count: int = 0
    corrupt: str | None = None
    has_data: bool = False
    has_records: bool = False
    has_delete_horizon: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)
    """Offset ranges of the last batches that have holes (only a few: the merge never looks further
    back)."""
    queue: deque[ComparedRecord] = field(default_factory=deque)

    @property
    def is_cleaned(self) -> bool:
        """Whether a cleaner wrote one of its batches. Where both logs have the same records, both
        cleaners may have written them, each with its own delete horizon and compressed by its own
        library."""
        return self.has_delete_horizon or bool(self.holes) or not self.has_records

    def peek(self) -> LocatedBatch | None:
        return self.side.cursor.peek()

    def take(self) -> LocatedBatch:
        located = self.peek()
        assert located is not None, f"{self.name} has no batch to take"
        batch = located.batch
        facts = facts_of(located)
        if self.batch_count < MAX_BATCHES_SHOWN:
            self.batches.append(facts)
        self.batch_count += 1
        self.size_bytes += facts.size_bytes
        self.last_offset = max(self.last_offset, batch.last_offset)
        self.has_data |= not batch.is_control
        self.has_records |= batch.record_count > 0
        self.has_delete_horizon |= batch.has_delete_horizon
        if batch.record_count <= batch.last_offset_delta:
            self.holes = [*self.holes[-3:], (batch.base_offset, batch.last_offset)]
        if not facts.crc_valid:
            self._note_corrupt(located, "its CRC does not hold")
        self.side.cursor.advance()
        return located

    def take_records(self) -> LocatedBatch:
        """Like `take`; also puts the batch's records into the queue (none if it cannot be
        decoded)."""
        located = self.take()
        try:
            self.queue.extend(records_of(located.batch))
        except ApiException as error:
            self._note_corrupt(located, error.message)
        return located

    def _note_corrupt(self, located: LocatedBatch, reason: str) -> None:
        if self.corrupt is None:
            self.corrupt = f"{self.name}'s batch at byte {located.position} of {located.file} is corrupt: {reason}"

    def may_lack(self, record: ComparedRecord) -> bool:
        """Whether this log's cleaner is known to have been there, or can have been, judging by the
        record's key; never past the log's end."""
        offset = record.offset
        if self.side.evidence.decides:
            return self._is_explained(record)
        if offset > self.last_offset and self.peek() is None:
            return False
        was_there = self._is_where_a_cleaner_was(offset)
        if not was_there and not (self.side.log.cleaner.is_compacted and self._is_explained(record)):
            return False
        return self.barrier_of(record) is None

    def barrier_of(self, record: ComparedRecord) -> Barrier | None:
        """Returns why this log's cleaner cannot have removed a record, wherever it was."""
        log = self.side.log
        barrier = log.cleaner.barrier(record.offset, record.timestamp, log.active_offset)
        return log.cleaner.out_of_reach if barrier is None and self._is_out_of_reach(record) else barrier

    def _is_out_of_reach(self, record: ComparedRecord) -> bool:
        """Whether the record's key came again only where no cleaner can have been. Where a cleaner
        was, keys are read for that only if they are read anyway, or if times limit it."""
        log = self.side.log
        is_free = log.cleaner.newest_ms != ANY_TIME or not self._is_where_a_cleaner_was(record.offset)
        if record.is_control or not (is_free or self.name == "B"):
            return False
        transaction = record.producer[0] if record.is_transactional else None
        return self.side.evidence.is_out_of_reach(log, record.offset, record.key, is_tombstone=record.is_tombstone, transaction=transaction)

    def _is_where_a_cleaner_was(self, offset: int) -> bool:
        """Whether the cleaner's checkpoint or a batch with holes proves it. A topic that was never
        compacted has no cleaner, and its batches have holes for another reason."""
        log = self.side.log
        has_hole = log.cleaner.is_compacted is not False and any(first <= offset <= last for first, last in self.holes)
        return offset < log.cleaned_offset or has_hole

    def _keys_allow(self, record: ComparedRecord) -> bool:
        """Whether keys alone say that a cleaner can have removed a record, where nothing says that
        the topic has a cleaner. What is allowed is not proved."""
        log, evidence = self.side.log, self.side.evidence
        return log.cleaner.is_compacted is None and not evidence.decides and self._is_explained(record)

    def has_lost(self, record: ComparedRecord) -> bool | None:
        """Whether this log's cleaner was where it lacks a record, and yet cannot have removed it:
        the record is the last one of its key. None if that cannot be told."""
        offset = record.offset
        if record.is_control or not self._is_where_a_cleaner_was(offset) or (offset > self.last_offset and self.peek() is None):
            return False
        log, evidence = self.side.log, self.side.evidence
        transaction = record.producer[0] if record.is_transactional else None
        return evidence.is_lost(log, offset, record.key, is_tombstone=record.is_tombstone, transaction=transaction)

    def undecided_of(self, record: ComparedRecord) -> str | None:
        """Returns why it is not known whether this log's cleaner removed a record that it lacks;
        None if it is known."""
        is_tail = record.offset > self.last_offset and self.peek() is None
        if is_tail or record.is_control or record.key is None or self.side.evidence.decides:
            return None
        barrier = self.why_not_cleaned(record)
        if self.side.evidence.undecided or barrier is not None:
            return self.side.evidence.undecided or (None if barrier is None or barrier.is_sure else barrier.text)
        return self.side.log.cleaner.unknown if self._keys_allow(record) else None

    def why_not_cleaned(self, record: ComparedRecord) -> Barrier | None:
        """Returns the barrier of a record that a cleaner could have removed without it."""
        log = self.side.log
        was_there = self._is_where_a_cleaner_was(record.offset)
        is_tail = record.offset > self.last_offset and self.peek() is None
        if is_tail or self.side.evidence.decides or record.is_control or (log.cleaner.is_compacted is False and not was_there):
            return None
        could_be = was_there or self._is_out_of_reach(record) or self._is_explained(record)
        return self.barrier_of(record) if could_be else None

    def _is_explained(self, record: ComparedRecord) -> bool:
        log, offset, evidence = self.side.log, record.offset, self.side.evidence
        if record.is_control:
            return evidence.may_lack_control(log, offset, record.key or b"", record.producer[0])
        transaction = record.producer[0] if record.is_transactional else None
        return evidence.may_lack(log, offset, record.key, is_tombstone=record.is_tombstone, transaction=transaction)

    def extend(self, following: ChainSide) -> None:
        """Takes in what was seen right after it in the same log, where the other log has
        nothing."""
        self.batches += following.batches[: max(MAX_BATCHES_SHOWN - self.batch_count, 0)]
        self.batch_count += following.batch_count
        self.size_bytes += following.size_bytes
        self.only_here += following.only_here[: max(MAX_OFFSETS_NAMED - self.only_here_count, 0)]
        self.only_here_count += following.only_here_count
        self.unexplained_count += following.unexplained_count
        self.undecided = self.undecided and following.undecided
        self.not_cleaned = self.not_cleaned or following.not_cleaned
        self.newest_of_key = self.newest_of_key or following.newest_of_key
        self.lost_keys += following.lost_keys[: max(MAX_OFFSETS_NAMED - self.lost_key_count, 0)]
        self.lost_key_count += following.lost_key_count
        self.tombstone_keys += following.tombstone_keys[: max(MAX_OFFSETS_NAMED - self.tombstone_count, 0)]
        self.tombstone_count += following.tombstone_count

    def note_only_here(self, record: ComparedRecord, other: ChainSide) -> None:
        if len(self.only_here) < MAX_OFFSETS_NAMED:
            self.only_here.append(record.offset)
        self.only_here_count += 1
        key = record.key
        if record.is_control:
            self.unexplained_markers += not other._is_explained(record)
        if record.is_tombstone and key is not None:
            self.tombstone_count += 1
            if len(self.tombstone_keys) < MAX_OFFSETS_NAMED:
                self.tombstone_keys.append(key)
        lost = other.has_lost(record)
        if lost:
            assert key is not None, f"a record without a key is lost at offset {record.offset}"
            self.lost_key_count += 1
            if len(self.lost_keys) < MAX_OFFSETS_NAMED:
                self.lost_keys.append((record.offset, key))
        elif self.unexplained_count and self.undecided is None:
            self.unexplained_count += 1
        elif lost is None or not other.may_lack(record):
            self.unexplained_count += 1
            self.undecided = other.undecided_of(record)
            if self.undecided is None and self.not_cleaned is None:
                barrier = other.why_not_cleaned(record)
                self.not_cleaned = None if barrier is None else barrier.text
            if record.is_control:
                self.lost_marker = record.offset if other.side.evidence.decides else None
            elif key is not None and other.side.evidence.decides:
                self.newest_of_key = (record.offset, key)


@dataclass(slots=True)
class Chain:
    """A difference while it is being read."""

    left: ChainSide
    right: ChainSide
    first_offset: int = 0
    last_offset: int = -1
    epoch_only: bool = False
    content_differs: list[int] = field(default_factory=list)
    content_differs_count: int = 0
    producer_differs: bool = False


def facts_of(located: LocatedBatch) -> BatchFacts:
    """Returns the facts of a batch's header, with its CRC checked and its control type read."""
    batch = located.batch
    return BatchFacts(
        file=located.file,
        position=located.position,
        size_bytes=batch.size_in_bytes,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        record_count=batch.record_count,
        leader_epoch=batch.partition_leader_epoch,
        crc=batch.crc,
        crc_valid=batch.is_valid(),
        compression=_codec(batch),
        timestamp_type=batch.timestamp_type.text,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        control_type=control_type_of(batch),
    )


def _codec(batch: RecordBatch) -> str:
    try:
        return batch.compression.name.lower()
    except ApiException:
        return f"codec {batch.attributes & 7}"


def control_type_of(batch: RecordBatch) -> str | None:
    """Returns the type of a control batch's first record: UNKNOWN if it cannot be read, None for a
    data batch."""
    if not batch.is_control:
        return None
    try:
        record = next(batch.records(), None)
        return "UNKNOWN" if record is None else ControlRecordType.parse(record.key).name
    except ApiException:
        return "UNKNOWN"
