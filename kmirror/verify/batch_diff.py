"""Where two logs part: one run of offsets, read batch by batch from both, and the kind of difference that it is.

A *chain* begins at the lower of the two batches at hand and takes in, from both sides, every batch that overlaps what is already in it;
it ends where both logs have a batch boundary at the same offset. Usually that is one batch of either log. Where one log has been
re-batched with shifted boundaries it may be the whole log; so records are merged by offset as they come, and what is kept is
counts, a few offsets to name and the headers of the first batches. Memory is a batch of either side.

A record is compared by offset, timestamp, key, value and headers; the producer's fields of its batch (id, epoch, sequence, transactional,
control, timestamp type) apart from it, since other batches with the same records are RE_BATCHED only if these agree.

What the cleaner may have removed is told by four signs: the offset lies below the offset to which the cleaner of that log got (its
cleaner-offset-checkpoint, or a compacted topic of a live cluster); its batch is there and has holes, which nothing but a cleaner makes;
the batch is there and has no records or a delete horizon; or its keys say so (`key_evidence`). Of two live logs only what both hold
counts (`compaction_evidence`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.common.errors import ApiException
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.compared_log import ComparedLog, LogCursor
from kmirror.verify.compared_record import ComparedRecord, records_of
from kmirror.verify.key_evidence import Evidence
from kmirror.verify.verdict import BatchFacts, Difference, DifferenceKind, LocatedBatch

MAX_BATCHES_SHOWN: Final = 10
MAX_OFFSETS_NAMED: Final = 5
_EPOCH_START: Final = 12
_EPOCH_END: Final = 16


class Side(NamedTuple):
    """A log, and where in it the comparison is."""

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
    last_offset: int = -1
    only_here: list[int] = field(default_factory=list)
    only_here_count: int = 0
    unexplained_count: int = 0
    newest_of_key: tuple[int, bytes] | None = None
    """The first record that the other log lacks for no reason that the evidence knows, and its key."""
    lost_marker: int | None = None
    """The offset of the first control record of that kind."""
    tombstone_keys: list[bytes] = field(default_factory=list)
    tombstone_count: int = 0
    corrupt: str | None = None
    has_data: bool = False
    has_records: bool = False
    has_delete_horizon: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of the last batches that have holes (at most a few: the merge never looks further back)."""
    queue: deque[ComparedRecord] = field(default_factory=deque)

    @property
    def is_cleaned(self) -> bool:
        """Whether a cleaner wrote one of its batches: where both logs have the same records, the cleaners of both may have, each with a delete
        horizon of its own, and compressed by its own library."""
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
        """`take`, and its records wait in the queue (none if the batch cannot be decoded)."""
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
        """Whether this log's cleaner is known to have been there, or can have been by the record's key; never behind the log's end."""
        offset = record.offset
        if self.side.evidence.decides:
            return self._is_explained(record)
        if offset > self.last_offset and self.peek() is None:
            return False
        if offset < self.side.log.cleaned_offset or any(first <= offset <= last for first, last in self.holes):
            return True
        return self._is_explained(record)

    def _is_explained(self, record: ComparedRecord) -> bool:
        log, offset, evidence = self.side.log, record.offset, self.side.evidence
        if record.is_control:
            return evidence.may_lack_control(log, offset, record.key or b"", record.producer[0])
        transaction = record.producer[0] if record.is_transactional else None
        return evidence.may_lack(log, offset, record.key, is_tombstone=record.is_tombstone, transaction=transaction)

    def note_only_here(self, record: ComparedRecord, other: ChainSide) -> None:
        if len(self.only_here) < MAX_OFFSETS_NAMED:
            self.only_here.append(record.offset)
        self.only_here_count += 1
        key = record.key
        if record.is_tombstone and key is not None:
            self.tombstone_count += 1
            if len(self.tombstone_keys) < MAX_OFFSETS_NAMED:
                self.tombstone_keys.append(key)
        if self.unexplained_count:
            self.unexplained_count += 1
        elif not other.may_lack(record):
            self.unexplained_count = 1
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
    """The header of a batch, its CRC checked, its control type read."""
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
    """The type of a control batch's first record; UNKNOWN where it cannot be read, None for a data batch."""
    if not batch.is_control:
        return None
    try:
        record = next(batch.records(), None)
        return "UNKNOWN" if record is None else ControlRecordType.parse(record.key).name
    except ApiException:
        return "UNKNOWN"


