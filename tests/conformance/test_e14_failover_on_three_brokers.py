"""The KIP's scenarios of failover and failback, compared byte for byte, between two clusters of
three brokers with three replicas, over sockets.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    is_tombstoned,
    log_bytes,
    numbered,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.logs.log_alignment import source_of_reset
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.server.kafka_server import KafkaServer

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]
SETTINGS = FAST_MIRROR | {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "mirror.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    with EmbeddedCluster(3, mirroring=True, config=SETTINGS) as a, EmbeddedCluster(3, mirroring=True, config=SETTINGS) as b:
        yield a, b


def replicas(*clusters: EmbeddedCluster, folder: str) -> list[RecordBatch]:
    """Waits until all replicas in all clusters have the same bytes, and returns their batches."""

    def equal() -> bytes | None:
        logs = {log_bytes(cluster.log_dir(node), folder) for cluster in clusters for node in range(3)}
        return logs.pop() if len(logs) == 1 else None

    return list(iter_batches(wait_for(f"equal replicas of {folder}", equal)))


def leader_epoch(cluster: EmbeddedCluster, topic: str) -> int:
    def look(server: KafkaServer) -> int:
        assert server.broker is not None
        registration = server.broker.metadata_cache.partition(TopicPartition(topic, 0))
        assert registration is not None
        return registration.leader_epoch

    return cluster.call(look)


def leader_node(cluster: EmbeddedCluster, topic: str) -> int:
    def look(server: KafkaServer) -> int:
        assert server.broker is not None
        registration = server.broker.metadata_cache.partition(TopicPartition(topic, 0))
        assert registration is not None
        return registration.leader

    leader = cluster.call(look)
    return next(index for index, node in enumerate(cluster.nodes) if node.node_id == leader)


def bounce_leader(cluster: EmbeddedCluster, topic: str) -> None:
    """Restarts the leader's broker, so that another leads in a new epoch."""
    node = leader_node(cluster, topic)
    cluster.stop_node(node)
    cluster.start_node(node)
    wait_for("all replicas in sync", lambda: _is_whole(cluster, topic))


def _is_whole(cluster: EmbeddedCluster, topic: str) -> bool:
    def look(server: KafkaServer) -> bool:
        assert server.broker is not None
        registration = server.broker.metadata_cache.partition(TopicPartition(topic, 0))
        return registration is not None and len(registration.isr) == 3 and registration.has_leader

    return all(cluster.call(look, node) for node in range(3))


def mirrored(a: EmbeddedCluster, b: EmbeddedCluster, name: str, topic: str, *, count: int = 40) -> None:
    create_topic(a.bootstrap_servers, topic, replication_factor=3)
    assert produce(a.bootstrap_servers, topic, numbered("a", count), acks="all") == []
    create_mirror(b.bootstrap_servers, name, a.bootstrap_servers)
    add(b.bootstrap_servers, name, topic)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, name)


def stopped(cluster: EmbeddedCluster, name: str, topic: str) -> None:
    remove(cluster.bootstrap_servers, name, topic)
    wait_state(cluster.bootstrap_servers, name, "STOPPED")


