"""Whether a log's cleaner can have removed a record, judging by keys alone: for folders without a
cleaner-offset-checkpoint.

Below the offset that it has reached, a cleaner leaves one record per key. So the first offset at
which a log repeats a key limits how far its cleaner can have come. What it removed below that has a
later committed record of the same key in one of the two logs, was a tombstone, or belonged to an
aborted transaction whose ABORT is in the log that has the record. A topic that repeats its keys and
was never compacted has this limit near its start, so a batch that it lost does not pass for a
compacted one.

This costs a pass over both logs, made only if a log lacks a record in its middle; what both logs
have alike is decoded once. A key is represented by its 128-bit hash: 32 bytes with its offset and
producer. Rows are put into buckets by hash, and wait on disk if there are many (`spilled_rows`).
Then each bucket is sorted by itself. Of the records that one log lacks, only those whose key came
again are kept, by ranges of offsets, because they are asked for in that order. Memory is bounded
whatever the number of keys. Without a disk to spill to, nothing is decided above
`spilled_rows.MAX_ROWS` records, and the verdict says so.

A later record explains nothing if the cleaner of the log cannot have read it: in its newest segment,
or younger than `min.compaction.lag.ms` when that was last seen (`cleaner_facts`).

Where other signs say that the right log's cleaner has been, keys still tell what it cannot have
done: it removes a record only because of a later one. If the left log has a committed record with a
value, the right one lacks it, and neither has a later record of its key, then the key is lost
(`is_lost`). Each log alone looks soundly compacted then. Not every such record counts:

- A later record of the left log counts wherever it is, also beyond the right log's end. The mirror
  may have fetched from a replica that was cleaned before the left one.
- A later record counts unless its transaction was aborted.
- If the right log goes on after the end of what it mirrored and its cleaner has been there too, it
  may have deleted keys by tombstones of its own that are gone. Then nothing is said.
- What only the right log has is not judged so: the source's tombstone may have come and gone before
  it was mirrored (C31).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.compared_log import ComparedLog, LogCursor
from kmirror.verify.marker_evidence import MARKERS, MarkerEvidence
from kmirror.verify.verdict import LocatedBatch

if TYPE_CHECKING:
    from kmirror.verify.spilled_rows import Scratch
    from kmirror.verify.superseded_offsets import SupersededOffsets

MAX_KEYS: Final = 5_000_000
"""The limit for live logs (`compaction_evidence`), whose keys are held in memory."""
MAX_KEY_BYTES: Final = 32
GROUP_BYTES: Final = 256 * 1024
"""How many bytes of batches are decoded at once; for compressed batches a fourth of that."""
LEFT: Final = 1
RIGHT: Final = 2
BOTH: Final = LEFT | RIGHT


class Evidence(Protocol):
    """Whether a log's cleaner can have removed what the log lacks."""

    @property
    def decides(self) -> bool:
        """Whether this evidence alone decides, and no other sign counts."""
        ...

    @property
    def undecided(self) -> str | None:
        """Why it could not tell, once it was asked; None if it can."""
        ...

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether the cleaner of `log` can have removed a record that `log` lacks; `transaction` is
        the producer id if the record is transactional."""
        ...

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        """Whether the cleaner of `log` can have removed a control record that `log` lacks."""
        ...

    def is_lost(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool | None:
        """Whether a cleaner cannot have removed a record that `log` lacks, although it has been there;
        None if that is `undecided`."""
        ...

    def is_out_of_reach(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether the record's key came again, but only where the cleaner of `log` cannot have
        been."""
        ...


