"""Java's clients read a mirror whose batches have leader epochs above the destination's, below it,
and others while they read.

A Java client that hears of a leader epoch above the one in its metadata drops that metadata, and
then has no leader to read from (docs/MIRRORING.md, "Java consumers and leader epochs"). It needs
the leader anew when a member is replaced (epochs of OffsetFetch and ListOffsets) and when the
leader changes (epochs of batches that it committed), so both happen here, before the failover and
after it.
"""

from __future__ import annotations

import contextlib
import glob
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    produce_when_taken,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.peers.peers import _log4j, java, kafka_classpath, start_java_program

from kmirror import EmbeddedCluster
from kmirror.admin.admin_client import AdminClient
from kmirror.admin.reassignments import ElectionType
from kmirror.common.topic_partition import TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.timeout(480)]

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CONFIG = FAST_MIRROR | {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "100",
}
AT_B = CONFIG | {"mirror.topic.replication.factor": "3", "default.replication.factor": "3", "auto.leader.rebalance.enable": "false"}
T0 = TopicPartition("t", 0)
COUNT = 20
RESET = 1
"""The control batch that a failover appends."""


class Mirror:
    """Topic "t" of A, whose leader epoch grows with every restart, mirrored by B's three brokers.

    `written`: records in it.
    """

    def __init__(self, a: EmbeddedCluster, b: EmbeddedCluster) -> None:
        self.a, self.b, self.written = a, b, 0

    def begin(self) -> None:
        create_mirror(self.b.bootstrap_servers, "m", self.a.bootstrap_servers)
        add(self.b.bootstrap_servers, "m", "t")
        wait_caught_up(self.b.bootstrap_servers, self.a.bootstrap_servers, "m")

    def epoch(self, cluster: EmbeddedCluster) -> int:
        return call(cluster.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].partitions[0].leader_epoch

    def raise_source_epoch(self) -> None:
        self.a.stop_node()
        self.a.start_node()

    def write(self) -> None:
        produce(self.a.bootstrap_servers, "t", numbered("v", COUNT))
        self.written += COUNT

    def change_leader(self) -> None:
        """B's leader hands over to the next replica; nobody is restarted."""
        before = call(self.b.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].partitions[0]
        replicas = [replica for replica in before.replicas if replica != before.leader] + [before.leader]
        call(self.b.bootstrap_servers, lambda admin: admin.alter_partition_reassignments({T0: replicas}))
        call(self.b.bootstrap_servers, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [T0]))
        wait_for("another leader", lambda: self.epoch(self.b) > before.leader_epoch)

    def fail_over(self) -> None:
        remove(self.b.bootstrap_servers, "m", "t")
        wait_state(self.b.bootstrap_servers, "m", "STOPPED")
        for number in range(COUNT):
            produce_when_taken(self.b.bootstrap_servers, "t", f"after-{number}")
        self.written += COUNT + RESET

    def expected(self) -> list[int]:
        """Offsets of all records by now."""
        return [offset for offset in range(self.written) if not self._is_reset(offset)]

    def _is_reset(self, offset: int) -> bool:
        return self.written % COUNT == RESET and offset == self.written - COUNT - RESET


@contextlib.contextmanager
def two_clusters() -> Iterator[Mirror]:
    with EmbeddedCluster(mirroring=True, config=CONFIG) as a, EmbeddedCluster(brokers=3, mirroring=True, config=AT_B) as b:
        create_topic(a.bootstrap_servers, "t", 1)
        yield Mirror(a, b)


