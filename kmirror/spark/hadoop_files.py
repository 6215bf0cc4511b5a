"""HDFS and whatever else Hadoop's client reads, through Spark's own jars: no libhdfs, no native
library.

A Python task cannot reach the JVM of its executor. So each process that reads a Hadoop file system
starts a small JVM of its own at its first read (`HadoopJvm`), from the jars that Spark has there,
and calls it through py4j. Names and sizes come as text, with one call per folder. File contents do
not go through py4j, which would encode them: the JVM writes them to a scratch file, and Python
reads them from there. pyarrow makes a file system of that (`pyarrow.fs.FileSystemHandler`), so
everything above it is the same as for S3.

The JVM ends with the process, because it watches its stdin. Configuration is Hadoop's own:
HADOOP_CONF_DIR and YARN_CONF_DIR are on the class path, and the client finds Kerberos tickets and
delegation tokens as usual. A session's `spark.hadoop.*` settings come over them
(`hadoop_settings`).
"""

from __future__ import annotations

import errno
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

from pyarrow import PythonFile
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType

from kmirror.common.errors import KmirrorError
from kmirror.spark.hadoop_settings import handed_on_settings
from kmirror.spark.java import LOGGING, java_program

CLIENT_JAR: Final = "hadoop-client-runtime-*.jar"
GATEWAY_JAR: Final = "py4j-*.jar"
JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+IgnoreUnrecognizedVMOptions", LOGGING)
_BEHIND_THE_PATH: Final = "; isDirectory="
_STATUS: Final = re.compile(
    r"\{path=[^/]*(?://[^/]*)?(?P<path>/.*?)" + _BEHIND_THE_PATH + r"(?P<directory>true|false);"
    r"(?: length=(?P<length>\d+); replication=\d+; blocksize=\d+;)? modification_time=(?P<time>\d+);",
    re.DOTALL,
)
"""What FileStatus.toString prints for one file."""


