"""Names of a `SimDisk`: directories as the kernel has them, and a journal of what changed in front
of what is durable.

Creating, renaming and removing change the cached entries at once and are remembered in one journal,
in order. `commit` of a directory commits the journal up to the last entry that concerns that
directory; a power loss keeps a prefix of what is left of it, by the seed. Errors are those of the
operating system (FileNotFoundError, IsADirectoryError, ENOTEMPTY...). Nothing here reads or writes
contents.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from kmirror.common.ports import Random
from kmirror.sim.disk_contents import FileNode


class Directory:
    """A directory: `entries` as the kernel has them, `durable_entries` as the journal was
    committed.
    """

    __slots__ = ("durable_entries", "entries", "mtime_ms")

    def __init__(self, mtime_ms: int) -> None:
        self.entries: dict[str, Node] = {}
        self.durable_entries: dict[str, Node] = {}
        self.mtime_ms = mtime_ms


Node = FileNode | Directory
Change = tuple[Directory, str, Node | None]
"""(directory, name, node): the name shall mean the node, or be removed if it is None."""


@dataclass(slots=True)
class JournalEntry:
    """Changes that become durable together or not at all."""

    changes: tuple[Change, ...]

    def commit(self) -> None:
        for directory, name, node in self.changes:
            if node is None:
                directory.durable_entries.pop(name, None)
            else:
                directory.durable_entries[name] = node

    def concerns(self, directory: Directory) -> bool:
        return any(changed is directory for changed, _, _ in self.changes)


class DiskTree:
    """All names of one disk, from `root` on."""

    def __init__(self) -> None:
        self.root = Directory(0)
        self._journal: list[JournalEntry] = []

    # What is where

    def find(self, path: str) -> Node | None:
        node: Node = self.root
        for name in _names(path):
            if not isinstance(node, Directory):
                return None
            found = node.entries.get(name)
            if found is None:
                return None
            node = found
        return node

    def node_at(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def file_at(self, path: str) -> FileNode:
        node = self.node_at(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def directory_at(self, path: str) -> Directory:
        node = self.node_at(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """Returns the directory that `path` is in, or would be in, and its name there."""
        names = _names(path)
        if not names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self.directory_at("/".join(names[:-1])), names[-1]

    def files(self, path: str = "/") -> list[FileNode]:
        """Returns the files below `path`; none if there is no such directory."""
        node = self.find(path)
        return _files_of(node) if isinstance(node, Directory) else []

    # Changes

    def change(self, *changes: Change) -> None:
        """Makes the changes in the cache, and adds them as one entry of the journal."""
        for directory, name, node in changes:
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node
        self._journal.append(JournalEntry(changes))

    def make_dirs(self, path: str, mtime_ms: int) -> None:
        directory = self.root
        names = _names(path)
        for index, name in enumerate(names):
            node = directory.entries.get(name)
            if node is None:
                node = Directory(mtime_ms)
                self.change((directory, name, node))
            if not isinstance(node, Directory):
                if index < len(names) - 1:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = node

    def rename(self, source: str, destination: str) -> bool:
        """Renames, and drops what stood at `destination`; returns False if both names are one node
        already.
        """
        node = self.node_at(source)
        source_directory, source_name = self.parent(source)
        directory, name = self.parent(destination)
        replaced = directory.entries.get(name)
        if replaced is node:
            return False
        _ensure_replaceable(node, replaced, destination)
        self.change((source_directory, source_name, None), (directory, name, node))
        return True

    def remove(self, path: str) -> None:
        self.file_at(path)
        directory, name = self.parent(path)
        self.change((directory, name, None))

    def remove_tree(self, path: str) -> None:
        self._remove_entries(self.directory_at(path))
        directory, name = self.parent(path)
        self.change((directory, name, None))

    def _remove_entries(self, directory: Directory) -> None:
        for name in sorted(directory.entries):
            node = directory.entries[name]
            if isinstance(node, Directory):
                self._remove_entries(node)
            self.change((directory, name, None))

    def empty(self, path: str) -> None:
        """Removes everything below that directory, from its durable entries and from the journal,
        too.
        """
        directory = self.directory_at(path)
        directory.entries.clear()
        directory.durable_entries.clear()
        self._journal = [entry for entry in self._journal if not entry.concerns(directory)]

    # The journal

    def commit(self, directory: Directory) -> None:
        """Commits the journal up to the last entry that concerns the directory."""
        last = max((index for index, entry in enumerate(self._journal) if entry.concerns(directory)), default=-1)
        for entry in self._journal[: last + 1]:
            entry.commit()
        del self._journal[: last + 1]

    def lose_journal(self, random: Random) -> tuple[int, int]:
        """Applies a power loss: only a prefix of the journal becomes durable. Returns the number of
        entries kept, and of all.
        """
        kept, count = random.randrange(len(self._journal) + 1), len(self._journal)
        for entry in self._journal[:kept]:
            entry.commit()
        self._journal.clear()
        _restore(self.root)
        return kept, count


def _restore(directory: Directory) -> None:
    directory.entries = dict(directory.durable_entries)
    for node in directory.entries.values():
        if isinstance(node, Directory):
            _restore(node)


def _files_of(directory: Directory) -> list[FileNode]:
    files: list[FileNode] = []
    for node in directory.entries.values():
        files.extend(_files_of(node) if isinstance(node, Directory) else [node])
    return files


def _ensure_replaceable(node: Node, replaced: Node | None, destination: str) -> None:
    if isinstance(replaced, Directory):
        if not isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), destination)
        if replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), destination)
    elif replaced is not None and isinstance(node, Directory):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), destination)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]
