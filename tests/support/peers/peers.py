"""Foreign brokers and tools as processes: Apache Kafka 4.3 (jars from tools/kafka_jars.py) and the
KIP's reference build.

A peer is a combined broker and controller of one node in a folder of its own, on ports that the
kernel chose, or a broker that joins one (`peer_clusters` makes clusters and old brokers of them).
The reference build is found through KMIRROR_REFERENCE, by default `../shared/reference` beside the
checkout. What is missing skips the test with the reason; under KMIRROR_REQUIRE_INTEROP (CI) it
fails instead.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from kmirror.cli.demo_cluster import free_ports
from support.waiting import REACHED_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
KAFKA_VERSION = "4.3.0"
KAFKA_JARS = ROOT / ".cache" / "kafka" / KAFKA_VERSION
REFERENCE = pathlib.Path(os.environ.get("KMIRROR_REFERENCE", ROOT.parent / "shared" / "reference"))
BROKER_JVM = ("-server", "-Xms256m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
TOOL_JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
LOG4J = """<Configuration status="ERROR"><Appenders><Console name="out" target="SYSTEM_{stream}"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console>
</Appenders><Loggers><Root level="{level}"><AppenderRef ref="out"/></Root></Loggers></Configuration>"""


def require(condition: object, reason: str) -> None:
    """Skips the test for `reason`, or fails it in CI, where nothing may be missing."""
    if condition:
        return
    if os.environ.get("KMIRROR_REQUIRE_INTEROP"):
        pytest.fail(f"missing in CI: {reason}")
    pytest.skip(reason)


def free_port() -> int:
    """A port that was free a moment ago, and that no connection is given meanwhile."""
    return free_ports(1)[0]


def java() -> str:
    found = shutil.which("java") or (os.environ.get("JAVA_HOME") and str(pathlib.Path(os.environ["JAVA_HOME"]) / "bin" / "java"))
    require(found, "no JDK (java) on the PATH and no JAVA_HOME")
    return str(found)


def kafka_classpath(version: str = KAFKA_VERSION) -> str:
    jars = KAFKA_JARS.parent / version
    require((jars / ".complete").exists(), f"Apache Kafka {version}'s jars are not resolved: run tools/kafka_jars.py --all (needs Maven)")
    return f"{jars}/*"


def reference_classpath() -> str:
    require((REFERENCE / "libs").is_dir(), f"the KIP's reference build is not at {REFERENCE} (KMIRROR_REFERENCE)")
    return f"{REFERENCE}/libs/*"


def _log4j(folder: pathlib.Path, stream: str, level: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"log4j2-{stream}.xml"
    text = LOG4J.format(stream=stream.upper(), level=level)
    if not path.exists() or path.read_text() != text:  # another process may read it now
        path.write_text(text)
    return f"-Dlog4j2.configurationFile={path}"


def log4j_option(folder: pathlib.Path) -> str:
    """The JVM option that sends what a Java client warns of to standard output."""
    return _log4j(folder, "out", "WARN")


def java_tool(
    main_class: str, *arguments: str, classpath: str | None = None, stdin: str | None = None, timeout: float = REACHED_S
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's command line classes to its end; output is decoded leniently."""
    log4j = _log4j(ROOT / ".cache", "err", "ERROR")
    command = [java(), *TOOL_JVM, log4j, "-cp", classpath or kafka_classpath(), main_class, *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", input=stdin, timeout=timeout, check=False)


def java_program(source: pathlib.Path, *arguments: str, timeout: float = REACHED_S) -> subprocess.CompletedProcess[str]:
    """Compile and run one file of Java (a program of ours) with Kafka's jars, to its end."""
    command = _java_program(source, *arguments)
    return subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=timeout, check=False)


