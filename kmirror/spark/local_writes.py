"""What `storage` needs to write a log on a task's machine: files, a clock, randomness, and deferred
work.

A broker gets its files from `runtime.os_files`, which an executor never loads. `.lock` is held as a
broker holds it: with a lock of the open file description if the system has those (they conflict
with Java's locks), else with `flock`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer, File
from kmirror.runtime.system_ports import SystemClock, SystemRandom
from kmirror.spark.files import LocalFile, LocalFiles
from kmirror.storage.log_dirs import LogDir
from kmirror.storage.ports import LogDirFailures, LogPorts

_OFD_SETLK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
_WHOLE_FILE: Final = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
LOCK_WAIT_S: Final = 30.0
_LOCK_PAUSE_S: Final = 0.1
_REMOVE_TRIES: Final = 50
_REMOVE_PAUSE_S: Final = 0.1
_LOCK_IS_TAKEN: Final = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK)


class WrittenFile(LocalFile):
    """A descriptor, opened for reading and writing."""

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, 0o666)

    def pwrite(self, data: Buffer, position: int) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        written = 0
        while written < size:
            written += os.pwrite(self._descriptor, rest[written:], position + written)
        return size

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        return self.pwrite(b"".join(buffers), position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def fsync(self) -> None:
        os.fsync(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor


class WritableLocalFiles(LocalFiles):
    """The disk of this machine (on a cluster: a mount that the driver and every executor have)."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
        if not (write or create or exclusive):
            return LocalFile(path)
        return WrittenFile(path, (os.O_CREAT if create or exclusive else 0) | (os.O_EXCL if exclusive else 0))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, destination: str) -> None:
        os.replace(source, destination)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def write_bytes(self, path: str, data: Buffer) -> None:
        file = WrittenFile(path, os.O_CREAT | os.O_TRUNC)
        try:
            file.pwrite(data, 0)
        finally:
            file.close()

    def fsync_path(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> File:
        file = WrittenFile(path, os.O_CREAT)
        try:
            if _OFD_SETLK is not None:
                fcntl.fcntl(file.fileno(), _OFD_SETLK, _WHOLE_FILE)
            else:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno in _LOCK_IS_TAKEN:
                raise BlockingIOError(error.errno, "the lock is held by another process", path) from error
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
        return file


def locked_log_dir(files: WritableLocalFiles, path: str) -> LogDir:
    """Returns the log.dir, locked. The commit of another job ends within seconds, and is waited
    for; KmirrorError if a broker has the lock."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return LogDir(files, path)
        except KmirrorError as error:
            if not isinstance(error.__cause__, BlockingIOError) or time.monotonic() > deadline:
                raise
        time.sleep(_LOCK_PAUSE_S)


def remove_while_tasks_write(files: WritableLocalFiles, staging: str) -> None:
    """Removes the staging folder. Tasks that Spark has killed still write for a moment, and what
    they add keeps a folder from being removed, so this tries again. OSError if that does not
    end."""
    for tries_left in reversed(range(_REMOVE_TRIES)):
        try:
            if files.exists(staging):
                files.remove_tree(staging)
            return
        except OSError:
            if not tries_left:
                raise
            time.sleep(_REMOVE_PAUSE_S)


def remove_staging_if_possible(files: WritableLocalFiles, staging: str) -> None:
    """Removes the staging folder of a job that has ended well. An attempt of a task that Spark has
    given up may still write there. That is no reason to fail a job whose records are in the log."""
    with suppress(OSError):
        remove_while_tasks_write(files, staging)


class PutOff:
    """Work that a log defers; it is done when `run` is called."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def schedule_once(self, name: str, fn: Callable[[], None], delay_ms: int) -> None:
        self._waiting.append(fn)

    def run(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()


def local_ports(files: WritableLocalFiles, put_off: PutOff) -> LogPorts:
    """Returns what a `UnifiedLog` on this disk needs. The first disk error is raised, also if
    deferred work caused it."""

    def fail(log_dir: str, message: str, error: OSError) -> None:
        raise error

    return LogPorts(files, SystemClock(), SystemRandom(), put_off, LogDirFailures(fail))
