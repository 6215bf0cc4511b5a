"""Sources of three ages: Kafka 4.3, the last 3.x, and a 2.8 of the ZooKeeper days (topic ids in
Metadata, but Fetch by name).

Two brokers with two replicas; while records arrive, their brokers are stopped and killed in turn,
and so is one of ours. In the end every replica of ours has the batches of the source, byte for
byte, and a failover gives a writable topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    Load,
    call,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    produce_numbered,
    produce_transactions,
    wait_states,
)
from support.peers.peer_clusters import PeerCluster, assert_replicas_equal, kafka_cluster
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches

pytestmark = pytest.mark.interop
FOLDERS = ["r-0", "r-1", "r-2"]


@pytest.fixture(params=[pytest.param("4.3.0", marks=pytest.mark.round), pytest.param("3.9.1", marks=pytest.mark.round), "2.8.2"])
def source(request: pytest.FixtureRequest, tmp_path) -> Iterator[PeerCluster]:
    with kafka_cluster(tmp_path / "source", request.param) as cluster:
        yield cluster


@pytest.fixture
def ours() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as cluster:
        yield cluster


def test_identical_batches_under_leader_changes_and_restarts_then_failover(tmp_path, source: PeerCluster, ours: EmbeddedCluster) -> None:
    create_topic(source.bootstrap_servers, "r", 3, replication_factor=2)
    produce_numbered(source.bootstrap_servers, "r", 0, 300, codec="zstd", partitions=3)
    create_mirror_by_tool(tmp_path, ours.bootstrap_servers, source.bootstrap_servers, "m")
    kafka_mirrors(ours.bootstrap_servers, "--add", "--mirror", "m", "--topic", "r", "--replication-factor", "3")
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=3)
    load = Load(source.bootstrap_servers, "r", 3)
    try:
        second = source.nodes[1]
        second.kill()
        time.sleep(4)
        second.start()
        ours.kill_node(1)
        time.sleep(2)
        ours.start_node(1)
        source.nodes[0].stop()
        source.nodes[0].start()
        time.sleep(3)
    finally:
        load.end()
    assert not load.errors and len(load.acknowledged) > 100
    produce_transactions(source.bootstrap_servers, "r")
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=3, lag=0, timeout_s=REACHED_S)
    assert_replicas_equal(source, ours, FOLDERS, replicas=3)
    epochs = {batch.partition_leader_epoch for folder in FOLDERS for batch in iter_batches(source.log_bytes(folder))}
    assert len(epochs) > 1, "no leader changed"

    kafka_mirrors(ours.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "r")
    wait_states(ours.bootstrap_servers, "m", "STOPPED", partitions=3)
    produce_numbered(ours.bootstrap_servers, "r", 0, 30, partitions=3)
    partitions = [TopicPartition("r", number) for number in range(3)]
    ends = call(ours.bootstrap_servers, lambda admin: admin.list_offsets(partitions))
    for partition in partitions:
        last = list(iter_batches(source.log_bytes(str(partition))))[-1].last_offset
        assert ends[partition] == last + 1 + 1 + 10, "the mirrored records, the PID reset, ten of ours"