@contextmanager
def start_java_program(source: pathlib.Path, *arguments: str, log: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """The same in the background, both outputs in `log`; it must end when its standard input does."""
    with log.open("w") as output:
        process = subprocess.Popen(
            _java_program(source, *arguments), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(REACHED_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(REACHED_S)


def _java_program(source: pathlib.Path, *arguments: str) -> list[str]:
    jvm = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
    return [java(), *jvm, _log4j(ROOT / ".cache", "err", "ERROR"), "-cp", kafka_classpath(), str(source), *arguments]


@dataclass
class KafkaPeer:
    """One node of Apache Kafka or of the reference build.

    `properties` are added to (and win over) the defaults; `first` is the node whose cluster this
    one joins as a broker.
    """

    folder: pathlib.Path
    classpath: str
    mirroring: bool = False
    node_id: int = 1
    cluster_id: str = "lBq12jYZRp-9wF3M9MPopg"
    properties: Mapping[str, str] = field(default_factory=dict)
    format_arguments: Sequence[str] = ()
    data_dir: pathlib.Path | None = None
    first: KafkaPeer | None = None
    process: subprocess.Popen[bytes] | None = None
    started_text: ClassVar[bytes] = b"Kafka Server started"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.controller_port = free_port(), free_port()
        self.data = self.data_dir or self.folder / "data"

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> pathlib.Path:
        return self.folder / "server.log"

    def write_properties(self) -> pathlib.Path:
        values = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        if self.mirroring:
            values |= {
                "unstable.api.versions.enable": "true",
                "unstable.feature.versions.enable": "true",
                "mirror.metadata.refresh.interval.ms": "2000",
            }
        if self.first is not None:
            values |= {
                "process.roles": "broker",
                "controller.quorum.voters": f"{self.first.node_id}@127.0.0.1:{self.first.controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            }
        return self._write(values | dict(self.properties))

    def _write(self, values: Mapping[str, str]) -> pathlib.Path:
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path

    def format(self) -> None:
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.write_properties()), *self.format_arguments]
        if self.mirroring:
            arguments += ["--feature", "mirror.version=1"]
        done = java_tool("kafka.tools.StorageTool", *arguments, classpath=self.classpath)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, timeout_s: float = REACHED_S) -> None:
        """Start the node and wait until it says that it is up; fails with the end of its log
        otherwise.
        """
        properties = self.write_properties()
        with self.log_file.open("ab") as log:
            offset = log.tell()
            command = [java(), *BROKER_JVM, self._logging(), "-cp", self.classpath, "kafka.Kafka", str(properties)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            text = self.log_file.read_bytes()[offset:]
            if self.started_text in text:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.kill()
        raise AssertionError(f"the peer did not start:\n{self.log_file.read_text(errors='replace')[-3000:]}")

    def _logging(self) -> str:
        """The JVM option that sends the node's log to its standard output."""
        return _log4j(self.folder, "out", "INFO")

    def stop(self, timeout_s: float = REACHED_S) -> None:
        """Controlled shutdown."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout_s)
            self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(REACHED_S)
            self.process = None

    def tool(self, main_class: str, *arguments: str, timeout: float = REACHED_S) -> subprocess.CompletedProcess[str]:
        return java_tool(main_class, *arguments, classpath=self.classpath, timeout=timeout)


@contextmanager
def apache_kafka(folder: pathlib.Path, *, formatted: bool = False, started: bool = True, **options: object) -> Iterator[KafkaPeer]:
    """An Apache Kafka 4.3 node, formatted and started unless told otherwise; killed at the end if
    still alive.
    """
    peer = KafkaPeer(folder, kafka_classpath(), **options)  # type: ignore[arg-type]
    try:
        if not formatted:
            peer.format()
        if started:
            peer.start()
        yield peer
    finally:
        peer.kill()


@contextmanager
def reference_kafka(folder: pathlib.Path, **options: object) -> Iterator[KafkaPeer]:
    """A node of the KIP's reference build with mirroring on, formatted and started."""
    peer = KafkaPeer(folder, reference_classpath(), mirroring=True, **options)  # type: ignore[arg-type]
    try:
        peer.format()
        peer.start()
        yield peer
    finally:
        peer.kill()
