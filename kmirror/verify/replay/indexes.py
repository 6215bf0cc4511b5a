"""Compares index entries with the batches that they name.

An entry of `.index` is (last offset of a batch, byte where it begins). One of `.timeindex` is
(largest timestamp so far, last offset of the batch that has it). Brokers before 4.0 wrote one entry
per append, not per batch. Which batches get an entry depends on where appends and restarts lay, so
a missing entry says nothing. An existing entry is

    exact  as Kafka 4 writes it
    sound  a look-up by it still ends at the right batch
    wrong  a look-up by it may skip batches

An entry is checked where its batch is read, so each slice counts its own. Slots of zeros at the end
are the room that an open index has in reserve. Entries that no slice of a segment found are wrong:
they name a place where no batch is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kmirror.record.columns import Int64s
from kmirror.verify.header_scan import HeaderBlock
from kmirror.verify.replay.findings import MAX_EXAMPLES

Wrong = tuple[int, int, str]
"""(slot, offset that the entry names, what is wrong)."""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The entries of one index file whose batch lies in a run of batches; the default is the
    identity."""

    entries: int = 0
    """The number of entries in the whole file."""
    exact: int = 0
    sound: int = 0
    wrong: tuple[Wrong, ...] = ()
    """Sorted by slot; at most MAX_EXAMPLES."""
    wrong_count: int = 0
    max_timestamp: int = -1
    """The largest of the run (time indexes only)."""
    first_timestamp: int | None = None
    first_slot: int = -1
    """The slot of the entry with the smallest timestamp (time indexes only)."""
    late: tuple[int, int] | None = None
    """(slot, timestamp) of the first entry that is older than batches before it."""

    @property
    def checked(self) -> int:
        return self.exact + self.sound + self.wrong_count


def merge(left: IndexCheck, right: IndexCheck) -> IndexCheck:
    """Returns the check of both; `right` follows `left` in the same segment."""
    late = [each for each in (left.late, right.late) if each is not None]
    if right.first_timestamp is not None and left.max_timestamp > right.first_timestamp:
        late.append((right.first_slot, right.first_timestamp))
    firsts = [(part.first_timestamp, part.first_slot) for part in (left, right) if part.first_timestamp is not None]
    first = min(firsts) if firsts else (None, -1)
    return IndexCheck(
        entries=max(left.entries, right.entries),
        exact=left.exact + right.exact,
        sound=left.sound + right.sound,
        wrong=tuple(sorted(left.wrong + right.wrong))[:MAX_EXAMPLES],
        wrong_count=left.wrong_count + right.wrong_count,
        max_timestamp=max(left.max_timestamp, right.max_timestamp),
        first_timestamp=first[0],
        first_slot=first[1],
        late=min(late) if late else None,
    )


def used_slots(rows: npt.NDArray[Any]) -> int:
    """Returns how many of the slots are entries: all up to the last one that is not zeros."""
    used = np.zeros(len(rows), dtype=bool)
    for name in rows.dtype.names or ():
        used |= rows[name] != 0
    filled = np.flatnonzero(used)
    return int(filled[-1]) + 1 if len(filled) else 0


class _Entries:
    """Entries in the order of the batches that they name; `take` returns those up to a bound."""

    def __init__(self, keys: Int64s, others: Int64s) -> None:
        self.slots = np.argsort(keys, kind="stable")
        self.keys, self.others = keys[self.slots], others[self.slots]
        self._next = 0

    def skip_below(self, key: int) -> None:
        self._next = int(np.searchsorted(self.keys, key, side="left"))

    def take(self, end: int) -> tuple[Int64s, Int64s, Int64s]:
        """Returns (slots, keys, other fields) of the entries below `end` that were not taken
        yet."""
        start = self._next
        stop = self._next = max(start, int(np.searchsorted(self.keys, end, side="left")))
        return self.slots[start:stop], self.keys[start:stop], self.others[start:stop]


