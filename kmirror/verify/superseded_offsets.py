"""Finds in two logs the records that only one of them has and whose key has another committed
record after them, in either log.

See `key_evidence` for the purpose, and for how rows are stored. A row is four numbers: 60 bits of
the key's hash, with the sides that have the record in the two lowest bits, and in the next two the
sides whose cleaner cannot have read it (`Reach`); 64 more bits of the hash; the offset; and the
producer id of a transactional record. It is -1 for other records, which are committed. For a record of a transaction the producer's next marker tells, and markers are few.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kmirror.record.columns import Int64s, RecordColumns, decode_columns
from kmirror.record.record_batch import TRANSACTIONAL_FLAG, RecordBatch
from kmirror.verify.committed_records import CommittedRecords
from kmirror.verify.key_hash import hash_keys
from kmirror.verify.spilled_rows import Scratch, SpilledRows

BUCKET_BITS: Final = 8
RANGE_RECORDS: Final = 1 << 18
_SIDES: Final = (1, 2)
_COMMITTED: Final = 4
_IN_REACH: Final = 8
_SIDE_BITS: Final = 3
_FLAG_BITS: Final = 4
_NEVER: Final = (1 << 63) - 1
_HASH, _SECOND, _OFFSET, _PRODUCER = range(4)


class Reach(NamedTuple):
    """What a log's cleaner can have read: records below `offset`, with a timestamp up to
    `newest_ms`."""

    offset: int
    newest_ms: int


class SupersededOffsets:
    """Gets all batches of both logs by ascending offset, and then answers questions. Memory is
    bounded by `spilled_rows.MAX_ROWS`."""

    def __init__(self, scratch: Scratch | None, reaches: tuple[Reach, Reach] | None = None) -> None:
        """`reaches` are those of the left and the right log's cleaners; by default they reach all."""
        self._scratch = scratch
        self._reaches = reaches
        self._rows = SpilledRows(4, 1 << BUCKET_BITS, scratch)
        self._found: SpilledRows | None = None
        self._transactions = {side: CommittedRecords(_ignore) for side in _SIDES}
        self._first_repeat = dict.fromkeys(_SIDES, _NEVER)
        self._end_offsets = dict.fromkeys(_SIDES, 0)
        self._range_starts: list[int] = []
        """The first offset of each range of about `RANGE_RECORDS` records."""
        self._range_left = 0
        self._at_hand: tuple[int, frozenset[tuple[int, int]]] = (-1, frozenset())

    def add(self, sides: int, batches: Sequence[RecordBatch]) -> None:
        """Adds batches that the logs `sides` have (1 left, 2 right, 3 both)."""
        data = [batch for batch in batches if not batch.is_control and batch.record_count]
        for side in _SIDES:
            if side & sides and batches:
                self._end_offsets[side] = max(self._end_offsets[side], batches[-1].next_offset)
        for batch in batches:
            if batch.is_control:
                for side in _SIDES:
                    if side & sides:
                        self._transactions[side].add_control(batch)
        if not data:
            return
        columns = decode_columns(data)
        self._note_ranges(columns.offset)
        rows = np.flatnonzero(columns.key_length >= 0)
        if not rows.size:
            return
        first, second = hash_keys(columns, rows)
        transactional = columns.batches["attributes"] & TRANSACTIONAL_FLAG != 0
        producers = np.where(transactional, columns.batches["producer_id"], -1)[columns.batch_index[rows]]
        made = np.empty((len(rows), 4), dtype=np.int64)
        flags = self._beyond_reach(columns, rows) << np.uint64(2) | np.uint64(sides)
        made[:, _HASH] = (first & ~np.uint64(15) | flags).view(np.int64)
        made[:, _SECOND] = second.view(np.int64)
        made[:, _OFFSET] = columns.offset[rows]
        made[:, _PRODUCER] = producers
        self._rows.add((first >> np.uint64(64 - BUCKET_BITS)).astype(np.int64), made)

    def _beyond_reach(self, columns: RecordColumns, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
        """Returns the sides whose cleaner cannot have read each of the records."""
        beyond = np.zeros(len(rows), dtype=np.uint64)
        for side, reach in zip(_SIDES, self._reaches or ()):
            outside = (columns.offset[rows] >= reach.offset) | (columns.timestamp[rows] > reach.newest_ms)
            beyond |= np.where(outside, np.uint64(side), np.uint64(0))
        return beyond

    def _note_ranges(self, offsets: Int64s) -> None:
        start = 0
        while start < len(offsets):
            if not self._range_left:
                first = int(offsets[start])
                if not self._range_starts or first > self._range_starts[-1]:
                    self._range_starts.append(first)
                self._range_left = RANGE_RECORDS
            taken = min(self._range_left, len(offsets) - start)
            self._range_left -= taken
            start += taken

    def settle(self) -> None:
        """Ends adding. NoRoomError if the answers do not fit."""
        self._rows.settle()
        self._found = SpilledRows(2, max(len(self._range_starts), 1), self._scratch)
        starts = np.array(self._range_starts, dtype=np.int64)
        for bucket in range(1 << BUCKET_BITS):
            found = self._superseded(self._rows.bucket(bucket))
            if len(found):
                ranges = np.maximum(np.searchsorted(starts, found[:, 0], side="right") - 1, 0)
                self._found.add(ranges.astype(np.int64), found)
        self._found.settle()
        self._rows.close()

    def _superseded(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns (offset, side) of the records of a bucket that only one log has and whose key
        came again; with `_COMMITTED` beside the side if it did in a record that is known to be
        committed, and `_IN_REACH` if the other log's cleaner can have read such a record."""
        if not len(rows):
            return np.zeros((0, 2), dtype=np.int64)
        key = rows[:, _HASH].view(np.uint64) >> np.uint64(_FLAG_BITS)
        order = np.lexsort((rows[:, _OFFSET], rows[:, _SECOND], key))
        rows, key = rows[order], key[order]
        offsets, sides, beyond = rows[:, _OFFSET], rows[:, _HASH] & _SIDE_BITS, rows[:, _HASH] >> 2 & _SIDE_BITS
        is_new = np.ones(len(rows), dtype=bool)
        is_new[1:] = (key[1:] != key[:-1]) | (rows[1:, _SECOND] != rows[:-1, _SECOND])
        group = np.cumsum(is_new) - 1
        for side in _SIDES:
            mine = np.flatnonzero(sides & side)
            again = mine[1:][group[mine[1:]] == group[mine[:-1]]]
            if again.size:
                self._first_repeat[side] = min(self._first_repeat[side], int(offsets[again].min()))
        starts = np.flatnonzero(is_new)
        committed, aborted = self._fates(rows, sides)
        newest = np.maximum.reduceat(np.where(aborted, -1, offsets), starts)[group]
        newest_committed = np.maximum.reduceat(np.where(committed, offsets, -1), starts)[group]
        one_sided = np.flatnonzero((sides != 3) & (offsets < newest))
        marks = np.where(offsets < newest_committed, _COMMITTED, 0)
        for side in _SIDES:
            lacking = _SIDE_BITS - side
            in_reach = np.maximum.reduceat(np.where(committed & (beyond & lacking == 0), offsets, -1), starts)[group]
            marks |= np.where((sides == side) & (offsets < in_reach), _IN_REACH, 0)
        return np.stack((offsets[one_sided], (sides | marks)[one_sided]), axis=1)

    def _fates(self, rows: npt.NDArray[np.int64], sides: Int64s) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Returns (which records are committed, which ones are aborted) in a log that has them."""
        committed = rows[:, _PRODUCER] < 0
        aborted = np.zeros(len(rows), dtype=bool)
        for producer in np.unique(rows[~committed, _PRODUCER]).tolist():
            written = np.flatnonzero(rows[:, _PRODUCER] == producer)
            for side in _SIDES:
                mine = written[sides[written] & side != 0]
                offsets = rows[mine, _OFFSET]
                committed[mine] |= self._transactions[side].are_committed(producer, offsets)
                aborted[mine] |= self._transactions[side].are_aborted(producer, offsets)
        return committed, aborted & ~committed

    def first_repeat(self, side: int) -> int:
        """Returns the first offset at which this log has a key that it had before."""
        return self._first_repeat[side]

    def is_aborted(self, side: int, producer_id: int, offset: int) -> bool:
        return self._transactions[side].is_aborted(producer_id, offset)

    def is_committed(self, side: int, producer_id: int, offset: int) -> bool:
        return bool(self._transactions[side].are_committed(producer_id, np.array([offset], dtype=np.int64))[0])

    def end_offset(self, side: int) -> int:
        """Returns the offset after the last batch of this log; 0 if it has none."""
        return self._end_offsets[side]

    def came_again(self, side: int, offset: int) -> bool:
        """Whether the key of a record that only this log has came again, committed, in one of the
        two logs."""
        return self._has_found(offset, side | _COMMITTED) or self.came_again_in_reach(side, offset)

    def came_again_in_reach(self, side: int, offset: int) -> bool:
        """Whether it did in a record that the other log's cleaner can have read."""
        return self._has_found(offset, side | _COMMITTED | _IN_REACH)

    def may_have_come_again(self, side: int, offset: int) -> bool:
        """Like `came_again`, also in a record whose transaction has not ended, as far as is
        known."""
        return self.came_again(side, offset) or self._has_found(offset, side)

    def _has_found(self, offset: int, side: int) -> bool:
        assert self._found is not None, "asked before all was told"
        number = max(bisect_right(self._range_starts, offset) - 1, 0)
        if number != self._at_hand[0]:
            self._at_hand = (number, frozenset(map(tuple, self._found.bucket(number).tolist())))
        return (offset, side) in self._at_hand[1]

    def close(self) -> None:
        self._rows.close()
        if self._found is not None:
            self._found.close()


def _ignore(name: bytes, offset: int) -> None:
    """Ignores records, because only markers are needed."""
