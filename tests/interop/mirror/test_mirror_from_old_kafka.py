"""Sources of three ages: Kafka 4.3, the last 3.x, and a 2.8 of the ZooKeeper days (topic ids in Metadata, but Fetch by name).

Two brokers with two replicas; while records arrive, their brokers are stopped and killed in turn, and so is one of ours. In the end
every replica of ours has the batches of the source, byte for byte, and a failover gives a writable topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from mirror_harness import (
    FAST_MIRROR,
    call,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    log_bytes,
    produce_numbered,
    produce_transactions,
    quiet,
    wait_for,
    wait_states,
)
from peer_clusters import PeerCluster, kafka_cluster

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches

pytestmark = pytest.mark.interop
FOLDERS = ["r-0", "r-1", "r-2"]


@pytest.fixture(params=["4.3.0", "3.9.1", "2.8.2"])
def source(request: pytest.FixtureRequest, tmp_path) -> Iterator[PeerCluster]:
    with kafka_cluster(tmp_path / "source", request.param) as cluster:
        yield cluster


@pytest.fixture
def ours() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as cluster:
        yield cluster


class Load:
    """Acknowledged records for all partitions until it is ended."""

    def __init__(self, bootstrap_servers: str) -> None:
        settings = {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(quiet(settings | {"compression.type": "lz4", "message.timeout.ms": 60_000}))
        self._ended = threading.Event()
        self.acknowledged = 0
        self.errors: list[object] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._producer.produce("r", f"load-{number}".encode(), partition=number % 3, on_delivery=self._delivered)
            self._producer.poll(0.001)
            number += 1
        self._producer.flush(60)

    def _delivered(self, error: object, _: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def replicas_equal(source: PeerCluster, ours: EmbeddedCluster) -> None:
    """Each replica of ours has exactly the source's bytes."""
    replicas = [node for node in range(3) if (ours.log_dir(node) / "r-0").exists()]
    assert len(replicas) == 3
    for folder in FOLDERS:
        for node in replicas:
            wait_for(
                f"{folder} on node {node} to be as at the source",
                lambda folder=folder, node=node: log_bytes(ours.log_dir(node), folder) == source.log_bytes(folder),
                60,
            )
        assert source.log_bytes(folder)


def test_identical_batches_under_leader_changes_and_restarts_then_failover(tmp_path, source: PeerCluster, ours: EmbeddedCluster) -> None:
    create_topic(source.bootstrap_servers, "r", 3, replication_factor=2)
    produce_numbered(source.bootstrap_servers, "r", 0, 300, codec="zstd", partitions=3)
    create_mirror_by_tool(tmp_path, ours.bootstrap_servers, source.bootstrap_servers, "m")
    kafka_mirrors(ours.bootstrap_servers, "--add", "--mirror", "m", "--topic", "r", "--replication-factor", "3")
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=3)
    load = Load(source.bootstrap_servers)
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
    assert not load.errors and load.acknowledged > 100
    produce_transactions(source.bootstrap_servers, "r")
    wait_states(ours.bootstrap_servers, "m", "MIRRORING", partitions=3, lag=0, timeout_s=60)
    replicas_equal(source, ours)
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
