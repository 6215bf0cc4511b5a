"""What lower rooms need of the outside world, as Protocols; `runtime` and `sim` implement them.

Nothing below `runtime` imports `time`, `random`, `os` file calls, `socket` or `threading`: it is handed these ports.
Files are addressed by position, never by a seek pointer, so one `File` may be read and written by several owners
that take turns on one loop. `FileSystem` is synchronous; what may take longer than 5 ms goes through
`Runtime.run_blocking`. Two implementations: the operating system (`runtime.os_files`) and the simulated disk
(`sim.disk`), which forgets what was not fsynced and tears what was half written.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

Buffer = bytes | bytearray | memoryview
OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of an open that say nothing about the file: the process, or the machine, has as many open as it may."""


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
    """Chance. Every random decision goes through one of these, so that a seed replays it."""

    def random(self) -> float: ...

    def randrange(self, stop: int) -> int:
        """Uniform in [0, stop)."""
        ...

    def token_bytes(self, size: int) -> bytes: ...


class File(Protocol):
    """One open file. All positions and sizes are bytes."""

    path: str

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; shorter only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> int:
        """Write all of `data` at `position` (extends the file); the number of bytes written."""
        ...

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all `buffers` one after the other at `position`, with one call where the system allows."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut or (zero-filled) extend to `size`."""
        ...

    def fsync(self) -> None: ...

    def fileno(self) -> int:
        """The descriptor, for sendfile; raises OSError where there is none (simulated disk)."""
        ...

    def close(self) -> None: ...

    @property
    def closed(self) -> bool: ...


class FileSystem(Protocol):
    """Paths are `str`. Errors are the OSError subclasses of the standard library."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File: ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory; OSError where that cannot be told (EIO, EACCES ...)."""
        ...

    def is_dir(self, path: str) -> bool:
        """As `exists`, for a directory."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def make_dirs(self, path: str) -> None: ...

    def make_private(self, path: str) -> None:
        """Nobody but the owner may read or write the file, or the folder and what is in it."""
        ...

    def rename(self, source: str, destination: str) -> None:
        """Atomic rename, replacing `destination` (os.replace); also renames directories."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def size(self, path: str) -> int: ...

    def mtime_ms(self, path: str) -> int: ...

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def write_bytes(self, path: str, data: Buffer) -> None:
        """Create or replace a whole file (not atomic, not synced)."""
        ...

    def fsync_path(self, path: str) -> None:
        """fsync of a file or a directory by its path."""
        ...

    def lock(self, path: str) -> File:
        """Create `path` if needed and hold an exclusive lock until the file is closed; BlockingIOError if taken."""
        ...

    def free_bytes(self, path: str) -> tuple[int, int]:
        """(total bytes, usable bytes) of the volume that holds `path`."""
        ...


@runtime_checkable
class FileSlice(Protocol):
    """A run of bytes in a file that goes to a socket without being read (sendfile), or is read where it must be."""

    file: File
    position: int
    size: int

    def to_bytes(self) -> bytes: ...
