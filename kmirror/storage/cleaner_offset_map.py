"""The cleaner's map from key to last offset, with the capacity of Kafka's `SkimpyOffsetMap`.

Kafka packs (MD5 of the key, offset) into a fixed buffer of log.cleaner.dedupe.buffer.size bytes, 24
bytes an entry, and stops when the buffer is filled to log.cleaner.io.buffer.load.factor. The rest
of the dirty section waits for the next pass. Where a pass ends is visible from outside (the cleaner
checkpoint, the records that stay), so the number of slots and the use of the digest instead of the
key are the same here. The table itself is a dict that takes the memory it needs.
"""

from __future__ import annotations

import hashlib
from typing import Final

from kmirror.common.ports import Buffer

BYTES_PER_ENTRY: Final = 24


class OffsetMap:
    """Key -> offset of its last record in the section being cleaned."""

    def __init__(self, memory_bytes: int) -> None:
        self.slots = memory_bytes // BYTES_PER_ENTRY
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        return len(self._offsets) / self.slots

    def put(self, key: Buffer, offset: int) -> None:
        """Sets the key's last offset. The caller must not exceed `slots`."""
        self._offsets[hashlib.md5(key, usedforsecurity=False).digest()] = offset
        assert len(self._offsets) <= self.slots, f"offset map has {len(self._offsets)} entries in {self.slots} slots"
        self.latest_offset = offset

    def get(self, key: Buffer) -> int:
        """The last offset put for the key; -1 if none was."""
        return self._offsets.get(hashlib.md5(key, usedforsecurity=False).digest(), -1)

    def update_latest_offset(self, offset: int) -> None:
        """Declares everything up to `offset` covered by the map (a gap, or a batch without keyed
        records).
        """
        self.latest_offset = offset

    def clear(self) -> None:
        self._offsets.clear()
        self.latest_offset = -1