def class_path() -> str:
    """Returns Hadoop's configuration folders and the jars of Spark's Hadoop client. KmirrorError if
    there are no jars."""
    folders = [Path(os.environ["SPARK_HOME"]) / "jars"] if os.environ.get("SPARK_HOME") else []
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is not None and pyspark.origin is not None:
        folders.append(Path(pyspark.origin).parent / "jars")
    folders.append(Path("__spark_libs__"))  # where YARN puts the jars
    jars = next((folder for folder in folders if any(folder.glob(CLIENT_JAR)) and any(folder.glob(GATEWAY_JAR))), None)
    if jars is None:
        raise KmirrorError("Spark's jars, with Hadoop's client among them, are neither in SPARK_HOME/jars nor beside pyspark")
    configurations = [os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    return os.pathsep.join([*configurations, f"{jars}/*"])


class HadoopJvm:
    """A JVM with Hadoop's client, and the connection to it."""

    def __init__(self) -> None:
        from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway

        command = [java_program(), *JVM_OPTIONS, "-cp", class_path(), "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None and self._process.stderr is not None, "both are pipes"
        port = self._process.stdout.readline().strip()
        if not port.isdigit():
            said = self._process.stderr.read().strip().splitlines()
            raise KmirrorError(f"Java did not start: {said[-1] if said else 'no output'}")
        secret = self._process.stdout.readline().strip()
        for output in (self._process.stdout, self._process.stderr):
            threading.Thread(target=_drain, args=(output,), name="hadoop-output", daemon=True).start()
        self._client = GatewayClient(gateway_parameters=GatewayParameters(port=int(port), auth_token=secret))
        self.java: Any = JavaGateway(gateway_client=self._client).jvm

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the JVM by closing its stdin; whatever is open in it is lost."""
        assert self._process.stdin is not None, "a pipe"
        self._client.is_connected = False  # py4j need not report freed objects to that JVM
        self._client.close()
        self._process.stdin.close()
        self._process.wait()

    def file_system(self, root: str) -> Any:
        """Returns Hadoop's FileSystem at a URI; Hadoop caches one for each."""
        configuration = self.java.org.apache.hadoop.conf.Configuration()
        for name, value in handed_on_settings().items():
            configuration.set(name, value)
        return self.java.org.apache.hadoop.fs.FileSystem.get(self.java.java.net.URI(root), configuration)


def _drain(output: Any) -> None:
    """Passes on the JVM's output. It logs only errors, and the user should see those."""
    for line in output:
        sys.stderr.write(line)


_lock: Final = threading.Lock()
_jvms: Final[dict[int, HadoopJvm]] = {}
"""By process id: a forked process must not share its parent's JVM."""


def hadoop_jvm() -> HadoopJvm:
    """Returns this process's JVM, and starts it if needed. KmirrorError if there is no Java, or no
    Spark."""
    with _lock:
        found = _jvms.get(os.getpid())
        if found is None or not found.is_running:
            if found is not None:
                found.close()
            _jvms.clear()
            found = _jvms[os.getpid()] = HadoopJvm()
        return found


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Turns Java's errors into OSErrors of the file."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getSimpleName()
        text = str(error.java_exception.getMessage() or kind).strip().splitlines()[0]
        number = {"FileNotFoundException": errno.ENOENT, "AccessControlException": errno.EACCES}.get(kind, errno.EIO)
        raise OSError(number, text if number == errno.EIO else os.strerror(number), path) from error
    except Py4JError as error:  # py4j says only sometimes that it was the connection
        raise OSError(errno.EIO, "the JVM that reads Hadoop's file systems has ended", path) from error


class HadoopHandler(FileSystemHandler):  # type: ignore[misc]
    """A read-only file system at `root`, such as `hdfs://namenode:8020/`. Its paths begin with a
    slash. It can be pickled: a task uses its own JVM."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._opened: tuple[HadoopJvm, Any] | None = None

    def __reduce__(self) -> tuple[type[HadoopHandler], tuple[str]]:
        return HadoopHandler, (self._root,)

    def uri(self, path: str) -> str:
        """Returns the URI by which errors name a path."""
        return self._root.removesuffix("/") + path

    def _open(self) -> tuple[HadoopJvm, Any]:
        jvm = hadoop_jvm()
        if self._opened is None or self._opened[0] is not jvm:
            with _os_errors(self._root):
                self._opened = jvm, jvm.file_system(self._root)
        return self._opened

    def get_type_name(self) -> str:
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        jvm, files = self._open()
        found = []
        for path in paths:
            try:
                with _os_errors(self.uri(path)):
                    found.append(_asked(files.getFileStatus(jvm.java.org.apache.hadoop.fs.Path(path)), path))
            except FileNotFoundError:
                found.append(FileInfo(path, FileType.NotFound))
        return found

    def get_file_info_selector(self, selector: FileSelector) -> list[Any]:
        found: list[Any] = []
        folders = [selector.base_dir]
        while folders:
            folder = folders.pop()
            try:
                infos = self._children(folder)
            except FileNotFoundError:
                if folder == selector.base_dir and not selector.allow_not_found:
                    raise
                continue  # a running broker has deleted it since
            found += infos
            if selector.recursive:
                folders += [info.path for info in reversed(infos) if info.type == FileType.Directory]
        return found

    def _children(self, folder: str) -> list[Any]:
        jvm, files = self._open()
        with _os_errors(self.uri(folder)):
            entries = files.listStatusIterator(jvm.java.org.apache.hadoop.fs.Path(folder))
            statuses = jvm.java.org.apache.hadoop.util.functional.RemoteIterators.toList(entries)
            text = str(statuses.toString())
            infos = [_of_match(match) for match in _STATUS.finditer(text)]
            if not len(infos) == len(statuses) == text.count(_BEHIND_THE_PATH):  # a file name contains that text
                infos = [_asked(status, str(status.getPath().toUri().getPath())) for status in statuses]
        return sorted(infos, key=lambda info: str(info.path))

    def open_input_file(self, path: str) -> PythonFile:
        jvm, files = self._open()
        with _os_errors(self.uri(path)):
            name = jvm.java.org.apache.hadoop.fs.Path(path)
            return PythonFile(HadoopFile(jvm, files.open(name), int(files.getFileStatus(name).getLen()), self.uri(path)), mode="r")

    open_input_stream = open_input_file

    def _read_only(self, path: str, *others: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), self.uri(path))

    create_dir = delete_dir = delete_dir_contents = delete_file = move = copy_file = open_output_stream = open_append_stream = _read_only

    def delete_root_dir_contents(self) -> NoReturn:
        self._read_only("/")


def _of_match(match: re.Match[str]) -> Any:
    if match["directory"] == "true":
        return FileInfo(match["path"], FileType.Directory, mtime_ns=int(match["time"]) * 1_000_000)
    return FileInfo(match["path"], FileType.File, size=int(match["length"]), mtime_ns=int(match["time"]) * 1_000_000)


def _asked(status: Any, path: str) -> Any:
    """Returns the same as `_of_match`, with one call per fact."""
    kind = FileType.Directory if status.isDirectory() else FileType.File
    size = int(status.getLen()) if kind == FileType.File else None
    return FileInfo(path, kind, size=size, mtime_ns=int(status.getModificationTime()) * 1_000_000)


class HadoopFile(io.RawIOBase):
    """A file that is open in the JVM. Reads go through a scratch file that only the two processes
    have."""

    def __init__(self, jvm: HadoopJvm, stream: Any, size: int, uri: str) -> None:
        super().__init__()
        self._jvm = jvm
        self._stream = stream
        self._size = size
        self._uri = uri
        self._position = 0
        self._source = jvm.java.java.nio.channels.Channels.newChannel(stream)
        descriptor, path = tempfile.mkstemp(prefix="kmirror-hadoop-")
        self._scratch = os.fdopen(descriptor, "rb")
        try:
            self._file = jvm.java.java.io.RandomAccessFile(path, "rw")
        finally:
            os.unlink(path)
        self._channel = self._file.getChannel()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Reads at most up to the size that the file had when it was opened. OSError names the
        file."""
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        with _os_errors(self._uri):
            self._stream.seek(self._position)
            had = 0
            while had < wanted:
                came = int(self._channel.transferFrom(self._source, had, wanted - had))
                if came <= 0:
                    break
                had += came
        data = os.pread(self._scratch.fileno(), had, 0)
        self._position += len(data)
        return data

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._scratch.close()
        if self._jvm.is_running:
            with _os_errors(self._uri):
                self._file.close()
                self._stream.close()