def read_difference(left: Side, right: Side) -> Difference | None:
    """The chain that begins where both cursors are, which are left behind it; None if the next batches are equal (they are passed)."""
    a, b = left.cursor.peek(), right.cursor.peek()
    assert a is not None or b is not None, "both logs are at their end"
    chain = Chain(ChainSide(left, "A"), ChainSide(right, "B"))
    if a is not None and b is not None and a.batch.base_offset == b.batch.base_offset and a.batch.size_in_bytes == b.batch.size_in_bytes:
        one, two = bytes(a.batch.memory), bytes(b.batch.memory)
        if one == two:
            left.cursor.advance()
            right.cursor.advance()
            return None
        chain.epoch_only = one[:_EPOCH_START] + one[_EPOCH_END:] == two[:_EPOCH_START] + two[_EPOCH_END:]
    _read_chain(chain, a, b)
    return _difference(chain)


def _read_chain(chain: Chain, a: LocatedBatch | None, b: LocatedBatch | None) -> None:
    chain.first_offset = min(located.batch.base_offset for located in (a, b) if located is not None)
    chain.last_offset = chain.first_offset
    if chain.epoch_only:
        chain.last_offset = chain.left.take().batch.last_offset
        chain.right.take()
        return
    left, right = chain.left, chain.right
    while True:
        _fill(chain, left)
        _fill(chain, right)
        if left.queue and right.queue and left.queue[0].offset == right.queue[0].offset:
            _compare(chain, left.queue.popleft(), right.queue.popleft())
        elif left.queue and (not right.queue or left.queue[0].offset < right.queue[0].offset):
            left.note_only_here(left.queue.popleft(), right)
        elif right.queue:
            right.note_only_here(right.queue.popleft(), left)
        else:
            return


def _fill(chain: Chain, side: ChainSide) -> None:
    """Batches of `side` that overlap the chain, until one has records."""
    while not side.queue:
        located = side.peek()
        if located is None or located.batch.base_offset > chain.last_offset:
            return
        chain.last_offset = max(chain.last_offset, located.batch.last_offset)
        side.take_records()


def _compare(chain: Chain, left: ComparedRecord, right: ComparedRecord) -> None:
    if left.content != right.content:
        if len(chain.content_differs) < MAX_OFFSETS_NAMED:
            chain.content_differs.append(left.offset)
        chain.content_differs_count += 1
    chain.producer_differs |= left.producer != right.producer


def _difference(chain: Chain) -> Difference:
    topic_partition = chain.left.side.log.topic_partition
    kind = _kind(chain)
    return Difference(
        kind=kind,
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        first_offset=chain.first_offset,
        last_offset=chain.last_offset,
        left=chain.left.batches,
        right=chain.right.batches,
        detail=_detail(chain, kind),
    )


def _kind(chain: Chain) -> DifferenceKind:
    left, right = chain.left, chain.right
    if _is_beyond_high_watermark(chain, left, right) or _is_beyond_high_watermark(chain, right, left):
        return DifferenceKind.BEYOND_HIGH_WATERMARK
    if left.corrupt or right.corrupt:
        return DifferenceKind.BYTES_DIFFER
    if chain.epoch_only:
        return DifferenceKind.EPOCH_ONLY
    if not (left.has_data or right.has_data):
        return DifferenceKind.COMPACTED if _is_explained_marker(chain) else DifferenceKind.CONTROL_ONLY
    if chain.content_differs_count:
        return DifferenceKind.BYTES_DIFFER
    one_sided = not (left.batch_count and right.batch_count)
    if left.only_here_count or right.only_here_count:
        if not (left.unexplained_count or right.unexplained_count):
            return DifferenceKind.COMPACTED
        if one_sided:
            return DifferenceKind.MISSING if left.batch_count else DifferenceKind.EXTRA
        return DifferenceKind.BYTES_DIFFER
    if chain.producer_differs:
        return DifferenceKind.BYTES_DIFFER
    return DifferenceKind.COMPACTED if left.is_cleaned or right.is_cleaned else DifferenceKind.RE_BATCHED


