"""A run of record bytes in an open file: what a fetch gives to the network, which sends it without
reading it.
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
        """Read them. Shorter than `size` only if the file has been cut since."""
        return self.file.pread(self.size, self.position) if self.size else b""

    def slice(self, position: int, size: int) -> FileRecords:
        """Up to `size` bytes from `position` (relative to this run)."""
        start = min(position, self.size)
        return FileRecords(self.file, self.position + start, min(size, self.size - start))
