"""Reassignment on the data side: added replicas copy and join, removed ones delete their folders,
while records come in.
"""

from __future__ import annotations

import threading

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrors.mirror_harness import log_bytes, produce_numbered, quiet, wait_for
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.errors import Errors
from kmirror.network.client import NetworkClient
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

FAST = {"replica.fetch.backoff.ms": "100", "broker.heartbeat.interval.ms": "100"}


def reassign(cluster: EmbeddedCluster, topic: str, placement: dict[int, list[int]]) -> None:
    partitions = [ReassignablePartition(partition_index=number, replicas=replicas) for number, replicas in placement.items()]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)], timeout_ms=10_000)

    async def main(runtime: Runtime) -> None:
        client = NetworkClient(runtime, "test")
        try:
            host, _, port = cluster.bootstrap_servers.split(",")[0].rpartition(":")
            response = await client.send(host, int(port), request, timeout_ms=10_000)
            assert response.error_code == Errors.NONE, response
            assert all(row.error_code == Errors.NONE for result in response.responses for row in result.partitions), response
        finally:
            client.close()

    run(main)


def placed(admin: AdminClient, topic: str) -> dict[int, tuple[list[int], list[int]]]:
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: (list(row.replicas), sorted(row.isrs)) for number, row in partitions.items()}


def test_replicas_move_to_other_brokers_under_load_with_equal_logs_and_nothing_left_behind() -> None:
    with EmbeddedCluster(brokers=3, config=FAST | {"log.segment.delete.delay.ms": "100"}) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("r", 2, replica_assignment=[[1, 2], [2, 1]])])["r"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "r", 0, 500, partitions=2, acks="all")
        stop, errors = threading.Event(), []
        producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 20}))

        def load() -> None:
            while not stop.is_set():
                for partition in range(2):
                    producer.produce("r", b"x" * 100, partition=partition, on_delivery=lambda error, message: errors.append(error))
                producer.poll(0.01)
            assert producer.flush(REACHED_S) == 0

        thread = threading.Thread(target=load)
        thread.start()
        try:
            reassign(cluster, "r", {0: [2, 3], 1: [3, 1]})
            wait_for("the reassignment", lambda: placed(admin, "r") == {0: ([2, 3], [2, 3]), 1: ([3, 1], [1, 3])})
            reassign(cluster, "r", {0: [1, 2, 3]})
            wait_for("a third replica", lambda: placed(admin, "r")[0] == ([1, 2, 3], [1, 2, 3]))
        finally:
            stop.set()
            thread.join()
        assert errors and not any(errors)
        wait_for("the followers", lambda: len({log_bytes(cluster.log_dir(node), "r-0") for node in range(3)}) == 1)
        wait_for("the followers", lambda: log_bytes(cluster.log_dir(2), "r-1") == log_bytes(cluster.log_dir(0), "r-1"))
        assert not (cluster.log_dir(1) / "r-1").exists()
        fetchers = cluster.call(lambda server: sorted(leader for _, leader in server.broker._replica_fetchers._fetchers), 1)
        leader = cluster_leader(admin, "r", 0)
        assert fetchers == ([] if leader == 2 else [leader]), "broker 2 has a fetcher for nobody that it does not follow"


def cluster_leader(admin: AdminClient, topic: str, partition: int) -> int:
    return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader)