def _is_explained_marker(chain: Chain) -> bool:
    """Whether markers differ only in what a cleaner did: removed them, left a header, or set the time of their removal."""
    left, right = chain.left, chain.right
    if chain.content_differs_count or chain.producer_differs:
        return False
    if left.only_here_count or right.only_here_count:
        return left.side.evidence.decides and not (left.unexplained_count or right.unexplained_count)
    return left.is_cleaned or right.is_cleaned


def _is_beyond_high_watermark(chain: Chain, holder: ChainSide, other: ChainSide) -> bool:
    if not holder.batch_count:
        return False
    high_watermark = holder.side.log.high_watermark
    if high_watermark is None and other.side.log.is_live:
        high_watermark = other.side.log.high_watermark
    return high_watermark is not None and chain.first_offset >= high_watermark


def _detail(chain: Chain, kind: DifferenceKind) -> str:
    left, right = chain.left, chain.right
    notes = [note for note in (left.corrupt, right.corrupt) if note]
    notes += [_lost(holder, other) for holder, other in ((left, right), (right, left)) if holder.newest_of_key is not None]
    notes += [
        f"compaction does not explain that {other.name} lacks the marker at offset {holder.lost_marker}: it has a batch of the transaction"
        for holder, other in ((left, right), (right, left))
        if holder.lost_marker is not None
    ]
    if not (left.batch_count and right.batch_count):
        holder, other = (left, right) if left.batch_count else (right, left)
        notes.append(f"{_batches(holder)} only in {holder.name}{_at_end(other, chain)}")
        if holder.tombstone_count:
            notes.append(f"tombstones of {_keys(holder)}: where they are missing, these keys stay")
        return "; ".join(notes)
    if kind is DifferenceKind.EPOCH_ONLY:
        return f"leader epoch {left.batches[0].leader_epoch} in A, {right.batches[0].leader_epoch} in B"
    if left.has_data != right.has_data:
        return "; ".join([*notes, f"A has a {_nature(left)} batch, B a {_nature(right)} batch"])
    if chain.content_differs_count:
        notes.append(f"records differ at {_offsets(chain.content_differs, chain.content_differs_count)}")
    for side in (left, right):
        if side.only_here_count:
            notes.append(f"records only in {side.name} at {_offsets(side.only_here, side.only_here_count)}")
    if left.batch_count > 1 or right.batch_count > 1:
        notes.append(f"{_batches(left)} in A, {_batches(right)} in B")
    else:
        notes += _header_notes(left.batches[0], right.batches[0])
    return "; ".join(notes) or "the same records, compressed to other bytes"


def _header_notes(left: BatchFacts, right: BatchFacts) -> list[str]:
    names = (
        "base_offset last_offset leader_epoch compression timestamp_type base_timestamp max_timestamp producer_id producer_epoch "
        "base_sequence is_transactional is_control control_type record_count"
    )
    return [
        f"{name} {getattr(left, name)} in A, {getattr(right, name)} in B"
        for name in names.split()
        if getattr(left, name) != getattr(right, name)
    ]


def _nature(side: ChainSide) -> str:
    return "data" if side.has_data else f"control ({side.batches[0].control_type})"


def _lost(holder: ChainSide, other: ChainSide) -> str:
    assert holder.newest_of_key is not None, f"{holder.name} has no such record"
    offset, key = holder.newest_of_key
    return f"compaction does not explain that {other.name} lacks offset {offset}: no later record of key {key.decode(errors='backslashreplace')!r}"


def _keys(side: ChainSide) -> str:
    """Keys that are deleted on one side only (C31), the first few."""
    names = ", ".join(repr(key.decode(errors="backslashreplace")) for key in side.tombstone_keys)
    more = f" and {side.tombstone_count - len(side.tombstone_keys)} more" if side.tombstone_count > len(side.tombstone_keys) else ""
    return f"key{'s' if side.tombstone_count > 1 else ''} {names}{more}"


def _batches(side: ChainSide) -> str:
    what = f"{side.batch_count} batch" + ("es" if side.batch_count != 1 else "")
    return what if side.has_data else f"{what} of control records ({side.batches[0].control_type})"


def _at_end(other: ChainSide, chain: Chain) -> str:
    return f", behind the end of {other.name}" if other.peek() is None else ""


def _offsets(named: list[int], count: int) -> str:
    what = "offset " if count == 1 else "offsets "
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return what + ", ".join(map(str, named)) + more
