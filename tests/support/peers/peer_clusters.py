"""Clusters of foreign nodes: several brokers of one version, of the reference build, or of a Kafka
that still needs ZooKeeper.

A `PeerCluster` is what a mirror's test needs of the other side: an address, brokers that can be
stopped, killed and started, and the bytes of a partition as its most complete replica has them.
"""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from kmirror import EmbeddedCluster
from kmirror.record.record_batch import iter_batches
from support.mirrors.mirror_harness import log_bytes, wait_for
from support.peers.peers import BROKER_JVM, ROOT, KafkaPeer, free_port, java, kafka_classpath, reference_classpath
from support.waiting import REACHED_S

LOG4J_1 = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
TWO_REPLICAS = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "default.replication.factor": "2",
    "controlled.shutdown.retry.backoff.ms": "200",
    "replica.lag.time.max.ms": "3000",
}


def _log4j_1(folder: pathlib.Path) -> str:
    path = folder / "log4j.properties"
    path.write_text(LOG4J_1)
    return f"-Dlog4j.configuration=file:{path}"


@dataclass
class OldKafkaPeer(KafkaPeer):
    """A KRaft node from before Kafka 4: it logs by log4j 1."""

    def _logging(self) -> str:
        return _log4j_1(self.folder)


@dataclass
class ZooKeeperKafkaPeer(OldKafkaPeer):
    """A broker of a cluster that ZooKeeper coordinates."""

    zookeeper: str = ""
    started_text: ClassVar[bytes] = b"started (kafka.server.KafkaServer)"

    def write_properties(self) -> pathlib.Path:
        values = {
            "broker.id": str(self.node_id),
            "zookeeper.connect": self.zookeeper,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            "zookeeper.session.timeout.ms": "3000",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        return self._write(values | dict(self.properties))


@dataclass
class PeerCluster:
    """Brokers of one cluster; the first is the KRaft controller, too, so only the others may be
    killed while it shall work.
    """

    nodes: list[KafkaPeer] = field(default_factory=list)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def log_bytes(self, folder: str) -> bytes:
        """A partition's bytes, from the replica that has most of them."""
        return max((log_bytes(node.data, folder) for node in self.nodes), key=len)


def _end(data: bytes) -> str:
    """The last batch, for a message."""
    batches = list(iter_batches(data))
    last = batches[-1] if batches else None
    return "empty" if last is None else f"ends at {last.last_offset} in epoch {last.partition_leader_epoch}, {len(batches)} batches"


def assert_replicas_equal(
    peers: PeerCluster, ours: EmbeddedCluster, folders: Sequence[str], *, replicas: int, timeout_s: float = REACHED_S
) -> None:
    """Each of our replicas gets exactly the bytes of the peers; `replicas` says how many
    there are.
    """
    for folder in folders:
        nodes = [node for node in range(len(ours.nodes)) if (ours.log_dir(node) / folder).exists()]
        assert len(nodes) == replicas
        for node in nodes:
            try:
                wait_for(
                    f"{folder} on node {node} to be as the peers'",
                    lambda folder=folder, node=node: log_bytes(ours.log_dir(node), folder) == peers.log_bytes(folder),
                    timeout_s,
                )
            except AssertionError as error:
                ends = {f"ours {other}": _end(log_bytes(ours.log_dir(other), folder)) for other in nodes}
                ends |= {f"peer {peer.node_id}": _end(log_bytes(peer.data, folder)) for peer in peers.nodes}
                raise AssertionError(f"{error}: {ends}") from None
        assert peers.log_bytes(folder)


@contextmanager
def kafka_cluster(
    folder: pathlib.Path, version: str, *, nodes: int = 2, properties: Mapping[str, str] | None = None
) -> Iterator[PeerCluster]:
    """Brokers of Apache Kafka `version`: by KRaft from 3.9 on, else by ZooKeeper."""
    settings = TWO_REPLICAS | dict(properties or {})
    if version.startswith("2."):
        with _zookeeper(folder / "zookeeper", kafka_classpath(version)) as address:
            old = [
                ZooKeeperKafkaPeer(folder / str(number), kafka_classpath(version), node_id=number, properties=settings, zookeeper=address)
                for number in range(1, nodes + 1)
            ]
            with _running(list(old), formatted=True) as cluster:
                yield cluster
        return
    kind = OldKafkaPeer if version.startswith("3.") else KafkaPeer
    with _running(_joined(kind, folder, kafka_classpath(version), nodes, settings, mirroring=False)) as cluster:
        yield cluster


@contextmanager
def reference_cluster(folder: pathlib.Path, *, nodes: int = 2, properties: Mapping[str, str] | None = None) -> Iterator[PeerCluster]:
    """Brokers of the KIP's reference build with mirroring on."""
    settings = TWO_REPLICAS | {"mirror.topic.num.partitions": "3"} | dict(properties or {})
    with _running(_joined(KafkaPeer, folder, reference_classpath(), nodes, settings, mirroring=True)) as cluster:
        yield cluster


def _joined(
    kind: type[KafkaPeer], folder: pathlib.Path, classpath: str, nodes: int, settings: Mapping[str, str], *, mirroring: bool
) -> list[KafkaPeer]:
    peers: list[KafkaPeer] = []
    for number in range(1, nodes + 1):
        first = peers[0] if peers else None
        peers.append(kind(folder / str(number), classpath, mirroring=mirroring, node_id=number, properties=settings, first=first))
    return peers


@contextmanager
def _running(peers: list[KafkaPeer], *, formatted: bool = False) -> Iterator[PeerCluster]:
    try:
        for peer in peers:
            if not formatted:
                peer.format()
        for peer in peers:
            peer.start()
        yield PeerCluster(peers)
    finally:
        for peer in peers:
            peer.kill()


@contextmanager
def _zookeeper(folder: pathlib.Path, classpath: str) -> Iterator[str]:
    """A ZooKeeper of one node; its address."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "zookeeper.properties"
    config.write_text(
        f"dataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=1000\n"
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    log = folder / "zookeeper.log"
    with log.open("wb") as output:
        command = [java(), *BROKER_JVM, _log4j_1(folder), "-cp", classpath, main, str(config)]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT)
    try:
        deadline = time.monotonic() + REACHED_S
        while b"binding to port" not in log.read_bytes():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(REACHED_S)
