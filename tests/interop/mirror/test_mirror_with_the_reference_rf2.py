"""The KIP's reference implementation with two brokers and two replicas, three of ours: both ways,
under leader changes.

It is our source; we fail over; it fails back from us; it fails over; we fail back from it. After
each step every replica of both clusters has the same batches. Where the reference sticks (entries
2, 3, 7) it is restarted, as its operators would have to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    Load,
    create_mirror,
    create_topic,
    describe,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    produce_once_writable,
    wait_for,
    wait_states,
    with_a_restart,
)
from support.peers.peer_clusters import PeerCluster, assert_replicas_equal, reference_cluster
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.record.record_batch import iter_batches

pytestmark = pytest.mark.interop
PARTITIONS = 4
FOLDERS = [f"r-{number}" for number in range(PARTITIONS)]


@pytest.fixture
def reference(tmp_path) -> Iterator[PeerCluster]:
    properties = {"mirror.metadata.refresh.interval.ms": "1000", "mirror.topic.replication.factor": "2"}
    with reference_cluster(tmp_path / "reference", properties=properties) as cluster:
        yield cluster


@pytest.fixture
def ours() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as cluster:
        yield cluster


def all_equal(reference: PeerCluster, ours: EmbeddedCluster, timeout_s: float = REACHED_S) -> None:
    assert_replicas_equal(reference, ours, FOLDERS, replicas=2, timeout_s=timeout_s)
    for folder in FOLDERS:
        for node in reference.nodes:
            wait_for(
                f"{folder} on the reference's node {node.node_id}",
                lambda folder=folder, node=node: log_bytes(node.data, folder) == reference.log_bytes(folder),
                60,
            )


def the_reference_catches_up(reference: PeerCluster, ours: EmbeddedCluster) -> None:
    """Entries 2 and 3: it cuts partitions again that it fetches already, and does not go on with
    those until it is restarted.
    """
    with_a_restart(lambda timeout_s: all_equal(reference, ours, timeout_s), lambda: restart(reference), patience_s=15, timeout_s=REACHED_S)


def restart(reference: PeerCluster) -> None:
    for node in reversed(reference.nodes):
        node.restart()


def epochs(logs: Sequence[bytes]) -> set[int]:
    return {batch.partition_leader_epoch for log in logs for batch in iter_batches(log)}


@pytest.mark.round
def test_both_ways_with_two_replicas_and_leader_changes(reference: PeerCluster, ours: EmbeddedCluster) -> None:
    create_topic(reference.bootstrap_servers, "r", PARTITIONS, replication_factor=2)
    produce_numbered(reference.bootstrap_servers, "r", 0, 200, codec="zstd", partitions=PARTITIONS)
    create_mirror(ours.bootstrap_servers, "m", reference.bootstrap_servers)
    kafka_mirrors(ours.bootstrap_servers, "--add", "--mirror", "m", "--topic", "r", "--replication-factor", "2")
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS)
    load = Load(reference.bootstrap_servers, "r", PARTITIONS)
    try:
        reference.nodes[1].kill()
        time.sleep(4)
        reference.nodes[1].start()
        ours.kill_node(2)
        time.sleep(1)
        ours.start_node(2)
        time.sleep(2)
    finally:
        load.end()
    assert not load.errors
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS, lag=0, timeout_s=REACHED_S)
    all_equal(reference, ours)
    assert len(epochs([reference.log_bytes(folder) for folder in FOLDERS])) > 1, "no leader changed at the source"

    kafka_mirrors(ours.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "r")
    wait_states(ours.bootstrap_servers, "m", "STOPPED", partitions=PARTITIONS)
    create_mirror(reference.bootstrap_servers, "m", ours.bootstrap_servers)
    kafka_mirrors(reference.bootstrap_servers, "--add", "--mirror", "m", "--topic", "r")
    the_reference_catches_up(reference, ours)
    load = Load(ours.bootstrap_servers, "r", PARTITIONS)
    try:
        ours.kill_node(1)
        time.sleep(1)
        ours.start_node(1)
        time.sleep(2)
    finally:
        load.end()
    assert not load.errors
    the_reference_catches_up(reference, ours)

    kafka_mirrors(reference.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "r")
    wait_stopped(reference)
    produce_once_writable(reference.bootstrap_servers, "r", 0, 100, codec="lz4", partitions=PARTITIONS)
    kafka_mirrors(ours.bootstrap_servers, "--add", "--mirror", "m", "--topic", "r")
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=PARTITIONS, lag=0, timeout_s=REACHED_S)
    all_equal(reference, ours)


def wait_stopped(reference: PeerCluster) -> None:
    """Entry 7: with two brokers, any change of the metadata makes the reference forget the epoch
    bump that it waits for.
    """

    def stopped() -> bool:
        return {row["state"] for row in describe(reference.bootstrap_servers, "m")} == {"STOPPED"}

    with_a_restart(
        lambda timeout_s: wait_for("the reference to stop", stopped, timeout_s),
        lambda: restart(reference),
        patience_s=10,
        timeout_s=REACHED_S,
    )
