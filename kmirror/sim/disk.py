"""A disk that forgets: `FileSystem` with a page cache in front of what is durable.

Contents. A write changes the cached contents at once and is remembered as pending. `fsync` of the file makes its
pending writes durable. A crash of the process loses nothing. A power loss decides each pending write on its own, by the
seed: it is there, it is not, or it is torn (a prefix up to any byte, or any subset of its 512-byte sectors). A kernel
writes back pages in any order, so a later write may survive an earlier one, with zeros in the hole between them.

Names. Creating, renaming and removing change the cached directories and are remembered in one journal, in order.
`fsync_path` of a directory commits the journal up to the last entry that concerns that directory. Power loss keeps a
prefix of the journal, at least what was committed. So a file whose contents were synced may still be missing, or have
its old name, unless its directory was synced too: what POSIX allows, more than ext4 does.

Faults. `fail_next` makes operations fail; a failed fsync drops the pending writes of the file from what can become
durable, as Linux does. `capacity_bytes` makes writes fail with ENOSPC after writing what fits. `corrupt` flips bits.

A `SimFile` belongs to one life of its node: after `detach` (crash or power loss) each use of it raises `NodeKilledError`.
Known holes: no times on directories, no hard links, no permissions, metadata of one rename is never torn.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kmirror.common.ports import Buffer, Clock, Random
from kmirror.sim.loop import NodeKilledError

SECTOR_BYTES = 512
DEFAULT_CAPACITY_BYTES = 1 << 40


@dataclass(slots=True)
class _Write:
    position: int
    data: bytes


@dataclass(slots=True)
class _Truncate:
    size: int


class _Contents:
    """Bytes of a file; zeros at its end are not kept, so that a preallocated index costs nothing."""

    __slots__ = ("data", "size")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def copy(self) -> _Contents:
        other = _Contents()
        other.data = bytearray(self.data)
        other.size = self.size
        return other

    def apply(self, change: _Write | _Truncate) -> None:
        data = self.data
        if isinstance(change, _Truncate):
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


class _FileNode:
    """Contents of one file, whatever its names."""

    __slots__ = ("cached", "durable", "locked_by", "mtime_ms", "pending")

    def __init__(self, mtime_ms: int) -> None:
        self.cached = _Contents()
        self.durable = _Contents()
        self.pending: list[_Write | _Truncate] = []
        self.locked_by: SimFile | None = None
        self.mtime_ms = mtime_ms

    def sync(self) -> None:
        for change in self.pending:
            self.durable.apply(change)
        self.pending.clear()


class _Directory:
    __slots__ = ("durable_entries", "entries", "mtime_ms")

    def __init__(self, mtime_ms: int) -> None:
        self.entries: dict[str, _Node] = {}
        self.durable_entries: dict[str, _Node] = {}
        self.mtime_ms = mtime_ms


_Node = _FileNode | _Directory


@dataclass(slots=True)
class _JournalEntry:
    """Set `name` to `node` (or remove it, when None) in each of the directories, atomically."""

    changes: tuple[tuple[_Directory, str, _Node | None], ...]

    def commit(self) -> None:
        for directory, name, node in self.changes:
            if node is None:
                directory.durable_entries.pop(name, None)
            else:
                directory.durable_entries[name] = node

    def concerns(self, directory: _Directory) -> bool:
        return any(changed is directory for changed, _, _ in self.changes)


@dataclass(slots=True)
class DiskFault:
    """Fail `count` operations (after letting `skip` pass) whose path contains `path_part`."""

    operation: str
    path_part: str
    error_number: int
    skip: int
    count: int


class DiskWatcher(Protocol):
    """Told of every change of a file after it was made; it must change nothing."""

    def on_write(self, path: str, position: int, data: bytes) -> None: ...

    def on_truncate(self, path: str, size: int) -> None: ...

    def on_fsync(self, path: str) -> None: ...

    def on_rename(self, source: str, destination: str) -> None: ...

    def on_remove(self, path: str) -> None: ...


class SimDisk:
    """One node's disk; it outlives the node. `note` puts what happens into the trace."""

    def __init__(self, clock: Clock, random: Random, *, note: Callable[[str], None], capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self.watcher: DiskWatcher | None = None
        self._clock = clock
        self._random = random
        self._note = note
        self._root = _Directory(0)
        self._journal: list[_JournalEntry] = []
        self._faults: list[DiskFault] = []
        self._life = 0
        self._attached = True

    # Crashes and faults

    @property
    def life(self) -> int:
        return self._life

    def detach(self, *, power_loss: bool) -> None:
        """The node died. With `power_loss`, so did the page cache."""
        self._life += 1
        self._attached = False
        self._note(f"disk detach power_loss={power_loss}")
        if power_loss:
            self._lose_journal()
        for file in self._all_files(self._root):
            file.locked_by = None
            if power_loss:
                self._lose_writes(file)

    def attach(self) -> None:
        """The node starts again on what is left."""
        self._attached = True

    def fail_next(self, operation: str, *, path_part: str = "", error_number: int = errno.EIO, skip: int = 0, count: int = 1) -> None:
        """`operation` is a method of File or FileSystem: pwrite (pwritev too), pread, fsync, truncate, open, rename, remove..."""
        self._faults.append(DiskFault(operation, path_part, error_number, skip, count))

    def clear_faults(self) -> None:
        self._faults.clear()

    def corrupt(self, path: str, position: int, mask: int) -> None:
        """Flip the bits of `mask` in one byte, in the cache and for good."""
        file = self._file_at(path)
        file.sync()
        file.cached.flip(position, mask)
        file.durable.flip(position, mask)

    def contents(self, path: str) -> bytes:
        """The file as the kernel has it, also of a node that is dead; b"" where there is none."""
        node = self._find(path)
        return node.cached.read(node.cached.size, 0) if isinstance(node, _FileNode) else b""

    def names(self, path: str) -> list[str]:
        """The directory's entries, sorted, also of a node that is dead; none where there is no such directory."""
        node = self._find(path)
        return sorted(node.entries) if isinstance(node, _Directory) else []

    def used_bytes(self) -> int:
        return sum(file.cached.size for file in self._all_files(self._root))

    def _lose_journal(self) -> None:
        kept = self._random.randrange(len(self._journal) + 1)
        for entry in self._journal[:kept]:
            entry.commit()
        self._note(f"disk power loss keeps {kept} of {len(self._journal)} journal entries")
        self._journal.clear()
        self._restore(self._root)

    def _restore(self, directory: _Directory) -> None:
        directory.entries = dict(directory.durable_entries)
        for node in directory.entries.values():
            if isinstance(node, _Directory):
                self._restore(node)

    def _lose_writes(self, file: _FileNode) -> None:
        for change in file.pending:
            self._maybe_apply(file.durable, change)
        file.pending.clear()
        file.cached = file.durable.copy()

    def _maybe_apply(self, durable: _Contents, change: _Write | _Truncate) -> None:
        fate = self._random.randrange(4)
        if isinstance(change, _Truncate):
            if fate % 2:
                durable.apply(change)
        elif fate == 0:
            durable.apply(change)
        elif fate == 1:
            durable.apply(_Write(change.position, change.data[: self._random.randrange(len(change.data) + 1)]))
        elif fate == 2:
            for start in range(0, len(change.data), SECTOR_BYTES):
                if self._random.randrange(2):
                    durable.apply(_Write(change.position + start, change.data[start : start + SECTOR_BYTES]))

    def check(self, operation: str, path: str) -> None:
        """Raise when the node is dead or a fault is due."""
        if not self._attached:
            raise NodeKilledError(f"{operation} of {path}")
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path:
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.count -= 1
                if fault.count <= 0:
                    self._faults.remove(fault)
                self._note(f"disk fault {operation} {path} {fault.error_number}")
                raise OSError(fault.error_number, os.strerror(fault.error_number), path)

    # FileSystem

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> SimFile:
        self.check("open", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if node is None:
            if not create and not exclusive:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = _FileNode(self._clock.time_ms())
            self._change((directory, name, node))
            self._note(f"disk create {path}")
        return SimFile(self, node, path, writable=write)

    def exists(self, path: str) -> bool:
        self.check("exists", path)
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.check("is_dir", path)
        return isinstance(self._find(path), _Directory)

    def list_dir(self, path: str) -> list[str]:
        self.check("list_dir", path)
        return sorted(self._directory_at(path).entries)

    def make_dirs(self, path: str) -> None:
        self.check("make_dirs", path)
        directory = self._root
        names = _names(path)
        for index, name in enumerate(names):
            node = directory.entries.get(name)
            if node is None:
                node = _Directory(self._clock.time_ms())
                self._change((directory, name, node))
            if not isinstance(node, _Directory):
                if index < len(names) - 1:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = node

    def rename(self, source: str, destination: str) -> None:
        self.check("rename", source)
        node = self._node_at(source)
        source_directory, source_name = self._parent(source)
        directory, name = self._parent(destination)
        replaced = directory.entries.get(name)
        if replaced is node:
            return
        self._ensure_replaceable(node, replaced, destination)
        self._change((source_directory, source_name, None), (directory, name, node))
        self._note(f"disk rename {source} {destination}")
        if self.watcher is not None:
            self.watcher.on_rename(source, destination)

    def _ensure_replaceable(self, node: _Node, replaced: _Node | None, destination: str) -> None:
        if isinstance(replaced, _Directory):
            if not isinstance(node, _Directory):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), destination)
            if replaced.entries:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), destination)
        elif replaced is not None and isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), destination)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._file_at(path)
        directory, name = self._parent(path)
        self._change((directory, name, None))
        self._note(f"disk remove {path}")
        if self.watcher is not None:
            self.watcher.on_remove(path)

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        self._remove_entries(self._directory_at(path))
        directory, name = self._parent(path)
        self._change((directory, name, None))
        self._note(f"disk remove_tree {path}")

    def _remove_entries(self, directory: _Directory) -> None:
        for name in sorted(directory.entries):
            node = directory.entries[name]
            if isinstance(node, _Directory):
                self._remove_entries(node)
            self._change((directory, name, None))

    def size(self, path: str) -> int:
        self.check("size", path)
        return self._file_at(path).cached.size

    def mtime_ms(self, path: str) -> int:
        self.check("mtime_ms", path)
        return self._node_at(path).mtime_ms

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self.check("set_mtime_ms", path)
        self._node_at(path).mtime_ms = mtime_ms

    def read_bytes(self, path: str) -> bytes:
        self.check("pread", path)
        cached = self._file_at(path).cached
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
        node = self._node_at(path)
        if isinstance(node, _FileNode):
            node.sync()
        else:
            last = max((index for index, entry in enumerate(self._journal) if entry.concerns(node)), default=-1)
            for entry in self._journal[: last + 1]:
                entry.commit()
            del self._journal[: last + 1]
        self._note(f"disk fsync {path}")

    def lock(self, path: str) -> SimFile:
        file = self.open(path, create=True)
        file.take_lock()
        return file

    def free_bytes(self, path: str) -> tuple[int, int]:
        self.check("free_bytes", path)
        return self.capacity_bytes, max(0, self.capacity_bytes - self.used_bytes())

    # What files need of us

    def note_change(self, text: str) -> None:
        self._note(text)

    def now_ms(self) -> int:
        return self._clock.time_ms()

    def room_for(self, growth: int) -> int:
        """How many of `growth` more bytes fit."""
        if growth <= 0 or self.capacity_bytes >= DEFAULT_CAPACITY_BYTES:
            return growth
        return max(0, min(growth, self.capacity_bytes - self.used_bytes()))

    # Paths

    def _change(self, *changes: tuple[_Directory, str, _Node | None]) -> None:
        for directory, name, node in changes:
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node
        self._journal.append(_JournalEntry(changes))

    def _find(self, path: str) -> _Node | None:
        node: _Node = self._root
        for name in _names(path):
            if not isinstance(node, _Directory):
                return None
            found = node.entries.get(name)
            if found is None:
                return None
            node = found
        return node

    def _node_at(self, path: str) -> _Node:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _file_at(self, path: str) -> _FileNode:
        node = self._node_at(path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _directory_at(self, path: str) -> _Directory:
        node = self._node_at(path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        names = _names(path)
        if not names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._directory_at("/".join(names[:-1])), names[-1]

    def _all_files(self, directory: _Directory) -> list[_FileNode]:
        files: list[_FileNode] = []
        for node in directory.entries.values():
            files.extend(self._all_files(node) if isinstance(node, _Directory) else [node])
        return files


class SimFile:
    """One open file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, node: _FileNode, path: str, *, writable: bool) -> None:
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
        growth = position + len(data) - self._node.cached.size
        missing = growth - self._disk.room_for(growth) if growth > 0 else 0
        fitting = data[: max(0, len(data) - missing)]
        if fitting:
            self._do(_Write(position, fitting))
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
            self._do(_Truncate(size))
            self._disk.note_change(f"disk truncate {self.path} {size}")
            if self._disk.watcher is not None:
                self._disk.watcher.on_truncate(self.path, size)

    def fsync(self) -> None:
        try:
            self._check("fsync")
        except OSError:
            self._node.pending.clear()
            raise
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

    def _do(self, change: _Write | _Truncate) -> None:
        self._node.cached.apply(change)
        self._node.pending.append(change)
        self._node.mtime_ms = self._disk.now_ms()

    def _check(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise NodeKilledError(f"{operation} of {self.path}")
        self._disk.check(operation, self.path)
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)

    def _ensure_writable(self) -> None:
        if not self._writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]
