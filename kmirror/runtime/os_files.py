"""The operating system's files behind the `FileSystem` port.

Everything is by position (`pread`, `pwritev`), so a `File` has no seek pointer to share. The kernel
may read or write less than asked (signals, full pipes of network file systems, the 2 GiB limit of
Linux, IOV_MAX buffers a call); the loops here hide that, so callers see all bytes done or an
OSError that names the file. A write that fails half way has extended the file: callers that append
must truncate it back to the size they know. Larger writes are cut into pieces of a megabyte: for
larger ones Linux (ext4, XFS) takes pages of two megabytes, which a virtual machine may have given
back to its host, so one write of 4 MiB costs two to ten times as much as four of 1 MiB. Every open
may use a spare descriptor (`descriptors`). Files that may hold secrets are created for their owner
alone (`private_files`).

Locks exclude Apache Kafka as well: Java's FileLock is a POSIX record lock of the process, which an
*open file description* lock of Linux conflicts with, while also excluding a second broker of this
very process. Where the system has no such lock, `flock` is used, which only excludes other kmirror
processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

from kmirror.common.ports import Buffer, File
from kmirror.runtime.descriptors import SPARES
from kmirror.runtime.private_files import PRIVATE_DIR_MODE, PRIVATE_FILE_MODE, is_private, make_private

IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024) if "SC_IOV_MAX" in os.sysconf_names else 16
MAX_READ_BYTES = 1 << 30
WRITE_BYTES = 1 << 20
LOCK_IS_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK)
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)


class OsFile:
    """A descriptor. Closing it twice is harmless; any other use after `close` raises OSError
    (EBADF)."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def pread(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._descriptor, min(size, MAX_READ_BYTES), position)
            if len(data) == size or not data:
                return data
            return self._pread_rest(data, size, position)
        except OSError as error:
            error.filename = self.path
            raise

    def _pread_rest(self, data: bytes, size: int, position: int) -> bytes:
        chunks = [data]
        done = len(data)
        while done < size:
            chunk = os.pread(self._descriptor, min(size - done, MAX_READ_BYTES), position + done)
            if not chunk:
                break
            chunks.append(chunk)
            done += len(chunk)
        return b"".join(chunks)

    def pwrite(self, data: Buffer, position: int) -> int:
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        try:
            if size <= WRITE_BYTES:
                written = os.pwrite(self._descriptor, data, position)
                if written == size:
                    return written
            else:
                written = 0
            rest = memoryview(data).cast("B")
            while written < size:
                written += os.pwrite(self._descriptor, rest[written : written + WRITE_BYTES], position + written)
            return written
        except OSError as error:
            error.filename = self.path
            raise

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        if len(buffers) == 1:
            return self.pwrite(buffers[0], position)
        total = 0
        for first in range(0, len(buffers), IOV_MAX):
            total += self._pwritev_once(buffers[first : first + IOV_MAX], position + total)
        return total

    def _pwritev_once(self, buffers: Sequence[Buffer], position: int) -> int:
        size = sum(buffer.nbytes if isinstance(buffer, memoryview) else len(buffer) for buffer in buffers)
        try:
            written = os.pwritev(self._descriptor, buffers, position)
        except OSError as error:
            error.filename = self.path
            raise
        if written < size:
            rest = memoryview(b"".join(buffers))[written:]
            written += self.pwrite(rest, position + written)
        return written

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            error.filename = self.path
            raise

    def fsync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            error.filename = self.path
            raise

    def fileno(self) -> int:
        return self._descriptor

    def detach(self) -> int:
        """Returns the descriptor, which the caller must close from now on."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            SPARES.refill()

    @property
    def closed(self) -> bool:
        return self._descriptor < 0

    def __repr__(self) -> str:
        return f"OsFile({self.path!r}, descriptor={self._descriptor})"


class OsFileSystem:
    """`FileSystem` of this machine."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        flags = os.O_RDWR if write else os.O_RDONLY
        if create or exclusive:
            flags |= os.O_CREAT
        if exclusive:
            flags |= os.O_EXCL
        return OsFile(path, _open(path, flags))

    def exists(self, path: str) -> bool:
        return _status(path) is not None

    def is_dir(self, path: str) -> bool:
        status = _status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def list_dir(self, path: str) -> list[str]:
        return sorted(SPARES.use_briefly_for(lambda: os.listdir(path)))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, mode=PRIVATE_DIR_MODE if is_private(f"{path}/") else 0o777, exist_ok=True)

    def make_private(self, path: str) -> None:
        make_private(path)

    def rename(self, source: str, destination: str) -> None:
        os.replace(source, destination)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        SPARES.use_briefly_for(lambda: shutil.rmtree(path))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def file_identity(self, path: str) -> str:
        """Returns inode and ctime, which change when a file is replaced or written, whatever its
        modification time."""
        found = os.stat(path)
        return f"{found.st_ino} {found.st_ctime_ns}"

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        os.utime(path, ns=(os.stat(path).st_atime_ns, mtime_ms * 1_000_000))

    def read_bytes(self, path: str) -> bytes:
        return SPARES.use_briefly_for(lambda: Path(path).read_bytes())

    def write_bytes(self, path: str, data: Buffer) -> None:
        file = OsFile(path, _open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        try:
            file.pwrite(data, 0)
        finally:
            file.close()

    def fsync_path(self, path: str) -> None:
        file = OsFile(path, _open(path, os.O_RDONLY))
        try:
            file.fsync()
        finally:
            file.close()

    def lock(self, path: str) -> File:
        file = self.open(path, create=True)
        try:
            _lock_exclusively(file.fileno())
        except OSError as error:
            file.close()
            if error.errno in LOCK_IS_TAKEN:
                raise BlockingIOError(error.errno, "the lock is held by another process", path) from error
            raise OSError(error.errno, os.strerror(error.errno or 0), path) from error
        return file

    def free_bytes(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


class VolatileOsFile(OsFile):
    """A file whose `fsync` does nothing."""

    __slots__ = ()

    def fsync(self) -> None:
        return


class VolatileOsFileSystem(OsFileSystem):
    """For folders that do not outlive their process: nothing is fsynced. Files survive a SIGKILL,
    not a power loss."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        file = super().open(path, create=create, exclusive=exclusive, write=write)
        return VolatileOsFile(path, file.detach())

    def fsync_path(self, path: str) -> None:
        return


def _status(path: str) -> os.stat_result | None:
    """Returns None if there is nothing at the path. Any other error is raised, so that a path that
    cannot be examined does not count as absent."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _open(path: str, flags: int) -> int:
    mode = PRIVATE_FILE_MODE if flags & os.O_CREAT and is_private(path) else 0o644
    return SPARES.use_for(lambda: os.open(path, flags | os.O_CLOEXEC, mode))


def _lock_exclusively(descriptor: int) -> None:
    if _OFD_SETLK is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(descriptor, _OFD_SETLK, whole_file)