def test_s1_s2_s3_s4_s6_s21_the_whole_circle_on_three_replicas(clusters: Clusters) -> None:
    a, b = clusters
    # B mirrors A (S1), whose epochs are above B's (S21)
    create_topic(a.bootstrap_servers, "t", replication_factor=3)
    for _ in range(2):
        bounce_leader(a, "t")
    mirrored_epoch = leader_epoch(a, "t")
    assert produce(a.bootstrap_servers, "t", numbered("a", 40), acks="all") == []
    create_mirror(b.bootstrap_servers, "s", a.bootstrap_servers)
    add(b.bootstrap_servers, "s", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "s")
    batches = replicas(a, b, folder="t-0")
    assert {batch.partition_leader_epoch for batch in batches} == {mirrored_epoch} and leader_epoch(b, "t") < mirrored_epoch

    # failover to B (S2)
    stopped(b, "s", "t")
    batches = replicas(b, folder="t-0")
    assert source_of_reset(batches[-1]) == a.cluster_id and batches[-1].base_offset == 40
    assert leader_epoch(b, "t") == batches[-1].partition_leader_epoch > mirrored_epoch
    ends = [
        call(b.bootstrap_servers, lambda admin: admin.list_offsets([TopicPartition("t", 0)], isolation_level=level)) for level in (0, 1)
    ]
    assert {offset for found in ends for offset in found.values()} == {41}
    assert produce(b.bootstrap_servers, "t", numbered("b", 20), acks="all", enable_idempotence="true") == []
    batches = replicas(b, folder="t-0")
    assert (
        batches[-1].partition_leader_epoch > mirrored_epoch and min(batch.base_sequence for batch in batches if batch.base_offset > 40) == 0
    )

    # failback: A took a record of its own after the failover, in an epoch that B used too (S3)
    bounce_leader(a, "t")
    assert produce(a.bootstrap_servers, "t", numbered("too late", 1), acks="all") == []
    create_mirror(a.bootstrap_servers, "s", b.bootstrap_servers)
    add(a.bootstrap_servers, "s", "t")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "s")
    batches = replicas(a, b, folder="t-0")
    assert source_of_reset(batches[[batch.base_offset for batch in batches].index(40)]) == a.cluster_id, "B's reset came along"
    assert batches[-1].last_offset == 60

    # failover to A, with the source's epochs below ours (S21)
    stopped(a, "s", "t")
    for _ in range(2):
        bounce_leader(a, "t")
    before = leader_epoch(a, "t")

    # B mirrors A again, from the state STOPPED (S4)
    assert produce(a.bootstrap_servers, "t", numbered("a again", 10), acks="all") == []
    add(b.bootstrap_servers, "s", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "s")
    batches = replicas(a, b, folder="t-0")
    assert (
        batches[-1].partition_leader_epoch == before
        and sum(source_of_reset(batch) is not None for batch in batches if batch.is_control) == 2
    )

    # the mirror is deleted and its name used again (S6)
    with pytest.raises(ApiException) as refused:
        call(b.bootstrap_servers, lambda admin: admin.delete_mirror("s"))
    assert refused.value.error is Errors.MIRROR_NOT_EMPTY
    stopped(b, "s", "t")
    call(b.bootstrap_servers, lambda admin: admin.delete_mirror("s"))
    wait_for(
        "the name to be free", lambda: "s" not in {mirror.name for mirror in call(b.bootstrap_servers, lambda admin: admin.list_mirrors())}
    )
    wait_for("tombstones on every replica", lambda: all(is_tombstoned(b, "s", node) for node in range(3)) or None)
    create_mirror(b.bootstrap_servers, "s", a.bootstrap_servers)
    assert produce(b.bootstrap_servers, "t", numbered("plain", 3), acks="all") == []
    replicas(b, folder="t-0")
    call(b.bootstrap_servers, lambda admin: admin.delete_mirror("s"))


def test_fm5_c36b_a_destination_broker_that_was_away_ends_with_the_leaders_batches(clusters: Clusters) -> None:
    """A follower is away while its cluster is prepared for a failback.

    It comes back with batches of its own whose epochs do not tell them apart (F12).
    """
    a, b = clusters
    mirrored(a, b, "away", "u")
    follower = next(node for node in range(3) if node not in (0, leader_node(b, "u")))
    b.stop_node(follower)
    assert produce(a.bootstrap_servers, "u", numbered("while away", 30), acks="all") == []
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "away")
    b.start_node(follower)
    replicas(a, b, folder="u-0")
    # failback while a follower of A is down that has records which the failover lost
    stopped(b, "away", "u")
    assert produce(a.bootstrap_servers, "u", numbered("own", 8), acks="all") == []
    replicas(a, folder="u-0")
    away = next(node for node in range(3) if node not in (0, leader_node(a, "u")))
    a.stop_node(away)
    assert produce(b.bootstrap_servers, "u", numbered("other", 25), acks="all") == []
    create_mirror(a.bootstrap_servers, "away", b.bootstrap_servers)
    add(a.bootstrap_servers, "away", "u")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "away")
    a.start_node(away)
    replicas(a, b, folder="u-0")


def test_fm3_fm4_leaders_and_coordinators_that_change_under_a_failover(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "moves", "v")
    remove(b.bootstrap_servers, "moves", "v")
    bounce_leader(b, "v")
    wait_state(b.bootstrap_servers, "moves", "STOPPED")
    batches = replicas(b, folder="v-0")
    assert [batch.base_offset for batch in batches if batch.is_control] == [40], "one reset, however many leaders"
    described = call(b.bootstrap_servers, lambda admin: admin.describe_mirrors(["moves"]))["moves"].partitions
    assert [row.last_mirror_epoch for row in described] == [batches[0].partition_leader_epoch]