class Output:
    """What a program of the readers prints; `names` are those of its readers."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def offsets(self, *names: str) -> list[int]:
        lines = [line.split(" ") for line in self._path.read_text().splitlines()]
        assert not [words for words in lines if words[0] == "error"], self._path.read_text()
        return [int(words[4]) for words in lines if words[0] == "record" and words[1] in names]


def wait_for_all(mirror: Mirror, found: Callable[[], list[int]], who: str) -> None:
    """Every record; a reader that commits after each poll sees none twice."""
    expected = mirror.expected()
    wait_for(f"{len(expected)} records for {who}", lambda: sorted(set(found())) == expected or None)


@pytest.mark.parametrize("first_epoch", ["below ours", "above ours"])
def test_java_consumers_go_on_reading_a_mirror_whatever_its_source_epochs(tmp_path: pathlib.Path, first_epoch: str) -> None:
    with two_clusters() as mirror, contextlib.ExitStack() as stack:
        if first_epoch == "above ours":
            mirror.raise_source_epoch()
        mirror.write()
        mirror.begin()
        if first_epoch == "below ours":
            mirror.change_leader()
            assert mirror.epoch(mirror.a) < mirror.epoch(mirror.b)
        members = {}
        for protocol in ("classic", "consumer"):
            log = tmp_path / f"{protocol}.log"
            program = start_java_program(PROGRAMS / "GroupConsumers.java", mirror.b.bootstrap_servers, protocol, log=log)
            members[protocol] = stack.enter_context(program), Output(log)

        def tell(command: str) -> None:
            for protocol, (process, _) in members.items():
                assert process.stdin is not None
                process.stdin.write(command.format(protocol=protocol) + "\n")
                process.stdin.flush()

        def wait_for_readers() -> None:
            for protocol, (_, output) in members.items():
                wait_for_all(mirror, partial(output.offsets, "first", "second"), protocol)

        tell("open first {protocol} t")
        wait_for_readers()
        for _ in range(2):
            mirror.raise_source_epoch()
        mirror.write()
        wait_for_readers()
        assert mirror.epoch(mirror.a) > mirror.epoch(mirror.b)
        tell("close first")
        tell("open second {protocol} t")
        mirror.write()
        wait_for_readers()
        mirror.change_leader()
        mirror.write()
        wait_for_readers()
        assert mirror.epoch(mirror.a) > mirror.epoch(mirror.b), "what is shown here needs that"
        mirror.fail_over()
        wait_for_readers()
        for _, output in members.values():
            assert output.offsets("first", "second") == mirror.expected(), "nothing twice, nothing out of order"
        for group in members:
            committed = call(mirror.b.bootstrap_servers, partial(AdminClient.list_consumer_group_offsets, group_id=group))[T0]
            assert committed.leader_epoch == mirror.epoch(mirror.b), "the epoch of what was written here is not hidden"


CLASSES = "org.apache.kafka.connect"
CONNECT = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "200",
    "listeners": "http://127.0.0.1:0",
    "consumer.metadata.max.age.ms": "1000",
}
SINK = {
    "name": "sink",
    "connector.class": "TellingSinkConnector",
    "tasks.max": "1",
    "topics": "t",
}
INTERNAL = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage", "config.storage")
MIRROR_MAKER = {
    "clusters": "b, c",
    "b->c.enabled": "true",
    "b->c.topics": "t",
    "b->c.emit.heartbeats.enabled": "false",
    "b->c.emit.checkpoints.enabled": "false",
    "c->b.enabled": "false",
    "c->b.emit.heartbeats.enabled": "false",
    "offset-syncs.topic.location": "target",
    "replication.factor": "1",
    "b.consumer.metadata.max.age.ms": "1000",
    **{f"{name}.replication.factor": "1" for name in INTERNAL},
}


def properties(path: pathlib.Path, settings: dict[str, str]) -> str:
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return str(path)


@contextlib.contextmanager
def running(folder: pathlib.Path, main_class: str, *arguments: str, classpath: str) -> Iterator[pathlib.Path]:
    """One of Kafka's servers; what is yielded is its output."""
    jvm = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", _log4j(folder, "out", "ERROR"))
    log = folder / f"{main_class.rsplit('.', 1)[-1]}.log"
    with log.open("wb") as out:
        command = [java(), *jvm, "-cp", classpath, main_class, *arguments]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield log
    finally:
        process.kill()
        process.wait()


def copied(cluster: EmbeddedCluster) -> list[int]:
    """One number for each record that MirrorMaker 2 has written."""
    partition = TopicPartition("b.t", 0)
    if partition.topic not in call(cluster.bootstrap_servers, lambda admin: admin.list_topics()):
        return []
    return list(range(call(cluster.bootstrap_servers, lambda admin: admin.list_offsets([partition]))[partition]))


def compiled(folder: pathlib.Path, source: pathlib.Path, service: str) -> str:
    """A classpath with that class and Kafka's, where the class is found as one that serves."""
    jars = ":".join(sorted(glob.glob(f"{kafka_classpath()}.jar")))
    compiler = [java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none", "-cp", jars, "-d", str(folder), str(source)]
    subprocess.run(compiler, check=True, timeout=60)
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / service).write_text(f"{source.stem}\n")
    return f"{folder}:{kafka_classpath()}"


def test_streams_a_connect_sink_and_mirror_maker_2_go_on_reading_a_mirror(tmp_path: pathlib.Path) -> None:
    with two_clusters() as mirror, EmbeddedCluster() as c, contextlib.ExitStack() as stack:
        mirror.raise_source_epoch()
        mirror.write()
        mirror.begin()
        servers = mirror.b.bootstrap_servers
        worker = CONNECT | {"bootstrap.servers": servers, "offset.storage.file.filename": str(tmp_path / "connect.offsets")}
        maker = MIRROR_MAKER | {"b.bootstrap.servers": servers, "c.bootstrap.servers": c.bootstrap_servers}
        connect = [properties(tmp_path / f"{name}.properties", each) for name, each in (("worker", worker), ("sink", SINK))]
        plugin = compiled(tmp_path / "plugin", PROGRAMS / "TellingSinkConnector.java", "org.apache.kafka.connect.sink.SinkConnector")
        sink = Output(stack.enter_context(running(tmp_path, f"{CLASSES}.cli.ConnectStandalone", *connect, classpath=plugin)))
        mm2 = properties(tmp_path / "mm2.properties", maker)
        stack.enter_context(running(tmp_path, f"{CLASSES}.mirror.MirrorMaker", mm2, classpath=kafka_classpath()))
        log = tmp_path / "streams.log"
        stack.enter_context(start_java_program(PROGRAMS / "StreamsReaders.java", servers, "t", str(tmp_path / "state"), log=log))
        streams = Output(log)

        def wait_for_readers() -> None:
            for guarantee in ("at_least_once", "exactly_once_v2"):
                wait_for_all(mirror, partial(streams.offsets, guarantee), guarantee)
            wait_for_all(mirror, partial(sink.offsets, "sink"), "the sink")
            wait_for(f"{len(mirror.expected())} records for MirrorMaker 2", lambda: len(copied(c)) == len(mirror.expected()))

        wait_for_readers()
        mirror.raise_source_epoch()
        mirror.write()
        wait_for_readers()
        mirror.change_leader()
        mirror.write()
        wait_for_readers()
        assert mirror.epoch(mirror.a) > mirror.epoch(mirror.b), "what is shown here needs that"
        mirror.fail_over()
        wait_for_readers()
