"""`.timeindex`: the offset from which on records may be newer than a timestamp.

An entry is 12 bytes: timestamp (i64), offset - base offset (i32), where the timestamp is the
largest seen so far in the segment and the offset the last offset of the batch that has it.
Timestamps strictly increase: an equal one gets no entry. One slot is kept free for the entry that
is added when the segment is rolled or closed, so the index is "full" one entry early.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import Buffer
from kmirror.record.record import NO_TIMESTAMP
from kmirror.storage.abstract_index import AbstractIndex

_ENTRY: Final = struct.Struct(">qi")
pack_time_entry: Final = _ENTRY.pack
"""(timestamp, offset - base offset) as it lies in the file."""


class TimestampOffset(NamedTuple):
    """An entry: a timestamp in ms and an absolute offset."""

    timestamp: int
    offset: int


class TimeIndex(AbstractIndex):
    """The time index of one segment (Kafka's `TimeIndex`)."""

    entry_size = _ENTRY.size
    reserved_entries = 1
    _last_entry = TimestampOffset(NO_TIMESTAMP, 0)

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there are none."""
        self._load()
        return self._last_entry

    def entry(self, slot: int) -> TimestampOffset:
        if not 0 <= slot < self.entries:
            raise IndexError(f"entry {slot} of {self.path}, which has {self.entries} entries")
        return self._entry(slot)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The entry with the largest timestamp <= target, else (-1, base offset)."""
        self._load()
        slot = bisect_right(range(self.entries), target_timestamp, key=self._timestamp) - 1
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if slot < 0 else self._entry(slot)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Adds an entry unless `timestamp` is that of the last one, or the index is full; the final
        entry skips the full check.

        CorruptFileError if the last entry, read from disk, is already beyond the new one.
        """
        if not self._loaded:
            self._load()
        size = len(self._entries)
        last = self._last_entry
        if size:
            if timestamp == last.timestamp and offset >= last.offset:
                return
            if timestamp < last.timestamp or offset < last.offset:
                raise CorruptFileError(self.path, size - 12, f"the last entry {last} is beyond the next one, ({timestamp}, {offset})")
        if size >= self._full_at_bytes and not skip_full_check:
            return
        if timestamp > last.timestamp:
            self._append_entries(_ENTRY.pack(timestamp, offset - self.base_offset))
            self._last_entry = TimestampOffset(timestamp, offset)

    def extend(self, entries: Buffer) -> None:
        """Adds packed entries as `maybe_append` does; neither timestamps nor offsets decrease from
        one to the next.
        """
        base_offset = self.base_offset
        for timestamp, relative_offset in _ENTRY.iter_unpack(entries):
            if timestamp != self._last_entry.timestamp or not self._loaded:
                self.maybe_append(timestamp, base_offset + relative_offset)

    def truncate_to(self, offset: int) -> None:
        """Drops all entries with an offset >= `offset`."""
        self._load()
        self._truncate_to_entries(bisect_left(range(self.entries), offset - self.base_offset, key=self._relative_offset))

    def sanity_problem(self) -> str | None:
        """What is wrong with the file, or None (Kafka's `sanityCheck`)."""
        last = self.last_entry
        if self.entries and last.timestamp < self._timestamp(0):
            return f"non-zero size but the last timestamp is {last.timestamp}, less than the first, {self._timestamp(0)}"
        if self.entries and last.offset < self.base_offset:
            return f"non-zero size but the last offset is {last.offset}, less than the first offset {self.base_offset}"
        if self.length % self.entry_size:
            return f"found {self.length} bytes, which is not a multiple of {self.entry_size}"
        return None

    def _timestamp(self, slot: int) -> int:
        value: int = _ENTRY.unpack_from(self._entries, slot * 12)[0]
        return value

    def _relative_offset(self, slot: int) -> int:
        value: int = _ENTRY.unpack_from(self._entries, slot * 12)[1]
        return value

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp, relative_offset = _ENTRY.unpack_from(self._entries, slot * 12)
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def _on_entries_changed(self) -> None:
        self._last_entry = self._entry(self.entries - 1) if self._entries else TimestampOffset(NO_TIMESTAMP, self.base_offset)
