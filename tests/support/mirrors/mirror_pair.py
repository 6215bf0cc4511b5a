"""Two clusters of three brokers with three replicas of everything, and topics mirrored from the
first to the second.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.record.record_batch import iter_batches
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    numbered,
    produce,
    wait_caught_up,
    wait_for,
)

THREE_BROKERS = FAST_MIRROR | {
    "mirror.topic.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
Pair = tuple[EmbeddedCluster, EmbeddedCluster]
Run = Callable[..., tuple[int, str, str]]


def mirrored_topic(pair: Pair, name: str, *, records: int = 30) -> None:
    """Topic `name` with three replicas on A, mirrored to B by a mirror of the same name."""
    a, b = pair
    create_topic(a.bootstrap_servers, name, 2, replication_factor=3)
    produce(a.bootstrap_servers, name, numbered(name, records))
    create_mirror(b.bootstrap_servers, name, a.bootstrap_servers)
    kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", name, "--topic", name, "--replication-factor", "3", "--wait")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, name)


def assert_equal_everywhere(pair: Pair, *folders: str) -> None:
    """The six replicas of each partition have the same bytes."""
    for folder in folders:
        logs = [cluster.log_dir(node) for cluster in pair for node in range(3)]
        wait_for(f"equal logs of {folder}", lambda logs=logs, folder=folder: len({log_bytes(log, folder) for log in logs}) == 1)


def values_on(cluster: EmbeddedCluster, folder: str) -> dict[int, bytes]:
    """The data records of a partition by offset, on the broker that has most of it."""
    longest = max((log_bytes(cluster.log_dir(node), folder) for node in range(3)), key=len)
    return {r.offset: bytes(r.value or b"") for batch in iter_batches(longest) if not batch.is_control for r in batch.records()}


def commit(cluster: EmbeddedCluster, group: str, topic: str, offset: int) -> None:
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset)}
    errors = call(cluster.bootstrap_servers, lambda admin: admin.alter_consumer_group_offsets(group, offsets))
    assert list(errors.values()) == [None]
