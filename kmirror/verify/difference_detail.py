"""A difference in words: what differs, on which side, at which offsets."""

from __future__ import annotations

from kmirror.verify.chain import Chain, ChainSide
from kmirror.verify.key_evidence import hash_text
from kmirror.verify.verdict import BatchFacts, DifferenceKind


def detail_of(chain: Chain, kind: DifferenceKind) -> str:
    left, right = chain.left, chain.right
    notes = [note for note in (left.corrupt, right.corrupt) if note]
    notes += [_lost(holder, other) for holder, other in ((left, right), (right, left)) if holder.newest_of_key is not None]
    notes += [_lost_keys(holder, other) for holder, other in ((left, right), (right, left)) if holder.lost_key_count]
    notes += [
        f"compaction does not explain that {other.name} lacks the marker at offset {holder.lost_marker}: it has a batch of the transaction"
        for holder, other in ((left, right), (right, left))
        if holder.lost_marker is not None
    ]
    if kind is DifferenceKind.NOT_DECIDED:
        reasons = dict.fromkeys(side.undecided for side in (left, right) if side.undecided)
        notes.append(f"it is not known whether a cleaner removed them: {', '.join(reasons)}")
    notes += [
        f"{other.name}'s cleaner did not remove them: {holder.not_cleaned}"
        for holder, other in ((left, right), (right, left))
        if holder.not_cleaned is not None and kind is not DifferenceKind.NOT_DECIDED
    ]
    if not (left.batch_count and right.batch_count):
        holder, other = (left, right) if left.batch_count else (right, left)
        size = f" ({holder.size_bytes:,} bytes)" if holder.batch_count > 1 else ""
        notes.append(f"{_batches(holder)}{size} only in {holder.name}{_at_end(other)}")
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


def _lost_keys(holder: ChainSide, other: ChainSide) -> str:
    """Names the first few keys that one side still has and the other lost, by their hashes: keys
    may be secret."""
    named = ", ".join(f"{hash_text(key)} (offset {offset})" for offset, key in holder.lost_keys)
    more = f" and {holder.lost_key_count - len(holder.lost_keys)} more" if holder.lost_key_count > len(holder.lost_keys) else ""
    many = "s" if holder.lost_key_count > 1 else ""
    return f"{other.name} lost the key{many} with hash {named}{more}: no later record explains it"


def _keys(side: ChainSide) -> str:
    """Names the first few keys that are deleted on one side only (C31)."""
    names = ", ".join(repr(key.decode(errors="backslashreplace")) for key in side.tombstone_keys)
    more = f" and {side.tombstone_count - len(side.tombstone_keys)} more" if side.tombstone_count > len(side.tombstone_keys) else ""
    return f"key{'s' if side.tombstone_count > 1 else ''} {names}{more}"


def _batches(side: ChainSide) -> str:
    what = f"{side.batch_count} batch" + ("es" if side.batch_count != 1 else "")
    return what if side.has_data else f"{what} of control records ({side.batches[0].control_type})"


def _at_end(other: ChainSide) -> str:
    return f", behind the end of {other.name}" if other.is_at_end else ""


def _offsets(named: list[int], count: int) -> str:
    what = "offset " if count == 1 else "offsets "
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return what + ", ".join(map(str, named)) + more
