"""Where two logs diverge: one run of offsets, read batch by batch from both, and the kind of
difference that it is.

A *chain* begins at the lower of the two current batches and takes in, from both sides, every batch
that overlaps what it already has. It ends where both logs have a batch boundary at the same offset.
Usually it is one batch of each log. If one log was re-batched with shifted boundaries, it may be
the whole log. So records are merged by offset as they come, and only counts, a few offsets to name
and the headers of the first batches are kept. Memory is one batch of each side. Consecutive chains
that one log lacks completely are one difference (`ReadDifference.join`).

A record is compared by offset, timestamp, key, value and headers. The producer fields of its batch
(id, epoch, sequence, transactional, control, timestamp type) are compared separately, because other
batches with the same records are RE_BATCHED only if these fields agree.

Four signs tell what the cleaner may have removed. The offset lies below the offset that the cleaner
of that log has reached (its cleaner-offset-checkpoint, or a compacted topic of a live cluster). Its
batch is there and has holes, which only a cleaner makes. Its batch is there and has no records, or
has a delete horizon. Or its keys say so (`key_evidence`), which may also say that no cleaner can have
removed a record, whatever the other signs (KEY_LOST). For two live logs only what both hold
counts (`compaction_evidence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kmirror.verify.chain import MAX_OFFSETS_NAMED, Chain, ChainSide, Side
from kmirror.verify.compared_record import ComparedRecord
from kmirror.verify.difference_detail import detail_of
from kmirror.verify.verdict import Difference, DifferenceKind, LocatedBatch

_EPOCH_START: Final = 12
_EPOCH_END: Final = 16
_JOINED: Final = (DifferenceKind.MISSING, DifferenceKind.EXTRA, DifferenceKind.NOT_DECIDED, DifferenceKind.KEY_LOST)


@dataclass(slots=True)
class ReadDifference:
    """A chain and its kind."""

    kind: DifferenceKind
    chain: Chain

    @property
    def is_lag(self) -> bool:
        """Whether it is part of a tail that the right log does not have yet; the tail may consist
        of markers only."""
        return self.kind in (DifferenceKind.MISSING, DifferenceKind.CONTROL_ONLY) and self.chain.right.is_at_end

    @property
    def size_bytes(self) -> int:
        return self.chain.left.size_bytes + self.chain.right.size_bytes

    @property
    def _holders(self) -> tuple[bool, bool] | None:
        """Which of the two logs has the batches; None where both have some."""
        left, right = bool(self.chain.left.batch_count), bool(self.chain.right.batch_count)
        return None if left and right else (left, right)

    def join(self, following: ReadDifference) -> bool:
        """Takes in the next chain if both are of the same kind and in the same one of the logs.
        Returns whether it did."""
        if self.kind is not following.kind or self.kind not in _JOINED or self._holders is None or self._holders != following._holders:
            return False
        self.chain.left.extend(following.chain.left)
        self.chain.right.extend(following.chain.right)
        self.chain.last_offset = following.chain.last_offset
        return True

    def difference(self) -> Difference:
        chain = self.chain
        topic_partition = chain.left.side.log.topic_partition
        return Difference(
            kind=self.kind,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            first_offset=chain.first_offset,
            last_offset=chain.last_offset,
            left=chain.left.batches,
            right=chain.right.batches,
            detail=detail_of(chain, self.kind),
            left_batch_count=chain.left.batch_count,
            right_batch_count=chain.right.batch_count,
            left_size_bytes=chain.left.size_bytes,
            right_size_bytes=chain.right.size_bytes,
        )


def read_difference(left: Side, right: Side) -> ReadDifference | None:
    """Returns the chain that begins at both cursors, and leaves them after it. If the next batches
    are equal, it passes them and returns None."""
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
    for side in (chain.left, chain.right):
        side.is_at_end = not side.batch_count and side.peek() is None
    return ReadDifference(_kind(chain), chain)


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
    """Reads batches of `side` that overlap the chain, until one has records."""
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
        unexplained = [side for side in (left, right) if side.unexplained_count]
        if all(side.undecided for side in unexplained) and (left.lost_key_count or right.lost_key_count):
            return DifferenceKind.KEY_LOST
        if not unexplained:
            return DifferenceKind.COMPACTED
        if all(side.undecided for side in unexplained):
            return DifferenceKind.NOT_DECIDED
        if one_sided:
            return DifferenceKind.MISSING if left.batch_count else DifferenceKind.EXTRA
        return DifferenceKind.BYTES_DIFFER
    if chain.producer_differs:
        return DifferenceKind.BYTES_DIFFER
    return DifferenceKind.COMPACTED if left.is_cleaned or right.is_cleaned else DifferenceKind.RE_BATCHED


def _is_explained_marker(chain: Chain) -> bool:
    """Whether markers differ only in what a cleaner did: it removed them, left a header, or set the
    time of their removal."""
    left, right = chain.left, chain.right
    if chain.content_differs_count or chain.producer_differs:
        return False
    if left.only_here_count or right.only_here_count:
        return not (left.unexplained_markers or right.unexplained_markers)
    return left.is_cleaned or right.is_cleaned


def _is_beyond_high_watermark(chain: Chain, holder: ChainSide, other: ChainSide) -> bool:
    if not holder.batch_count:
        return False
    high_watermark = holder.side.log.high_watermark
    if high_watermark is None and other.side.log.is_live:
        high_watermark = other.side.log.high_watermark
    return high_watermark is not None and chain.first_offset >= high_watermark
