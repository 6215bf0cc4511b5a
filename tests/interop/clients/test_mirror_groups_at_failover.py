"""Groups of librdkafka that move to the mirror at failover, from and to either rebalance protocol,
on clusters of three brokers.

A group reads at the source and commits now and then; the mirror syncs in between; the group stops
in the middle, without a last commit, and the mirror fails over. At the destination it has to go on
at the synced offsets: no record of the log is skipped, and what it reads a second time is exactly
what it had read at the source beyond the offset that was synced.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    create_mirror,
    create_topic,
    numbered,
    produce,
    quiet,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedCluster

PARTITIONS = 3
RECORDS = 120
CONFIG = FAST_MIRROR | {"offsets.topic.num.partitions": "6", "group.initial.rebalance.delay.ms": "0"}
Position = tuple[int, int]
"""Partition and offset of a record."""


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with (
        EmbeddedCluster(brokers=3, mirroring=True, config=CONFIG) as a,
        EmbeddedCluster(brokers=3, mirroring=True, config=CONFIG) as b,
    ):
        yield a, b


def consumer_of(cluster: EmbeddedCluster, group: str, protocol: str) -> Consumer:
    return Consumer(
        quiet(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": 2000,
            }
        )
    )


def read(consumer: Consumer, count: int, *, commit_every: int = 0) -> list[Position]:
    """The next `count` records; the offsets are committed after every so many."""
    found: list[Position] = []
    for _ in range(count):
        message = wait_for(f"record {len(found) + 1} of {count}", lambda: consumer.poll(0.2))
        assert message.error() is None, message.error()
        found.append((message.partition(), message.offset()))
        if commit_every and len(found) % commit_every == 0:
            consumer.commit(asynchronous=False)
    return found


def committed(cluster: EmbeddedCluster, group: str) -> dict[int, int]:
    client = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
    rows = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(REACHED_S).topic_partitions
    return {row.partition: row.offset for row in rows}


@pytest.mark.parametrize(
    ("before", "after"), [("classic", "classic"), ("consumer", "consumer"), ("classic", "consumer"), ("consumer", "classic")]
)
def test_a_group_goes_on_at_the_synced_offsets(clusters: tuple[EmbeddedCluster, EmbeddedCluster], before: str, after: str) -> None:
    a, b = clusters
    name = f"{before}-{after}"
    create_topic(a.bootstrap_servers, name, PARTITIONS, replication_factor=3)
    for partition in range(PARTITIONS):
        produce(a.bootstrap_servers, name, numbered("r", RECORDS), partition=partition)
    create_mirror(b.bootstrap_servers, name, a.bootstrap_servers)
    add(b.bootstrap_servers, name, name)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, name)
    seed_offsets(a, name)
    reader = consumer_of(a, name, before)
    reader.subscribe([name])
    at_source = read(reader, 100, commit_every=7)
    wait_for("offsets to be synced", lambda: sum(committed(b, name).values()) >= 98)
    at_source += read(reader, 60, commit_every=25)
    remove(b.bootstrap_servers, name, name)
    wait_state(b.bootstrap_servers, name, "STOPPED")
    synced = committed(b, name)
    at_source += read(reader, 20)
    reader.close()

    end = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}
    left = sum(RECORDS - synced[partition] for partition in range(PARTITIONS))
    taker = consumer_of(b, name, after)
    taker.subscribe([name])
    at_destination = read(taker, left)
    taker.close()
    assert len(set(at_source)) == len(at_source) == 180 and len(set(at_destination)) == len(at_destination)
    assert set(at_source) | set(at_destination) == end, "a record was skipped"
    duplicates = set(at_source) & set(at_destination)
    not_synced = {(partition, offset) for partition, offset in at_source if offset >= synced[partition]}
    assert duplicates == not_synced and len(duplicates) <= 180 - 98


def seed_offsets(cluster: EmbeddedCluster, group: str) -> None:
    """The group's first commit is 0 everywhere, so that no reset policy has a say on either side."""
    client = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
    rows = [TopicPartition(group, partition, 0) for partition in range(PARTITIONS)]
    client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, rows)])[group].result(REACHED_S)
