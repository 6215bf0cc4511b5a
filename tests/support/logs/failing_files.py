"""A file system whose n-th call fails, and perhaps every call after it. Tests use it to let each
call of a start fail in turn.

Calls on the files that it opened count too. A call that fails has done nothing, so this double does
not show what a half-done write leaves behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from kmirror.common.ports import Buffer, File, FileSystem

Result = TypeVar("Result")
WRITES = ("pwrite", "truncate", "create", "write_bytes", "make_dirs", "rename", "remove", "remove_tree", "fsync", "set_mtime_ms")


class FailingFiles:
    """A `FileSystem` that passes calls on to another one, and lets chosen calls fail.

    `fail_at` counts calls from 0. `operations` limits which calls count and fail; empty means all.
    `failed` lists the operation and path of each call that failed.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self.calls = 0
        self.failures = 0
        self.fail_at: int | None = None
        self.error_number = 0
        self.goes_on = False
        self.operations: Sequence[str] = ()
        self.path_part = ""
        self.under = ""
        self.failed: list[str] = []

    def fail(
        self,
        at: int | None,
        error_number: int = 0,
        *,
        goes_on: bool = False,
        operations: Sequence[str] = (),
        path_part: str = "",
        under: str = "",
    ) -> None:
        """Lets call number `at`, counted from now, fail, and with `goes_on` every later one too.

        With None no call fails any more. `operations`, `path_part` (a part of the path) and `under`
        (a prefix of the path) limit which calls count and fail.
        """
        self.calls, self.failures, self.failed = 0, 0, []
        self.fail_at, self.error_number, self.goes_on = at, error_number, goes_on
        self.operations, self.path_part, self.under = operations, path_part, under

    def call(self, operation: str, path: str, function: Callable[[], Result]) -> Result:
        if (not self.operations or operation in self.operations) and self.path_part in path and path.startswith(self.under):
            number, self.calls = self.calls, self.calls + 1
            if self.fail_at is not None and (number == self.fail_at or (self.goes_on and number > self.fail_at)):
                self.failures += 1
                self.failed.append(f"{operation} {path}")
                raise OSError(self.error_number, os.strerror(self.error_number), path)
        return function()

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
        operation = "create" if (create or exclusive) and not self._files.exists(path) else "open"
        file = self.call(operation, path, lambda: self._files.open(path, create=create, exclusive=exclusive, write=write))
        return FailingFile(self, file)

    def exists(self, path: str) -> bool:
        return self.call("exists", path, lambda: self._files.exists(path))

    def is_dir(self, path: str) -> bool:
        return self.call("is_dir", path, lambda: self._files.is_dir(path))

    def list_dir(self, path: str) -> list[str]:
        return self.call("list_dir", path, lambda: self._files.list_dir(path))

    def make_dirs(self, path: str) -> None:
        self.call("make_dirs", path, lambda: self._files.make_dirs(path))

    def make_private(self, path: str) -> None:
        self.call("make_private", path, lambda: self._files.make_private(path))

    def rename(self, source: str, destination: str) -> None:
        self.call("rename", source, lambda: self._files.rename(source, destination))

    def remove(self, path: str) -> None:
        self.call("remove", path, lambda: self._files.remove(path))

    def remove_tree(self, path: str) -> None:
        self.call("remove_tree", path, lambda: self._files.remove_tree(path))

    def size(self, path: str) -> int:
        return self.call("size", path, lambda: self._files.size(path))

    def mtime_ms(self, path: str) -> int:
        return self.call("mtime_ms", path, lambda: self._files.mtime_ms(path))

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self.call("set_mtime_ms", path, lambda: self._files.set_mtime_ms(path, mtime_ms))

    def read_bytes(self, path: str) -> bytes:
        return self.call("read_bytes", path, lambda: self._files.read_bytes(path))

    def write_bytes(self, path: str, data: Buffer) -> None:
        self.call("write_bytes", path, lambda: self._files.write_bytes(path, data))

    def fsync_path(self, path: str) -> None:
        self.call("fsync", path, lambda: self._files.fsync_path(path))

    def lock(self, path: str) -> File:
        return FailingFile(self, self.call("lock", path, lambda: self._files.lock(path)))

    def free_bytes(self, path: str) -> tuple[int, int]:
        return self.call("free_bytes", path, lambda: self._files.free_bytes(path))


class FailingFile:
    """A `File` that a `FailingFiles` opened."""

    def __init__(self, files: FailingFiles, file: File) -> None:
        self._files = files
        self._file = file
        self.path = file.path

    def pread(self, size: int, position: int) -> bytes:
        return self._files.call("pread", self.path, lambda: self._file.pread(size, position))

    def pwrite(self, data: Buffer, position: int) -> int:
        return self._files.call("pwrite", self.path, lambda: self._file.pwrite(data, position))

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        return self._files.call("pwrite", self.path, lambda: self._file.pwritev(buffers, position))

    def size(self) -> int:
        return self._files.call("size", self.path, self._file.size)

    def truncate(self, size: int) -> None:
        self._files.call("truncate", self.path, lambda: self._file.truncate(size))

    def fsync(self) -> None:
        self._files.call("fsync", self.path, self._file.fsync)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed
