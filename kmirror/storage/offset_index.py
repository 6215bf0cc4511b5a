"""`.index`: byte positions near given offsets.

An entry is 8 bytes: offset - base offset (i32), position (i32). The offset is the *last* offset of
a batch, the position the *start* of that batch. So a lookup gives the start of a batch that ends at
or below the target, a safe place to begin a forward scan. Entries are sparse; a missing one costs a
longer scan, never a wrong answer.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import Buffer
from kmirror.storage.abstract_index import AbstractIndex

_ENTRY: Final = struct.Struct(">ii")
pack_offset_entry: Final = _ENTRY.pack
"""(offset - base offset, position) as it lies in the file."""


class OffsetPosition(NamedTuple):
    """An entry: an absolute offset and a byte position."""

    offset: int
    position: int


class OffsetIndex(AbstractIndex):
    """The offset index of one segment (Kafka's `OffsetIndex`)."""

    entry_size = _ENTRY.size
    _last_offset = 0

    @property
    def last_offset(self) -> int:
        """Offset of the last entry; the base offset if there are none."""
        self._load()
        return self._last_offset

    def entry(self, slot: int) -> OffsetPosition:
        if not 0 <= slot < self.entries:
            raise IndexError(f"entry {slot} of {self.path}, which has {self.entries} entries")
        return self._entry(slot)

    def lookup(self, target_offset: int) -> OffsetPosition:
        """The entry with the largest offset <= target, else (base offset, 0)."""
        self._load()
        slot = self._slot_at_or_below(target_offset)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self._entry(slot)

    def fetch_upper_bound_offset(self, fetch_position: int, fetch_size: int) -> int | None:
        """Offset of the first entry whose position is >= fetch_position + fetch_size; None if there
        is none.
        """
        self._load()
        slot = bisect_left(range(self.entries), fetch_position + fetch_size, key=self._position)
        return self._entry(slot).offset if slot < self.entries else None

    def append(self, offset: int, position: int) -> None:
        """Adds one entry, as `extend` does."""
        self.extend(offset, offset, pack_offset_entry(offset - self.base_offset, position))

    def extend(self, first_offset: int, last_offset: int, entries: Buffer) -> None:
        """Adds packed entries with rising offsets from `first_offset` to `last_offset`.

        Entries for which there is no room are dropped. This can happen inside one long append and
        only makes scans longer. CorruptFileError if the entries that were read from disk already
        reach `first_offset`.
        """
        if not self._loaded:
            self._load()
        size = len(self._entries)
        room = self._full_at_bytes - size
        if room <= 0:
            return
        if size and first_offset <= self._last_offset:
            raise CorruptFileError(
                self.path, size - 8, f"the last entry's offset {self._last_offset} is not below the next one, {first_offset}"
            )
        if len(entries) > room:
            entries = entries[:room]
            last_offset = self.base_offset + int(_ENTRY.unpack_from(entries, room - 8)[0])
        self._append_entries(entries)
        self._last_offset = last_offset

    def truncate_to(self, offset: int) -> None:
        """Drops all entries with an offset >= `offset`."""
        self._load()
        slot = self._slot_at_or_below(offset - 1)
        self._truncate_to_entries(slot + 1)

    def sanity_problem(self) -> str | None:
        """What is wrong with the file, or None (Kafka's `sanityCheck`)."""
        if self.entries and self.last_offset < self.base_offset:
            return f"non-zero size but the last offset is {self.last_offset}, less than the base offset {self.base_offset}"
        if self.length % self.entry_size:
            return f"found {self.length} bytes, which is not a multiple of {self.entry_size}"
        return None

    def _slot_at_or_below(self, target_offset: int) -> int:
        return bisect_right(range(self.entries), target_offset - self.base_offset, key=self._relative_offset) - 1

    def _relative_offset(self, slot: int) -> int:
        return _int(self._entries, slot * 8)

    def _position(self, slot: int) -> int:
        return _int(self._entries, slot * 8 + 4)

    def _entry(self, slot: int) -> OffsetPosition:
        relative_offset, position = _ENTRY.unpack_from(self._entries, slot * 8)
        return OffsetPosition(self.base_offset + relative_offset, position)

    def _on_entries_changed(self) -> None:
        self._last_offset = self._entry(self.entries - 1).offset if self._entries else self.base_offset


_INT: Final = struct.Struct(">i")


def _int(buffer: bytearray, position: int) -> int:
    value: int = _INT.unpack_from(buffer, position)[0]
    return value
