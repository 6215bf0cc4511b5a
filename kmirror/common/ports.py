"""What lower rooms need from the outside world, as Protocols. `runtime` and `sim` implement them.

Nothing below `runtime` imports `time`, `random`, `os` file calls, `socket` or `threading`: code
there is given these ports. Files are addressed by position, never by a seek pointer, so one `File`
may be read and written by several owners that take turns on one loop. `FileSystem` is synchronous;
work that may take longer than 5 ms goes through `Runtime.run_blocking`. Two implementations: the
operating system (`runtime.os_files`) and the simulated disk (`sim.disk`), which after a crash has
lost data that was not fsynced, and tears writes that were under way.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

Buffer = bytes | bytearray | memoryview
OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of an open that say nothing about the file: the process or the machine has reached its
limit of open files."""


class Clock(Protocol):
    """Wall and monotonic time, in integer milliseconds (Kafka's `Time`)."""

    def time_ms(self) -> int:
        """Milliseconds since the epoch (wall clock; may jump)."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never goes back; only differences mean something."""
        ...

    def monotonic_ns(self) -> int:
        """The same clock in nanoseconds, for measuring how long a step took."""
        ...


class Random(Protocol):
    """Randomness. Every random decision uses one of these, so that a seed replays it."""

    def random(self) -> float: ...

    def randrange(self, stop: int) -> int:
        """Uniform in [0, stop)."""
        ...

    def token_bytes(self, size: int) -> bytes: ...


class File(Protocol):
    """One open file. All positions and sizes are bytes."""

    path: str

    def pread(self, size: int, position: int) -> bytes:
        """Returns up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> int:
        """Writes all of `data` at `position`, extending the file if needed; returns the number of
        bytes written."""
        ...

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Writes all `buffers` in order at `position`, with one system call where possible."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size`, or extends it with zeros."""
        ...

    def fsync(self) -> None: ...

    def fileno(self) -> int:
        """Returns the descriptor, for sendfile; raises OSError where there is none (simulated
        disk)."""
        ...

    def close(self) -> None: ...

    @property
    def closed(self) -> bool: ...


class FileSystem(Protocol):
    """Paths are `str`. Errors are the OSError subclasses of the standard library."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File: ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory; raises OSError if that cannot be determined (EIO,
        EACCES ...)."""
        ...

    def is_dir(self, path: str) -> bool:
        """Like `exists`, for a directory."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted."""
        ...

    def make_dirs(self, path: str) -> None: ...

    def make_private(self, path: str) -> None:
        """Takes all permissions on the file, or on the folder and its contents, from everybody but
        the owner."""
        ...

    def rename(self, source: str, destination: str) -> None:
        """Renames a file or directory atomically, replacing `destination` (os.replace)."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def size(self, path: str) -> int: ...

    def mtime_ms(self, path: str) -> int: ...

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_bytes(self, path: str, data: Buffer) -> None:
        """Creates or replaces a whole file (not atomic, not synced)."""
        ...

    def fsync_path(self, path: str) -> None:
        """Calls fsync on a file or a directory by its path."""
        ...

    def lock(self, path: str) -> File:
        """Creates `path` if needed and holds an exclusive lock until the file is closed; raises
        BlockingIOError if another holds it."""
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """Returns (total bytes, usable bytes) of the volume that holds `path`."""
        ...


@runtime_checkable
class FileSlice(Protocol):
    """A run of bytes in a file. It goes to a socket unread (sendfile), or is read where sendfile
    cannot serve."""

    file: File
    position: int
    size: int

    def to_bytes(self) -> bytes: ...
