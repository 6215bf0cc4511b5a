"""A file that is opened when its bytes are first read, and created when the first ones are written.

Otherwise a broker with ten thousand idle partitions would hold descriptors (and, for new
partitions, files) for all of them. A partition that was not used since the start costs neither.
`release` gives the descriptor back; the next use opens the file again.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from kmirror.common.ports import Buffer, File, FileSystem


class LazyFile:
    """A `common.ports.File`; owns the descriptor.

    While there is no file on disk it reads as empty; `create` makes the file at once.
    """

    __slots__ = ("_file", "_files", "_is_closed", "_preallocated_size", "exists", "initial_size", "path")

    def __init__(self, files: FileSystem, path: str, *, preallocated_size: int = 0) -> None:
        """A new file is extended to `preallocated_size`. `initial_size` becomes the size of an
        existing one.
        """
        self.path = path
        self._files = files
        self._file: File | None = None
        self._is_closed = False
        self._preallocated_size = preallocated_size
        try:
            self.initial_size = files.size(path)
            self.exists = True
        except FileNotFoundError:
            self.initial_size = 0
            self.exists = False

    def create(self) -> None:
        """Creates the file if it does not exist."""
        if not self.exists:
            self._open()

    def _open(self) -> File:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        if self._file is None:
            self._file = self._files.open(self.path, create=not self.exists)
            if not self.exists and self._preallocated_size:
                self._file.truncate(self._preallocated_size)
            self.exists = True
        return self._file

    def pread(self, size: int, position: int) -> bytes:
        return self._open().pread(size, position) if self.exists else b""

    def pwrite(self, data: Buffer, position: int) -> int:
        return (self._file or self._open()).pwrite(data, position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        return (self._file or self._open()).pwritev(buffers, position)

    def size(self) -> int:
        return self._open().size() if self.exists else 0

    def truncate(self, size: int) -> None:
        self._open().truncate(size)

    def fsync(self) -> None:
        self._open().fsync()

    def fileno(self) -> int:
        return self._open().fileno()

    @property
    def is_open(self) -> bool:
        """Whether a descriptor is held."""
        return self._file is not None and not self._file.closed

    def release(self) -> None:
        """Closes the descriptor. Nobody else may still use this file or a slice of it."""
        if self._file is not None and not self._is_closed:
            self._file.close()
            self._file = None

    def close(self) -> None:
        self._is_closed = True
        if self._file is not None:
            self._file.close()

    @property
    def closed(self) -> bool:
        return self._is_closed
