"""Apache Kafka 4.3 starts on a data dir that kmirror wrote and serves it, and the reverse."""

from __future__ import annotations

import pathlib
import shutil
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.peers import apache_kafka
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop


def fill(bootstrap_servers: str, topic: str, first: int, count: int, codec: str = "lz4") -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5})
    for number in range(first, first + count):
        producer.produce(topic, key=f"k{number}".encode(), value=(f"v{number}" * 10).encode(), partition=number % 2)
    assert producer.flush(REACHED_S) == 0


def everything(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    got: list[bytes] = []
    deadline = time.monotonic() + REACHED_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            got.append(message.key())
        if len(got) >= count:
            break
    consumer.close()
    return sorted(got)


def keys(count: int) -> list[bytes]:
    return sorted(f"k{number}".encode() for number in range(count))


def create(bootstrap_servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2, 1, config={"segment.bytes": "1048576"})])[topic].result(REACHED_S)


def test_apache_kafka_serves_a_data_dir_of_ours_and_we_serve_it_again(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ours"
    with EmbeddedCluster(folder=folder) as cluster:
        create(cluster.bootstrap_servers, "t")
        create(cluster.bootstrap_servers, "idle")
        fill(cluster.bootstrap_servers, "t", 0, 2000)
        cluster_id, data = cluster.cluster_id, cluster.log_dir()
    with apache_kafka(tmp_path / "apache", formatted=True, cluster_id=cluster_id, data_dir=data) as peer:
        assert everything(peer.bootstrap_servers, "t", 2000) == keys(2000)
        fill(peer.bootstrap_servers, "t", 2000, 500)
        fill(peer.bootstrap_servers, "idle", 0, 100)
        peer.stop()
    assert not list(data.glob("*-stray")), "a partition that we never wrote to is Apache Kafka's, too"
    with EmbeddedCluster(folder=folder, cluster_id=cluster_id) as cluster:
        assert everything(cluster.bootstrap_servers, "t", 2500) == keys(2500)


def test_we_serve_a_data_dir_of_apache_kafka_and_it_serves_it_again(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ours"
    data = folder / "node-1" / "data"
    with apache_kafka(tmp_path / "apache", data_dir=data) as peer:
        create(peer.bootstrap_servers, "t")
        fill(peer.bootstrap_servers, "t", 0, 2000, "zstd")
        cluster_id = peer.cluster_id
        peer.stop()
        with EmbeddedCluster(folder=folder, cluster_id=cluster_id) as cluster:
            assert everything(cluster.bootstrap_servers, "t", 2000) == keys(2000)
            fill(cluster.bootstrap_servers, "t", 2000, 500, "gzip")
        peer.start()
        assert everything(peer.bootstrap_servers, "t", 2500) == keys(2500)


def test_apache_kafka_recovers_a_data_dir_of_ours_after_a_kill(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "ours"
    with EmbeddedCluster(folder=folder) as cluster:
        create(cluster.bootstrap_servers, "t")
        fill(cluster.bootstrap_servers, "t", 0, 2000)
        cluster_id = cluster.cluster_id
        copy = tmp_path / "copy"
        shutil.copytree(cluster.log_dir(), copy)
    with apache_kafka(tmp_path / "apache", formatted=True, cluster_id=cluster_id, data_dir=copy) as peer:
        assert everything(peer.bootstrap_servers, "t", 2000) == keys(2000)
