"""A run of record bytes in an open file. A fetch returns it to the network, which sends the bytes
without reading them into memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.ports import File


@dataclass(slots=True)
class FileRecords:
    """`size` bytes of `file` from byte `position` on (a `common.ports.FileSlice`)."""

    file: File
    position: int
    size: int

    def to_bytes(self) -> bytes:
        """Reads the bytes. They are fewer than `size` only if the file was cut meanwhile."""
        return self.file.pread(self.size, self.position) if self.size else b""

    def slice(self, position: int, size: int) -> FileRecords:
        """Up to `size` bytes from `position` (relative to this run)."""
        start = min(position, self.size)
        return FileRecords(self.file, self.position + start, min(size, self.size - start))