class KeyEvidence:
    """The keys of both logs of a comparison, which are read when first asked. `scratch` makes the
    file for what does not fit into memory."""

    decides = False

    def __init__(self, left: ComparedLog, right: ComparedLog, scratch: Scratch | None = None, *, mirrored_end: int | None = None) -> None:
        self._logs = (left, right)
        self._mirrored_end = mirrored_end
        """Where what the right log mirrors ends; None if it is the whole left log."""
        self._scratch = scratch
        self._keys: SupersededOffsets | None = None
        self._markers: MarkerEvidence | None = None
        self._is_read = False
        self.undecided: str | None = None

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether the cleaner of `log` can have removed this record."""
        keys = self._read()
        if keys is None or key is None:
            return False
        holder = RIGHT if log is self._logs[0] else LEFT
        if offset >= keys.first_repeat(BOTH - holder):
            return False
        if is_tombstone or (transaction is not None and keys.is_aborted(holder, transaction, offset)):
            return True
        return keys.came_again_in_reach(holder, offset)

    def is_out_of_reach(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether the record's key came again only where the cleaner of `log` cannot have been."""
        keys = self._read()
        if keys is None or key is None or is_tombstone:
            return False
        holder = RIGHT if log is self._logs[0] else LEFT
        if transaction is not None and keys.is_aborted(holder, transaction, offset):
            return False
        return keys.came_again(holder, offset) and not keys.came_again_in_reach(holder, offset)

    def is_lost(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool | None:
        """Whether a key that the left log still has is lost in the right one."""
        left, right = self._logs
        if log is not right or key is None or is_tombstone or any(one.is_live for one in self._logs):
            return False
        keys = self._read()
        if keys is None:
            return None if self.undecided else False
        if keys.may_have_come_again(LEFT, offset):
            return False
        if transaction is not None and not keys.is_committed(LEFT, transaction, offset):
            return False
        end = keys.end_offset(LEFT) if self._mirrored_end is None else self._mirrored_end
        return keys.end_offset(RIGHT) <= end or 0 < right.cleaned_offset <= end

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        """Keys say nothing of a control record: its log's cleaner checkpoint must be above it, and
        no data of the marker's transaction may be left."""
        was_there = offset < log.cleaned_offset or (log.is_live and log.cleaner.is_compacted)
        if not was_there or ControlRecordType.parse(key) not in MARKERS:
            return False
        if self._markers is None:
            left, right = self._logs
            self._markers = MarkerEvidence(lambda _: left, lambda _: right, max(left.log_start_offset, right.log_start_offset))
        return self._markers.may_lack(0 if log is self._logs[0] else 1, offset, producer_id)

    def _read(self) -> SupersededOffsets | None:
        if not self._is_read:
            self._is_read = True
            self._keys, self.undecided = _superseded(*self._logs, self._scratch)
        return self._keys

    def close(self) -> None:
        """Removes the scratch file."""
        if self._keys is not None:
            self._keys.close()


class KeysNeededError(Exception):
    """Only the keys of both logs can tell."""


class NoKeys:
    """Evidence for comparing a piece of two logs, where reading keys would mean reading all of
    both: raises KeysNeededError."""

    decides = False
    undecided = None

    def __init__(self, right: ComparedLog) -> None:
        self._right = right

    def is_lost(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool | None:
        if log is self._right and key is not None and not is_tombstone:
            raise KeysNeededError
        return False

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        raise KeysNeededError

    def is_out_of_reach(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        if key is not None and not is_tombstone:
            raise KeysNeededError
        return False

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        if offset < log.cleaned_offset:
            raise KeysNeededError
        return False


def short_name(key: bytes) -> bytes:
    """Returns what represents a key in memory: the key itself, or its hash."""
    return key if len(key) <= MAX_KEY_BYTES else hashlib.blake2b(key, digest_size=MAX_KEY_BYTES).digest() + b"h"


def hash_text(key: bytes) -> str:
    """Returns the hash of a key (`key_hash`) in 32 hex digits."""
    import numpy as np  # equal logs do not need it

    from kmirror.verify.key_hash import hash_slices

    first, second = hash_slices(key + bytes(8), np.array([0], dtype=np.int64), np.array([len(key)], dtype=np.int64))
    return f"{int(first[0]):016x}{int(second[0]):016x}"


class _Found(NamedTuple):
    side: int
    batch: RecordBatch


def _superseded(left: ComparedLog, right: ComparedLog, scratch: Scratch | None) -> tuple[SupersededOffsets | None, str | None]:
    """Returns (what the keys of both logs say, or else why they say nothing)."""
    from kmirror.verify.spilled_rows import NoRoomError
    from kmirror.verify.superseded_offsets import Reach, SupersededOffsets  # imports numpy, which equal logs do not need

    reaches = tuple(Reach(log.active_offset, log.cleaner.newest_ms) for log in (left, right))
    keys = SupersededOffsets(scratch, (reaches[0], reaches[1]))
    try:
        for group in _groups(left, right):
            keys.add(group[0].side, [found.batch for found in group])
        keys.settle()
    except NoRoomError as error:
        keys.close()
        return None, str(error)
    except KmirrorError:
        keys.close()
        return None, None  # the comparison itself gets to this place and reports what is wrong
    return keys, None


def _groups(left: ComparedLog, right: ComparedLog) -> Iterator[list[_Found]]:
    """Yields consecutive batches that the same logs have, as many as are decoded together."""
    group: list[_Found] = []
    weight = 0
    for found in _merged(left.cursor(left.log_start_offset), right.cursor(right.log_start_offset)):
        batch = found.batch
        cost = batch.size_in_bytes * (1 if batch.attributes & 7 == 0 else 4)
        if group and (group[0].side != found.side or weight + cost > GROUP_BYTES):
            yield group
            group, weight = [], 0
        group.append(found)
        weight += cost
    if group:
        yield group


def _merged(left: LogCursor, right: LogCursor) -> Iterator[_Found]:
    """Yields the batches of both logs by offset; a batch that both have alike comes once."""
    try:
        while True:
            one, two = left.peek(), right.peek()
            if one is None and two is None:
                return
            if one is not None and two is not None and _are_alike(one, two):
                left.advance()
                right.advance()
                yield _Found(BOTH, one.batch)
            elif two is None or (one is not None and one.batch.base_offset <= two.batch.base_offset):
                assert one is not None, "neither log has a batch"
                left.advance()
                yield _Found(LEFT, one.batch)
            else:
                right.advance()
                yield _Found(RIGHT, two.batch)
    finally:
        left.close()
        right.close()


def _are_alike(one: LocatedBatch, two: LocatedBatch) -> bool:
    a, b = one.batch, two.batch
    return a.base_offset == b.base_offset and a.size_in_bytes == b.size_in_bytes and a.memory == b.memory
