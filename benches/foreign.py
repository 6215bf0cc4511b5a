"""The peers as processes: Apache Kafka 4.3 and MirrorMaker 2 from Maven's jars, the KIP's reference
build, and our own brokers.

Brokers run with Kafka's own JVM settings (1 GB heap, G1, both compilers): the interop tests'
thrifty ones would flatter us.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from benches.harness import wait_until
from kmirror.cli.demo_cluster import DemoCluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.peers import peers

BROKER_JVM = (
    "-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
TOOL_JVM = ("-Xmx256M", "-XX:+UseG1GC", "-Djava.awt.headless=true")
KAFKA, REFERENCE = "Apache Kafka 4.3", "the reference implementation"


class Broker(Protocol):
    """A running cluster of one node."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def data(self) -> pathlib.Path: ...


class ForeignBroker:
    """A `KafkaPeer` with a pid."""

    def __init__(self, peer: peers.KafkaPeer) -> None:
        self.peer = peer
        self.bootstrap_servers = peer.bootstrap_servers
        self.data = peer.data

    @property
    def pid(self) -> int:
        assert self.peer.process is not None, "the peer is not running"
        return self.peer.process.pid


def _has_java() -> bool:
    return bool(shutil.which("java") or os.environ.get("JAVA_HOME"))


def missing_kafka() -> str | None:
    """Why Apache Kafka cannot be run here."""
    if not _has_java():
        return "no peer: no JDK"
    if not (peers.KAFKA_JARS / ".complete").exists():
        return "no peer: no jars (python tools/kafka_jars.py, needs Maven)"
    return None


def missing_reference() -> str | None:
    if not _has_java():
        return "no peer: no JDK"
    return None if (peers.REFERENCE / "libs").is_dir() else "no peer: no reference build (KMIRROR_REFERENCE)"


def tool_command(main_class: str) -> list[str]:
    return [peers.java(), *TOOL_JVM, "-cp", peers.kafka_classpath(), main_class]


@contextmanager
def kmirror(folder: pathlib.Path, *, cluster_id: str = "4L6g3nShT-eMCtK--X86sw") -> Iterator[DemoCluster]:
    cluster = DemoCluster("kmirror", folder)
    cluster.format(cluster_id)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.kill()
        shutil.rmtree(cluster.folder, ignore_errors=True)


@contextmanager
def apache_kafka(folder: pathlib.Path, *, cluster_id: str = "lBq12jYZRp-9wF3M9MPopg") -> Iterator[ForeignBroker]:
    peers.BROKER_JVM = BROKER_JVM
    with peers.apache_kafka(folder, cluster_id=cluster_id) as peer:
        yield ForeignBroker(peer)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def apache_kafka_cluster(folder: pathlib.Path, brokers: int, properties: Mapping[str, str]) -> Iterator[list[peers.KafkaPeer]]:
    """Apache brokers on one controller, which the first of them is, too."""
    peers.BROKER_JVM = BROKER_JVM
    nodes: list[peers.KafkaPeer] = []
    try:
        for node_id in range(1, brokers + 1):
            node = peers.KafkaPeer(folder / f"node-{node_id}", peers.kafka_classpath(), node_id=node_id)
            node.properties = dict(properties)
            if nodes:
                voter = f"1@127.0.0.1:{nodes[0].controller_port}"
                listeners = {
                    "listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
                    "process.roles": "broker",
                    "controller.quorum.voters": voter,
                }
                node.properties = {**properties, **listeners}
            nodes.append(node)
            node.format()
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def reference(folder: pathlib.Path, *, cluster_id: str = "5kCbmZ2sRreTQrVJfkqyUA") -> Iterator[ForeignBroker]:
    peers.BROKER_JVM = BROKER_JVM
    with peers.reference_kafka(folder, cluster_id=cluster_id, properties={"mirror.topic.num.partitions": "3"}) as peer:
        yield ForeignBroker(peer)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def mirror_maker_2(folder: pathlib.Path, source: str, destination: str, topics: str, *, replication_factor: int = 1) -> Iterator[int]:
    """A dedicated MirrorMaker 2 that keeps names, with so many replicas of each topic; its pid."""
    folder.mkdir(parents=True)
    settings = {
        "clusters": "a, b", "a.bootstrap.servers": source, "b.bootstrap.servers": destination,
        "a->b.enabled": "true", "b->a.enabled": "false", "a->b.topics": topics, "tasks.max": "2",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": str(replication_factor), "checkpoints.topic.replication.factor": "1", "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1", "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1", "config.storage.replication.factor": "1",
        "emit.heartbeats.enabled": "false", "sync.group.offsets.enabled": "false", "emit.checkpoints.enabled": "false",
        "b.producer.compression.type": "lz4", "refresh.topics.interval.seconds": "5",
    }  # fmt: skip
    properties = folder / "mm2.properties"
    properties.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    log4j = peers._log4j(folder, "out", "WARN")
    command = [peers.java(), "-Xms256M", "-Xmx2G", "-XX:+UseG1GC", log4j, "-cp", peers.kafka_classpath(),
               "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)]  # fmt: skip
    with (folder / "mm2.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is None, "MirrorMaker 2 to start")
        yield process.pid
    finally:
        process.kill()
        process.wait()
