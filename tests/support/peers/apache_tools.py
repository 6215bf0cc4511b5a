"""Apache Kafka's own command line tools, many of them in one JVM
(tests/interop/tools/ToolDriver.java).
"""

from __future__ import annotations

import pathlib
import re
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.peers.peers import ROOT, TOOL_JVM, java, kafka_classpath
from support.waiting import REACHED_S

DRIVER = ROOT / "tests" / "interop" / "tools" / "ToolDriver.java"
EXITED = re.compile(r"(?:^.*null\n)?ToolDriver\$Exited\n*\Z", re.MULTILINE)
"""What a tool that catches everything says of the driver's end of its `exit`."""
LOG4J = """<Configuration status="OFF"><Loggers><Root level="OFF"/></Loggers></Configuration>"""

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERF = "org.apache.kafka.tools.ConsumerPerformance"
STORAGE = "kafka.tools.StorageTool"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@dataclass(frozen=True)
class Done:
    """What one run of a tool gave."""

    code: int
    out: str
    err: str


class ApacheTools:
    """The JVM. `run` is one tool to its end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def run(self, main_class: str, *arguments: str, stdin: str = "") -> Done:
        assert self._process.stdin is not None and self._process.stdout is not None
        words = [word.encode() for word in (main_class, stdin, *arguments)]
        self._process.stdin.write(struct.pack(">i", len(words)) + b"".join(struct.pack(">i", len(word)) + word for word in words))
        self._process.stdin.flush()
        (code,) = struct.unpack(">i", self._read(4))
        out = self._read(struct.unpack(">i", self._read(4))[0])
        err = self._read(struct.unpack(">i", self._read(4))[0])
        complained = EXITED.sub("", err.decode(errors="surrogateescape"))
        return Done(code, out.decode(errors="surrogateescape"), complained)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        assert len(data) == size, "the JVM of Kafka's tools ended"
        return data


@contextmanager
def apache_tools(folder: pathlib.Path) -> Iterator[ApacheTools]:
    """One JVM for all of Kafka's tools; ended at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    quiet = folder / "log4j2-quiet.xml"
    quiet.write_text(LOG4J)
    command = [
        java(),
        *TOOL_JVM,
        "-Djava.security.manager=allow",
        f"-Dlog4j2.configurationFile={quiet}",
        "-cp",
        kafka_classpath(),
        str(DRIVER),
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield ApacheTools(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(REACHED_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(REACHED_S)
