"""Bytes of one file of a `SimDisk`: what the kernel has, what is durable, and the changes in
between.

A change (`Write`, `Truncate`) applies to the cached contents at once and is remembered as pending.
`sync` makes the pending changes durable, in their order. `lose_writes` is the moment of a power
loss, in which the seed decides each pending change on its own. A write survives, is lost, or is
torn: a prefix up to any byte, or any subset of its 512-byte sectors. A truncation happened or did
not.
"""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.ports import Random

SECTOR_BYTES = 512


@dataclass(slots=True)
class Write:
    position: int
    data: bytes


@dataclass(slots=True)
class Truncate:
    size: int


class Contents:
    """Bytes of a file. Zeros at its end are not kept, so that a preallocated index costs nothing."""

    __slots__ = ("data", "size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def copy(self) -> Contents:
        other = Contents()
        other.data = bytearray(self.data)
        other.size = self.size
        return other

    def apply(self, change: Write | Truncate) -> None:
        data = self.data
        if isinstance(change, Truncate):
            del data[change.size :]
            self.size = change.size
            return
        if change.position > len(data):
            data.extend(bytes(change.position - len(data)))
        end = change.position + len(change.data)
        data[change.position : end] = change.data
        self.size = max(self.size, end)

    def read(self, size: int, position: int) -> bytes:
        end = min(position + size, self.size)
        kept = bytes(memoryview(self.data)[position:end])
        return kept + bytes(max(0, end - position - len(kept)))

    def flip(self, position: int, mask: int) -> None:
        if position >= len(self.data):
            self.data.extend(bytes(position + 1 - len(self.data)))
        self.data[position] ^= mask


class FileNode:
    """Contents of one file, whatever its names. `locked_by` is the open file that holds its lock."""

    __slots__ = ("cached", "durable", "locked_by", "mtime_ms", "pending")

    def __init__(self, mtime_ms: int) -> None:
        self.cached = Contents()
        self.durable = Contents()
        self.pending: list[Write | Truncate] = []
        self.locked_by: object | None = None
        self.mtime_ms = mtime_ms

    def change(self, change: Write | Truncate, mtime_ms: int) -> None:
        """Makes a change in the cache; it is pending until `sync`."""
        self.cached.apply(change)
        self.pending.append(change)
        self.mtime_ms = mtime_ms

    def sync(self) -> None:
        """Makes the pending changes durable."""
        for change in self.pending:
            self.durable.apply(change)
        self.pending.clear()

    def flip(self, position: int, mask: int) -> None:
        """Flips bits in the cache and for good."""
        self.sync()
        self.cached.flip(position, mask)
        self.durable.flip(position, mask)

    def lose_writes(self, random: Random) -> None:
        """Applies a power loss: the cache becomes what is durable plus what `random` keeps of the
        pending changes.
        """
        for change in self.pending:
            self._maybe_apply(change, random)
        self.pending.clear()
        self.cached = self.durable.copy()

    def _maybe_apply(self, change: Write | Truncate, random: Random) -> None:
        durable, fate = self.durable, random.randrange(4)
        if isinstance(change, Truncate):
            if fate % 2:
                durable.apply(change)
        elif fate == 0:
            durable.apply(change)
        elif fate == 1:
            durable.apply(Write(change.position, change.data[: random.randrange(len(change.data) + 1)]))
        elif fate == 2:
            for start in range(0, len(change.data), SECTOR_BYTES):
                if random.randrange(2):
                    durable.apply(Write(change.position + start, change.data[start : start + SECTOR_BYTES]))