class OffsetIndexScan:
    """Checks the entries of an `.index` against consecutive blocks."""

    def __init__(self, rows: npt.NDArray[Any], base_offset: int, *, start: int) -> None:
        rows = rows[: used_slots(rows)]
        self._entries = _Entries(rows["position"].astype(np.int64), rows["relative_offset"].astype(np.int64) + base_offset)
        self._entries.skip_below(start)
        self.check = IndexCheck(entries=len(rows))

    def add(self, block: HeaderBlock) -> None:
        slots, positions, offsets = self._entries.take(block.end_position)
        if not len(slots):
            return
        base, delta = block.headers["base_offset"], block.headers["last_offset_delta"]
        found = np.minimum(np.searchsorted(block.positions, positions), len(base) - 1)
        is_batch = block.positions[found] == positions
        exact = is_batch & (base[found] + delta[found] == offsets)
        sound = is_batch & ~exact & (offsets >= base[found])
        wrong = [
            (int(slots[row]), int(offsets[row]), _index_text(block, int(found[row]), int(positions[row]), int(offsets[row])))
            for row in np.flatnonzero(~exact & ~sound).tolist()
        ]
        self.check = merge(self.check, _counted(exact, sound, wrong))


def _index_text(block: HeaderBlock, row: int, position: int, offset: int) -> str:
    there = int(block.positions[row])
    if there != position:
        return f"offset {offset} is said to lie at byte {position}, where no batch begins"
    base = int(block.headers["base_offset"][row])
    return f"offset {offset} is said to lie at byte {position}, where the batch of offsets {base} to {base + int(block.headers['last_offset_delta'][row])} lies"


def _counted(exact: npt.NDArray[np.bool_], sound: npt.NDArray[np.bool_], wrong: list[Wrong]) -> IndexCheck:
    return IndexCheck(0, int(exact.sum()), int(sound.sum()), tuple(sorted(wrong)[:MAX_EXAMPLES]), len(wrong))


class TimeIndexScan:
    """Checks the entries of a `.timeindex` against consecutive blocks."""

    def __init__(self, rows: npt.NDArray[Any], base_offset: int) -> None:
        rows = rows[: used_slots(rows)]
        self._entries = _Entries(rows["relative_offset"].astype(np.int64) + base_offset, rows["timestamp"].astype(np.int64))
        self._is_first = True
        self.check = IndexCheck(entries=len(rows))

    def add(self, block: HeaderBlock) -> None:
        base, timestamps = block.headers["base_offset"], block.headers["max_timestamp"]
        last = base + block.headers["last_offset_delta"]
        if self._is_first:
            self._entries.skip_below(int(base[0]))
            self._is_first = False
        slots, offsets, claimed = self._entries.take(int(last[-1]) + 1)
        newest = int(timestamps.max())
        if not len(slots):
            self.check = merge(self.check, IndexCheck(max_timestamp=newest))
            return
        row = np.minimum(np.searchsorted(last, offsets), len(last) - 1)
        is_in_batch = (base[row] <= offsets) & (offsets <= last[row])
        exact = (last[row] == offsets) & (timestamps[row] == claimed)
        sound = ~exact & is_in_batch & (timestamps[row] <= claimed)
        wrong = []
        for index in np.flatnonzero(~exact & ~sound).tolist():
            what = f"that batch has {int(timestamps[row[index]])}" if is_in_batch[index] else "no batch has this offset"
            wrong.append(
                (int(slots[index]), int(offsets[index]), f"timestamp {int(claimed[index])} at offset {int(offsets[index])}: {what}")
            )
        before = np.concatenate(([-1], np.maximum.accumulate(timestamps)[:-1]))[row]
        late = np.flatnonzero(before > claimed)
        smallest = int(np.argmin(claimed))
        part = replace(
            _counted(exact, sound, wrong),
            max_timestamp=newest,
            first_timestamp=int(claimed[smallest]),
            first_slot=int(slots[smallest]),
            late=(int(slots[late[0]]), int(claimed[late[0]])) if len(late) else None,
        )
        self.check = merge(self.check, part)
