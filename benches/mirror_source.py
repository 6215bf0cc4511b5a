"""What the benches of a running mirror share: its creation by kafka-mirrors; and a source and a
destination of one node each, both processes with Kafka's default waits.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from benches.harness import run_command, wait_until
from kmirror.cli.demo_cluster import DemoCluster

SOURCE_ID = "uDq6vT1dQ1a2u3nP8b5c7w"
DESTINATION_ID = "4L6g3nShT-eMCtK--X86sw"
QUICK_SETTINGS = ("mirror.metadata.refresh.interval.ms", "mirror.truncation.backoff.ms")
"""What DemoCluster sets so that a demo need not wait; here Kafka's defaults are measured."""


@contextmanager
def node(folder: pathlib.Path, name: str, cluster_id: str) -> Iterator[DemoCluster]:
    cluster = DemoCluster(name, folder)
    cluster.format(cluster_id)
    lines = cluster.properties_file.read_text().splitlines(keepends=True)
    cluster.properties_file.write_text("".join(line for line in lines if not line.startswith(QUICK_SETTINGS)))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.kill()


@contextmanager
def mirrored(folder: pathlib.Path, topic: str, partitions: int, **configs: str) -> Iterator[tuple[DemoCluster, DemoCluster]]:
    """Source and destination; the empty topic is mirrored."""
    with node(folder, "source", SOURCE_ID) as source, node(folder, "destination", DESTINATION_ID) as destination:
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(30)
        create_mirror(folder, source.bootstrap_servers, destination.bootstrap_servers)
        mirrors(destination.bootstrap_servers, "--add", "--mirror", "m", "--topic", topic)
        produce_one(source, topic, partitions)
        wait_until(lambda: all(log_size(destination, topic, number) for number in range(partitions)), "every partition to be mirrored")
        yield source, destination


def create_mirror(folder: pathlib.Path, source: str, destination: str) -> None:
    """Mirror m, by the addresses of both ends."""
    config = folder / "m.properties"
    config.write_text(f"bootstrap.servers={source}\n")
    mirrors(destination, "--create", "--mirror", "m", "--mirror-config", str(config))


def mirrors(bootstrap_servers: str, *arguments: str) -> None:
    tool = os.path.join(os.path.dirname(sys.executable), "kafka-mirrors")
    run_command([tool, "--bootstrap-server", bootstrap_servers, *arguments])


def produce_one(cluster: DemoCluster, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(partitions):
        producer.produce(topic, b"first", partition=number)
    assert producer.flush(30) == 0, "the source takes no records"


def log_size(cluster: DemoCluster, topic: str, number: int) -> int:
    return sum(path.stat().st_size for path in (cluster.data / f"{topic}-{number}").glob("*.log"))


def set_config(cluster: DemoCluster, kind: ResourceType, name: str, key: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(30)
