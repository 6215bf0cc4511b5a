"""Kafka's own system test programs with their kills, against three broker processes of ours.

What is killed, and when, goes by what the programs say, not by the clock. After the last kill each
program ends by itself, and its own verdict and what a consumer reads are held against the input.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.mirrors.mirror_harness import create_topic, wait_for

from kmirror import EmbeddedCluster

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from system_programs import (
    EXACTLY_ONCE,
    FAST_BROKERS,
    SMOKE_TOPICS,
    copier,
    remaining,
    sent_by_driver,
    smoke_clients,
    smoke_driver,
    smoke_failure,
)

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(1200)]
PARTITIONS = 2
RECORDS = 6_000
"""In each of the copiers' input partitions."""
KILLED_BROKERS = (0, 1)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, processes=True, config=FAST_BROKERS) as cluster:
        yield cluster


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.round), EXACTLY_ONCE])
def test_streams_smoke_test(cluster: EmbeddedCluster, guarantee: str, tmp_path: pathlib.Path) -> None:
    address = cluster.bootstrap_servers
    for topic in SMOKE_TOPICS:
        create_topic(address, topic, 5, replication_factor=3)
    with (
        smoke_clients(tmp_path, address, guarantee) as (first, second),
        smoke_driver(tmp_path, address, guarantee) as driver,
    ):
        driver.wait_for(sent_by_driver(0.2))
        cluster.kill_node(1)
        driver.wait_for(sent_by_driver(0.4))
        cluster.start_node(1)
        driver.wait_for(sent_by_driver(0.7))
        first.kill()
        driver.wait()
        second.stop()
    assert smoke_failure(driver.said, guarantee) == "", driver.said[-3000:]
    assert "SMOKE-TEST-CLIENT-CLOSED" in second.said, second.said[-3000:]
    assert "SMOKE-TEST-CLIENT-EXCEPTION" not in second.said


def test_transactional_message_copier(cluster: EmbeddedCluster, tmp_path: pathlib.Path) -> None:
    address = cluster.bootstrap_servers
    for topic in ("input", "output"):
        create_topic(address, topic, PARTITIONS, replication_factor=3)
    sent = produce_numbers(address)
    for partition in range(PARTITIONS):
        kill_in_the_middle(tmp_path / f"killed-{partition}", address, partition)
    with ExitStack() as running:
        logs = [tmp_path / f"copier-{partition}" for partition in range(PARTITIONS)]
        copiers = [running.enter_context(copier(log, address, number)) for number, log in enumerate(logs)]
        for one in copiers:
            one.wait_for('"consumed"')
        for node in KILLED_BROKERS:
            cluster.kill_node(node)
            assert any(remaining(one.said) for one in copiers), "they were through before"
            cluster.start_node(node)
        for one in copiers:
            assert one.wait() == 0, one.said[-3000:]
    assert [remaining(one.said) for one in copiers] == [0] * PARTITIONS
    assert read_committed(address, "output") == sent


def kill_in_the_middle(log: pathlib.Path, bootstrap: str, partition: int) -> None:
    """Runs a copier until it has copied something, and kills it."""
    with copier(log, bootstrap, partition) as running:
        running.wait_for('"consumed"')
        so_far = remaining(running.said)
        wait_for("progress", lambda: remaining(running.said) < so_far)
        running.kill()
    assert remaining(running.said) > 0, "it was through before it was killed"


def produce_numbers(bootstrap: str) -> dict[int, list[bytes]]:
    sent = {partition: [f"{partition}-{number}".encode() for number in range(RECORDS)] for partition in range(PARTITIONS)}
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for partition, values in sent.items():
        for value in values:
            producer.produce("input", value, partition=partition)
    assert producer.flush(120) == 0
    return sent


def read_committed(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """The committed values of each partition, to its last stable offset."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    ended: set[int] = set()

    def at_the_end() -> bool:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                found[message.partition()].append(message.value())
            else:
                ended.add(message.partition())
        return ended == set(found)

    try:
        wait_for(f"the end of {topic}", at_the_end)
    finally:
        consumer.close()
    return found
