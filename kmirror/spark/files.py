"""Read-only file systems for tasks on executors: the machine's own disk, or what pyarrow reads at a
URI.

`spark` has its own, because an executor never loads a broker's runtime. Both kinds pickle, so a
task carries the one that it needs.

    /data/kafka, file:///data/kafka         LocalFiles
    hdfs://namenode:8020/kafka, viewfs://   Hadoop's client with Spark's jars (`hadoop_files`)
    s3://bucket/kafka, s3a://..., gs://...  pyarrow's own clients; credentials from the environment.
                                            A path may have spaces as they are.

Everything that would change a file raises OSError (EROFS).
"""

from __future__ import annotations

import errno
import os
import posixpath
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from kmirror.common.errors import KmirrorError, disk_error_text
from kmirror.common.ports import Buffer, File, FileSystem
from kmirror.verify.planner import ListedFile

READ_AHEAD: Final = 4 << 20
HADOOP_SCHEMES: Final = ("hdfs", "viewfs")
ARROW_SCHEMES: Final = ("s3", "gs", "gcs", "abfs", "abfss", "mock")


def _read_only(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


class ReadOnlyFile:
    """The base of both kinds of file: the operations that they refuse."""

    path: str

    def pwrite(self, data: Buffer, position: int) -> int:
        _read_only(self.path)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        _read_only(self.path)

    def truncate(self, size: int) -> None:
        _read_only(self.path)

    def fsync(self) -> None:
        _read_only(self.path)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no descriptor to hand out", self.path)


class LocalFile(ReadOnlyFile):
    """A descriptor, opened for reading."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        while 0 < len(data) < size:
            more = os.pread(self._descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def closed(self) -> bool:
        return self._descriptor < 0


class ArrowFile(ReadOnlyFile):
    """A `pyarrow.NativeFile` that can be read at any position.

    For most of these files each read is a request. A read at the file's beginning, or a little
    after the previous read, fetches `READ_AHEAD` bytes at once, since the caller goes through the
    file. Small scattered reads stay small.
    """

    def __init__(self, path: str, file: Any) -> None:
        self.path = path
        self._file = file
        self._held = b""
        self._held_at = 0
        self._last = -READ_AHEAD - 1

    def pread(self, size: int, position: int) -> bytes:
        start = position - self._held_at
        reaches_the_end = len(self._held) < READ_AHEAD
        if self._held and 0 <= start <= len(self._held) and (reaches_the_end or start + size <= len(self._held)):
            self._last = position
            return self._held[start : start + size]
        goes_on = position == 0 or 0 < position - self._last <= READ_AHEAD
        self._last = position
        if size >= READ_AHEAD or not goes_on:
            data: bytes = self._file.read_at(size, position)
            return data
        self._held, self._held_at = self._file.read_at(READ_AHEAD, position), position
        return self._held[:size]

    def size(self) -> int:
        return int(self._file.size())

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)


class ReadOnlyFileSystem:
    """The operations of `FileSystem` that are refused."""

    def make_dirs(self, path: str) -> None:
        _read_only(path)

    def make_private(self, path: str) -> None:
        _read_only(path)

    def rename(self, source: str, destination: str) -> None:
        _read_only(source)

    def remove(self, path: str) -> None:
        _read_only(path)

    def remove_tree(self, path: str) -> None:
        _read_only(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        _read_only(path)

    def write_bytes(self, path: str, data: Buffer) -> None:
        _read_only(path)

    def fsync_path(self, path: str) -> None:
        _read_only(path)

    def lock(self, path: str) -> File:
        _read_only(path)

    def free_bytes(self, path: str) -> tuple[int, int]:
        _read_only(path)


class LocalFiles(ReadOnlyFileSystem):
    """The disk of the machine that the task runs on (on a cluster: a mount that every executor
    has).
    """

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
        if write or create or exclusive:
            _read_only(path)
        return LocalFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def file_identity(self, path: str) -> str:
        found = os.stat(path)
        return f"{found.st_ino} {found.st_ctime_ns}"

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()


class ArrowFiles(ReadOnlyFileSystem):
    """Any file system that pyarrow can read. Paths are as pyarrow wants them: without the scheme.

    Questions about files and folders below a listed tree are answered from the listing, without a
    request. The listing is not pickled, since a task opens only files that it was given.
    """

    def __init__(self, files: Any) -> None:
        self._files = files
        self._forget()

    def _forget(self) -> None:
        self._tops: list[str] = []
        self._infos: dict[str, Any] = {}
        self._names: dict[str, set[str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": self._files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._files = state["_files"]
        self._forget()

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> File:
        if write or create or exclusive:
            _read_only(path)
        return ArrowFile(path, self._files.open_input_file(path))

    def _info(self, path: str) -> Any:
        if not self._is_listed(path):
            return self._files.get_file_info(path)
        if path not in self._infos:
            from pyarrow.fs import FileInfo, FileType

            return FileInfo(path, FileType.Directory if path in self._names else FileType.NotFound)
        return self._infos[path]

    def _is_listed(self, path: str) -> bool:
        return any(path.startswith(f"{top}/") for top in self._tops)

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type.name != "NotFound")

    def is_dir(self, path: str) -> bool:
        return bool(self._info(path).type.name == "Directory")

    def list_dir(self, path: str) -> list[str]:
        if path in self._names:
            return sorted(self._names[path])
        from pyarrow.fs import FileSelector

        return sorted(posixpath.basename(info.path) for info in self._files.get_file_info(FileSelector(path)))

    def list_tree(self, path: str, depth: int) -> Iterator[ListedFile]:
        from pyarrow.fs import FileSelector

        path = path.rstrip("/") or path
        infos = self._files.get_file_info(FileSelector(path, recursive=True))
        self._remember(path, infos)
        top = path.strip("/").count("/")
        for info in infos:
            if info.is_file and info.path.strip("/").count("/") - top <= depth + 1:
                yield ListedFile(info.path, int(info.size))

    def _remember(self, top: str, infos: Sequence[Any]) -> None:
        """Keeps the result of listing a tree, in place of earlier listings that overlap it."""
        if any(one.startswith(top) or top.startswith(one) for one in self._tops):
            self._forget()
        self._tops.append(top)
        self._names[top] = set()
        for info in infos:
            self._infos[info.path] = info
            name = info.path
            while name != top:
                folder, _, base = name.rpartition("/")
                names = self._names.setdefault(folder, set())
                if base in names or not folder:
                    break
                names.add(base)
                name = folder

    def size(self, path: str) -> int:
        size = self._info(path).size
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return int(size)

    def mtime_ms(self, path: str) -> int:
        return int((self._info(path).mtime_ns or 0) // 1_000_000)

    def read_bytes(self, path: str) -> bytes:
        with self._files.open_input_file(path) as file:
            data: bytes = file.read()
            return data


def file_system_for(location: str) -> tuple[FileSystem, str]:
    """Returns (the file system, the path on it) of a path or URI. KmirrorError for a scheme that is
    not supported, or cannot be reached."""
    scheme, separator, _ = location.partition("://")
    if not separator:
        if location.startswith("file:"):
            return LocalFiles(), urllib.parse.unquote(location.removeprefix("file:"))
        return LocalFiles(), location
    scheme = scheme.lower()
    if scheme == "file":
        _, slash, path = location.partition("://")[2].partition("/")
        return LocalFiles(), urllib.parse.unquote(f"{slash}{path}")  # `?` and `#` are characters of names, as in Hadoop's paths
    if scheme in HADOOP_SCHEMES:
        return _hadoop_files(location)
    uri = _quoted("s3" + location[len(scheme) :] if scheme in ("s3a", "s3n") else location)
    if uri.partition("://")[0].lower() not in ARROW_SCHEMES:
        raise KmirrorError(f"{location}: '{scheme}' is not supported; give a path, file://, hdfs://, s3://, s3a://, gs:// or abfs://")
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem as ArrowFileSystem

    try:
        files, path = ArrowFileSystem.from_uri(uri)
    except (ArrowException, OSError, ValueError) as error:
        raise KmirrorError(f"{location} cannot be opened: {str(error).splitlines()[0]}") from error
    return ArrowFiles(files), str(path)


def _quoted(uri: str) -> str:
    """Returns a URI whose path may be written as a person writes it: with spaces and letters of any
    language. `%` is the beginning of an escape, as in every URI; `%25` is one of its own."""
    place, mark, query = uri.partition("?")
    return urllib.parse.quote(place, safe="/:@%!$&'()*+,;=~") + mark + query


def _hadoop_files(location: str) -> tuple[FileSystem, str]:
    """Asks for the root, so that a name node that does not answer is reported here."""
    try:
        from pyarrow.fs import PyFileSystem

        from kmirror.spark.hadoop_files import HadoopHandler

        scheme, _, rest = location.partition("://")
        authority, _, path = rest.partition("/")
        files = PyFileSystem(HadoopHandler(f"{scheme.lower()}://{authority}/"))
        files.get_file_info("/")
    except (ImportError, OSError, KmirrorError) as error:
        text = disk_error_text(error) if isinstance(error, OSError) else str(error)
        raise KmirrorError(f"{location} cannot be opened: {text}") from error
    return ArrowFiles(files), f"/{path}"
