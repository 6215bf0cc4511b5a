"""Two clusters of three broker processes: brokers of both die with SIGKILL while records arrive and
are mirrored, then failover with a broker down, and failback. Nothing acknowledged is lost
(acks=all, min ISR 2), and all six replicas end with the same batches.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    Load,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    wait_for,
    wait_states,
)

from kmirror import EmbeddedCluster
from kmirror.record.record_batch import iter_batches

SEED = 20261122
PARTITIONS = 3
FOLDERS = [f"k-{number}" for number in range(PARTITIONS)]
SETTINGS = FAST_MIRROR | {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200", "replica.lag.time.max.ms": "1500"}


@pytest.fixture
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with (
        EmbeddedCluster(brokers=3, processes=True, mirroring=True, config=SETTINGS) as north,
        EmbeddedCluster(brokers=3, processes=True, mirroring=True, config=SETTINGS) as south,
    ):
        yield north, south


def values(data: bytes) -> list[bytes]:
    batches = [batch for batch in iter_batches(data) if not batch.is_control]
    return [bytes(record.value) for batch in batches for record in batch.records() if record.value is not None]


def all_replicas_equal(*clusters: EmbeddedCluster) -> list[bytes]:
    """The partitions' bytes, once every replica of every cluster has them."""
    found: list[bytes] = []
    for folder in FOLDERS:

        def equal(folder: str = folder) -> bytes | None:
            logs = {log_bytes(cluster.log_dir(node), folder) for cluster in clusters for node in range(3)}
            return logs.pop() if len(logs) == 1 else None

        found.append(wait_for(f"equal replicas of {folder}", equal, 40))
    return found


def kill_and_start(chance: random.Random, cluster: EmbeddedCluster) -> None:
    node = chance.randrange(3)
    cluster.kill_node(node)
    time.sleep(chance.uniform(0, 0.6))
    cluster.start_node(node)


@pytest.mark.soak
def test_brokers_of_both_ends_are_killed_and_a_failover_meets_a_dead_one(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    chance = random.Random(SEED)
    north, south = clusters
    create_topic(north.bootstrap_servers, "k", PARTITIONS, replication_factor=3, min_insync_replicas="2")
    create_mirror(south.bootstrap_servers, "m", north.bootstrap_servers)
    kafka_mirrors(south.bootstrap_servers, "--add", "--mirror", "m", "--topic", "k", "--replication-factor", "3")
    load = Load(north.bootstrap_servers, "k", PARTITIONS, prefix="n")
    for cluster in (north, south, north, south):
        kill_and_start(chance, cluster)
    acknowledged = load.end()
    assert len(acknowledged) > 100
    wait_states(south.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS, lag=0)
    kept = [value for data in all_replicas_equal(north, south) for value in values(data)]
    assert len(kept) == len(set(kept)), "an idempotent producer's record is there twice"
    assert not acknowledged - set(kept)

    south.kill_node(2)
    kafka_mirrors(south.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "k")
    wait_states(south.bootstrap_servers, "m", "STOPPED", partitions=PARTITIONS)
    produce_numbered(south.bootstrap_servers, "k", 0, 60, partitions=PARTITIONS)
    produce_numbered(north.bootstrap_servers, "k", 1000, 30, partitions=PARTITIONS)
    south.start_node(2)
    create_mirror(north.bootstrap_servers, "m", south.bootstrap_servers)
    kafka_mirrors(north.bootstrap_servers, "--add", "--mirror", "m", "--topic", "k")
    kill_and_start(chance, north)
    wait_states(north.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS, lag=0)
    kept = [value for data in all_replicas_equal(north, south) for value in values(data)]
    assert not acknowledged - set(kept)
    assert {f"v{number}".encode() * 5 for number in range(60)} <= set(kept)
    assert b"v1000" * 5 not in kept, "north's own records after the failover are cut"
