"""Volumes of a simulated machine: file systems that fill, fail or lie, each on its own.

A directory of `log.dirs` on a disk of its own is a volume. "/" is the volume of everything else. A
volume

    fills   at `capacity_bytes`: a write that grows a file writes what fits, then fails with ENOSPC
    fails   with `error_number`, in the operations that `failing` names, for files whose names end
            in `failing_suffix` (all operations and files, by default)
    lies    an fsync succeeds, but a power loss forgets what it should have made durable

until it is mended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

DEFAULT_CAPACITY_BYTES = 1 << 40
WRITING = frozenset({"pwrite", "truncate", "fsync", "rename", "remove", "remove_tree", "make_dirs", "lock", "set_mtime_ms"})
READING = frozenset({"pread", "list_dir", "size", "open"})


@dataclass(slots=True, eq=False)
class Volume:
    """The file system at `path`. It owns its capacity and its faults."""

    path: str
    capacity_bytes: int = DEFAULT_CAPACITY_BYTES
    error_number: int | None = None
    failing: frozenset[str] | None = None
    failing_suffix: str = ""
    lies: bool = False
    has_lied: bool = False
    """Whether it ever lied. Any file that was synced meanwhile may then be torn by any later power
    loss.
    """

    @property
    def is_broken(self) -> bool:
        """Whether something fails here, or may fail. A lie is not counted: it shows only when the
        power is lost.
        """
        return self.error_number is not None or self.capacity_bytes < DEFAULT_CAPACITY_BYTES

    def fail(self, error_number: int, operations: Collection[str] | None = None, *, suffix: str = "") -> None:
        """Makes these operations of File and FileSystem fail from now on, or all of them, for files
        whose names end in `suffix` (bad sectors).
        """
        self.failing_suffix = suffix
        self.error_number = error_number
        self.failing = None if operations is None else frozenset(operations)

    def mend(self) -> None:
        """Gives room again and ends all failures; what is synced from now on is durable."""
        self.capacity_bytes = DEFAULT_CAPACITY_BYTES
        self.error_number = self.failing = None
        self.failing_suffix = ""
        self.lies = False

    def error_of(self, operation: str, path: str) -> int | None:
        """Returns the error number that the operation fails with; None if it does not fail."""
        if self.error_number is None or (self.failing is not None and operation not in self.failing):
            return None
        if not path.endswith(self.failing_suffix):
            return None
        return self.error_number


class Volumes:
    """All volumes of a machine by path; `root` has what lies on no other."""

    def __init__(self, root: Volume) -> None:
        self.root = root
        self._mounted: dict[str, Volume] = {}

    def mount(self, path: str) -> Volume:
        """Returns the volume at `path`, which is made if there is none yet."""
        return self._mounted.setdefault(path, Volume(path))

    def mounted(self) -> list[Volume]:
        return list(self._mounted.values())

    def at(self, path: str) -> Volume:
        """Returns the volume that the path lies on."""
        for mount, volume in self._mounted.items():
            if path.startswith(mount) and (len(path) == len(mount) or path[len(mount)] == "/"):
                return volume
        return self.root
