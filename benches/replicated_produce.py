"""Broker CPU seconds per GB that librdkafka produces with acks=all to three replicas: ours against
a 3-broker Apache Kafka 4.3.

Two clusters of three broker processes run at the same time and are loaded in turn, after a warm-up
of each. What counts is the CPU of all three brokers of a cluster (and of the controller: Apache's
lives in its first broker, ours in this process, whose CPU is added). The peer is what must not be
beaten by. The idle rows are what a cluster uses in ten seconds when nothing is produced but
followers follow: 300 partitions on three replicas; no peer is held against them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from confluent_kafka.admin import AdminClient, NewTopic

from benches import foreign, load
from benches.data import RECORD_BYTES
from benches.harness import Context, Row, cpu_seconds, median, median_ratio, run_command
from kmirror import EmbeddedCluster

BROKERS = 3
CASES = (("lz4", 1), ("lz4", 10), ("none", 1), ("none", 10))
IDLE_PARTITIONS = 300
SETTINGS = {"min.insync.replicas": "2"}


class LoadedCluster:
    """Three brokers and what they used, by (codec, partitions)."""

    def __init__(self, name: str, bootstrap_servers: str, pids: list[int]) -> None:
        self.name = name
        self.bootstrap_servers = bootstrap_servers
        self.pids = pids
        self.used: dict[tuple[str, int], list[float]] = {}

    def cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids)

    def create(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, BROKERS)])[topic].result(60)

    def produce(self, topic: str, codec: str, partitions: int, records: int) -> None:
        self.create(topic, partitions)
        began = self.cpu()
        arguments = ["produce", self.bootstrap_servers, topic, str(partitions), str(records), codec]
        run_command([sys.executable, "-m", "benches.load", *arguments])
        self.used.setdefault((codec, partitions), []).append((self.cpu() - began) / (records * RECORD_BYTES / 1e9))
        load.delete_topic(self.bootstrap_servers, topic)


@contextmanager
def ours(folder: pathlib.Path) -> Iterator[LoadedCluster]:
    with EmbeddedCluster(brokers=BROKERS, processes=True, config=SETTINGS, folder=folder) as cluster:
        pids = [os.getpid(), *(node.process.pid for node in cluster.nodes if node.process is not None)]
        yield LoadedCluster("kmirror", cluster.bootstrap_servers, pids)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def apache(folder: pathlib.Path) -> Iterator[LoadedCluster]:
    with foreign.apache_kafka_cluster(folder, BROKERS, SETTINGS) as peers:
        pids = [peer.process.pid for peer in peers if peer.process is not None]
        yield LoadedCluster(foreign.KAFKA, ",".join(peer.bootstrap_servers for peer in peers), pids)
    shutil.rmtree(folder, ignore_errors=True)


def run(context: Context) -> Iterator[Row]:
    records, rounds = context.choose(10_000, 150_000), context.choose(1, 3)
    missing = foreign.missing_kafka()
    with ExitStack() as stack:
        clusters = [stack.enter_context(ours(context.folder / "ours"))]
        if missing is None:
            clusters.append(stack.enter_context(apache(context.folder / "apache")))
        for cluster in clusters:
            for number in range(2):
                cluster.produce(f"warm-up-{number}", "lz4", 4, records)
            cluster.used.clear()
        for codec, partitions in CASES:
            for number in range(rounds):
                for cluster in clusters:
                    cluster.produce(f"t-{codec}-{partitions}-{number}", codec, partitions, records)
        for case in CASES:
            used = [cluster.used[case] for cluster in clusters]
            ratio = median_ratio(used[0], used[1]) if missing is None else 0.0
            yield Row(
                "replicated_produce", f"produce acks=all, 3 replicas, {case[0]}, {case[1]} partitions", median(used[0]), "CPU-s/GB",
                "<= Apache Kafka's", missing is None and ratio <= 1, peer=missing or foreign.KAFKA,
                peer_value=median(used[1]) if missing is None else None, note=f"{ratio:.2f} of Kafka's" if ratio else "",
            )  # fmt: skip
        yield from _idle(clusters, context.choose(2, 10))


def _idle(clusters: list[LoadedCluster], seconds: int) -> Iterator[Row]:
    for cluster in clusters:
        cluster.create("idle", IDLE_PARTITIONS)
    time.sleep(3)
    used = []
    for cluster in clusters:
        began = cluster.cpu()
        time.sleep(seconds)
        used.append((cluster.cpu() - began) / seconds * 1000)
    yield Row(
        "replicated_produce", f"three idle brokers, {IDLE_PARTITIONS} partitions on three replicas", used[0], "CPU-ms/s", "-", None,
        peer=foreign.KAFKA if len(used) > 1 else None, peer_value=used[1] if len(used) > 1 else None,
    )  # fmt: skip
