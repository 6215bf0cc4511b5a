"""A disk that forgets: `FileSystem` with a page cache in front of what is durable.

Contents (`sim.disk_contents`). `fsync` of the file makes its pending writes durable. A crash of the
process loses nothing. A power loss decides each pending write on its own: it is there, it is not,
or it is torn. A kernel writes back pages in any order, so a later write may survive an earlier one,
with zeros in the hole between them.

Names (`sim.disk_tree`). `fsync_path` of a directory commits the journal of changed names up to the
last that concerns it. Power loss keeps a prefix of the journal, at least what was committed. So a
file whose contents were synced may still be missing, or have its old name, unless its directory was
synced too: what POSIX allows, more than ext4 does.

Faults. A volume (`sim.disk_volumes`) fills, fails or lies; a directory may be one of its own
(`mount`). A failed fsync drops the pending writes of the file from what can become durable, as
Linux does. `corrupt` flips bits. The journal of names is one for all volumes.

A `SimFile` belongs to one life of its node: after `detach` (crash or power loss) each use of it
raises `NodeKilledError`. Known holes: no times on directories, no hard links, no permissions,
metadata of one rename is never torn.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from kmirror.common.ports import Buffer, Clock, Random
from kmirror.sim.disk_contents import FileNode, Truncate, Write
from kmirror.sim.disk_tree import Directory, DiskTree
from kmirror.sim.disk_volumes import DEFAULT_CAPACITY_BYTES, Volume, Volumes
from kmirror.sim.owners import NodeKilledError


class DiskWatcher(Protocol):
    """Is told of every change of a file after it was made; it must change nothing."""

    def on_write(self, path: str, position: int, data: bytes) -> None: ...

    def on_truncate(self, path: str, size: int) -> None: ...

    def on_fsync(self, path: str) -> None: ...

    def on_rename(self, source: str, destination: str) -> None: ...

    def on_remove(self, path: str) -> None: ...


class SimDisk:
    """One node's disk, which outlives each life of the node. `note` puts what happens into the
    trace.
    """

    def __init__(self, clock: Clock, random: Random, *, note: Callable[[str], None], capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.volumes = Volumes(Volume("/", capacity_bytes))
        self.watcher: DiskWatcher | None = None
        self._clock = clock
        self._random = random
        self._note = note
        self._tree = DiskTree()
        self._life = 0
        self._attached = True

    # Crashes and faults

    @property
    def life(self) -> int:
        return self._life

    def lose_tree(self, path: str) -> None:
        """Removes the directory, as an operator does while the node is off."""
        self._tree.remove_tree(path)
        self._tree.commit(self._tree.directory_at(path.rpartition("/")[0]))
        self._note(f"disk removed {path}")

    @property
    def capacity_bytes(self) -> int:
        """The capacity of the root volume, which has what lies on no other."""
        return self.volumes.root.capacity_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int) -> None:
        self.volumes.root.capacity_bytes = capacity_bytes

    def mount(self, path: str) -> Volume:
        """Returns the volume at that directory, which is made if there is none."""
        self._tree.make_dirs(path, self._clock.time_ms())
        self._tree.commit(self._tree.root)
        return self.volumes.mount(path)

    def lose(self, path: str) -> None:
        """Loses everything below that directory for good: another disk takes its place."""
        self._tree.empty(path)
        self.volumes.at(path).has_lied = False
        self._note(f"disk lost {path}")

    def detach(self, *, power_loss: bool) -> None:
        """Ends the node's use of the disk when it dies. With `power_loss`, the page cache is lost,
        too.
        """
        self._life += 1
        self._attached = False
        self._note(f"disk detach power_loss={power_loss}")
        if power_loss:
            kept, count = self._tree.lose_journal(self._random)
            self._note(f"disk power loss keeps {kept} of {count} journal entries")
        for file in self._tree.files():
            file.locked_by = None
            if power_loss:
                file.lose_writes(self._random)

    def attach(self) -> None:
        """Lets the node start again on what is left."""
        self._attached = True

    def corrupt(self, path: str, position: int, mask: int) -> None:
        """Flips the bits of `mask` in one byte, in the cache and for good."""
        self._tree.file_at(path).flip(position, mask)

    def contents(self, path: str) -> bytes:
        """Returns the file as the kernel has it, even if the node is dead; b"" if there is no file."""
        node = self._tree.find(path)
        return node.cached.read(node.cached.size, 0) if isinstance(node, FileNode) else b""

    def names(self, path: str) -> list[str]:
        """Returns the directory's entries, sorted, even if the node is dead; none if there is no
        such directory.
        """
        node = self._tree.find(path)
        return sorted(node.entries) if isinstance(node, Directory) else []

    def used_bytes(self, volume: Volume | None = None) -> int:
        """Returns the bytes used on one volume, or on all of them.

        Bytes that were never written, such as most of a preallocated index, take no room.
        """
        return sum(len(file.cached.data) for file in self._tree.files("/" if volume is None else volume.path))

    def check(self, operation: str, path: str) -> None:
        """Raises if the node is dead, or if the path's volume fails."""
        if not self._attached:
            raise NodeKilledError(f"{operation} of {path}")
        error_number = self.volumes.at(path).error_of(operation, path)
        if error_number is not None:
            raise OSError(error_number, os.strerror(error_number), path)

    # FileSystem

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> SimFile:
        self.check("open", path)
        directory, name = self._tree.parent(path)
        node = directory.entries.get(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if node is None:
            if not create and not exclusive:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = FileNode(self._clock.time_ms())
            self._tree.change((directory, name, node))
            self._note(f"disk create {path}")
        return SimFile(self, node, path, writable=write)

    def exists(self, path: str) -> bool:
        self.check("exists", path)
        return self._tree.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.check("is_dir", path)
        return isinstance(self._tree.find(path), Directory)

    def list_dir(self, path: str) -> list[str]:
        self.check("list_dir", path)
        return sorted(self._tree.directory_at(path).entries)

    def make_dirs(self, path: str) -> None:
        self.check("make_dirs", path)
        self._tree.make_dirs(path, self._clock.time_ms())

    def rename(self, source: str, destination: str) -> None:
        self.check("rename", source)
        if self._tree.rename(source, destination):
            self._note(f"disk rename {source} {destination}")
            if self.watcher is not None:
                self.watcher.on_rename(source, destination)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._tree.remove(path)
        self._note(f"disk remove {path}")
        if self.watcher is not None:
            self.watcher.on_remove(path)

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        self._tree.remove_tree(path)
        self._note(f"disk remove_tree {path}")

    def size(self, path: str) -> int:
        self.check("size", path)
        return self._tree.file_at(path).cached.size

    def mtime_ms(self, path: str) -> int:
        self.check("mtime_ms", path)
        return self._tree.node_at(path).mtime_ms

    def make_private(self, path: str) -> None:
        """Changes nothing: a simulated disk has one user."""
        self.check("make_private", path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self.check("set_mtime_ms", path)
        self._tree.node_at(path).mtime_ms = mtime_ms

    def read_bytes(self, path: str) -> bytes:
        self.check("pread", path)
        cached = self._tree.file_at(path).cached
        return cached.read(cached.size, 0)

    def write_bytes(self, path: str, data: Buffer) -> None:
        file = self.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
        finally:
            file.close()

    def fsync_path(self, path: str) -> None:
        self.check("fsync", path)
        node = self._tree.node_at(path)
        if self.lies_about(path):
            return
        if isinstance(node, FileNode):
            node.sync()
        else:
            self._tree.commit(node)
        self._note(f"disk fsync {path}")

    def lock(self, path: str) -> SimFile:
        file = self.open(path, create=True)
        file.take_lock()
        return file

    def free_bytes(self, path: str) -> tuple[int, int]:
        self.check("free_bytes", path)
        volume = self.volumes.at(path)
        return volume.capacity_bytes, max(0, volume.capacity_bytes - self.used_bytes(volume))

    # What files need of the disk

    def note_change(self, text: str) -> None:
        self._note(text)

    def now_ms(self) -> int:
        return self._clock.time_ms()

    def lies_about(self, path: str) -> bool:
        """Returns whether the path, which is being synced, will not be durable."""
        volume = self.volumes.at(path)
        if volume.lies:
            volume.has_lied = True
            self._note(f"disk lies about fsync {path}")
        return volume.lies

    def room_for(self, growth: int, path: str) -> int:
        """Returns how many of `growth` more bytes fit where the path lies."""
        volume = self.volumes.at(path)
        if growth <= 0 or volume.capacity_bytes >= DEFAULT_CAPACITY_BYTES:
            return growth
        return max(0, min(growth, volume.capacity_bytes - self.used_bytes(volume)))


class SimFile:
    """One open file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, node: FileNode, path: str, *, writable: bool) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._writable = writable
        self._life = disk.life
        self._closed = False

    def pread(self, size: int, position: int) -> bytes:
        self._check("pread")
        return self._node.cached.read(size, position)

    def pwrite(self, data: Buffer, position: int) -> int:
        return self.pwritev([data], position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        self._check("pwrite")
        self._ensure_writable()
        data = b"".join(buffers)
        growth = position + len(data) - len(self._node.cached.data)
        missing = growth - self._disk.room_for(growth, self.path) if growth > 0 else 0
        fitting = data[: max(0, len(data) - missing)]
        if fitting:
            self._node.change(Write(position, fitting), self._disk.now_ms())
            self._disk.note_change(f"disk write {self.path} {position} {len(fitting)}")
            if self._disk.watcher is not None:
                self._disk.watcher.on_write(self.path, position, fitting)
        if missing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        return len(data)

    def size(self) -> int:
        self._check("size")
        return self._node.cached.size

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._ensure_writable()
        if size != self._node.cached.size:
            self._node.change(Truncate(size), self._disk.now_ms())
            self._disk.note_change(f"disk truncate {self.path} {size}")
            if self._disk.watcher is not None:
                self._disk.watcher.on_truncate(self.path, size)

    def fsync(self) -> None:
        try:
            self._check("fsync")
        except OSError:
            self._node.pending.clear()
            raise
        if self._disk.lies_about(self.path):
            return
        self._node.sync()
        self._disk.note_change(f"disk fsync {self.path}")
        if self._disk.watcher is not None:
            self._disk.watcher.on_fsync(self.path)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def close(self) -> None:
        self._closed = True
        if self._node.locked_by is self:
            self._node.locked_by = None

    @property
    def closed(self) -> bool:
        return self._closed

    def take_lock(self) -> None:
        if self._node.locked_by is not None:
            self._closed = True
            raise BlockingIOError(errno.EAGAIN, "the lock is held by another process", self.path)
        self._node.locked_by = self

    def _check(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise NodeKilledError(f"{operation} of {self.path}")
        self._disk.check(operation, self.path)
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)

    def _ensure_writable(self) -> None:
        if not self._writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
