"""Three brokers and their controller over real sockets: moving partitions, features, elections, as
an admin client sees them.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages import alter_partition_reassignments as alter
from kmirror.wire.messages import create_topics as ct
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.api_versions import ApiVersionsRequest
from kmirror.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData
from kmirror.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as cluster:
        yield cluster


def ask(port: int, request: Any, version: int) -> Any:
    api = ApiKeys(type(request).API_KEY)
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"".join(bytes(part) for part in encode_request(RequestHeader(api, version, 1, "test"), request)))
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return read_response(api, version, memoryview(stream.read(length)))[1]


def create(cluster: EmbeddedCluster, name: str, *replicas: list[int], **configs: str) -> None:
    topic = ct.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    topic.assignments = [ct.CreatableReplicaAssignment(index, ids) for index, ids in enumerate(replicas)]
    topic.configs = [ct.CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    result = ask(cluster.nodes[0].port, ct.CreateTopicsRequest([topic], 10_000), 7).topics[0]
    assert result.error_code == 0, result


def partition(cluster: EmbeddedCluster, topic: str, node: int = 0) -> PartitionRegistration:
    def find(server: KafkaServer) -> PartitionRegistration | None:
        assert server.broker is not None
        return server.broker.metadata_cache.image.topics.partition(topic, 0)

    found = cluster.call(find, node)
    assert found is not None
    return found


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + REACHED_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_partition_moves_to_another_broker(cluster: EmbeddedCluster) -> None:
    create(cluster, "moves", [1])
    target = alter.ReassignableTopic("moves", [alter.ReassignablePartition(0, [3])])
    response = ask(cluster.nodes[1].port, alter.AlterPartitionReassignmentsRequest(topics=[target]), 1)
    assert response.responses[0].partitions[0].error_code == 0
    until(lambda: partition(cluster, "moves").replicas == (3,), "the partition moves")
    moved = partition(cluster, "moves")
    assert (moved.leader, moved.isr, moved.is_reassigning) == (3, (3,), False)
    assert ask(cluster.nodes[0].port, ListPartitionReassignmentsRequest(topics=None), 0).topics == []
    until(lambda: (cluster.log_dir(2) / "moves-0").is_dir() and not (cluster.log_dir(0) / "moves-0").exists(), "the old replica goes")


def test_brokers_know_a_raised_kraft_version_and_the_quorum_knows_its_observers(cluster: EmbeddedCluster) -> None:
    update = FeatureUpdateKey("kraft.version", 1, upgrade_type=1)
    assert ask(cluster.nodes[2].port, UpdateFeaturesRequest(60_000, [update], False), 2).error_code == 0

    def finalized() -> dict[str, int]:
        answer = ask(cluster.nodes[2].port, ApiVersionsRequest("test", "1"), 4)
        return {feature.name: feature.max_version_level for feature in answer.finalized_features}

    until(lambda: finalized().get("kraft.version") == 1, "the broker sees kraft.version 1")
    wanted = DescribeQuorumRequest([DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])])
    quorum = ask(cluster.nodes[1].port, wanted, 2).topics[0].partitions[0]
    assert [voter.replica_id for voter in quorum.current_voters] == [1]
    assert [observer.replica_id for observer in quorum.observers] == [2, 3]


def test_switching_unclean_elections_on_elects(cluster: EmbeddedCluster) -> None:
    create(cluster, "lost", [2, 3])
    until(lambda: partition(cluster, "lost").isr == (2, 3), "both are in sync")
    cluster.kill_node(2)
    until(lambda: partition(cluster, "lost").isr == (2,), "3 leaves the ISR")
    cluster.kill_node(1)
    until(lambda: partition(cluster, "lost").leader == -1, "nobody leads")
    cluster.start_node(2)
    assert partition(cluster, "lost").leader == -1, "3 was not in sync"
    change = iac.AlterConfigsResource(2, "lost", [iac.AlterableConfig("unclean.leader.election.enable", 0, "true")])
    response = ask(cluster.nodes[0].port, iac.IncrementalAlterConfigsRequest([change]), 1)
    assert response.responses[0].error_code == 0
    until(lambda: partition(cluster, "lost").leader == 3, "3 is elected")
    assert partition(cluster, "lost").isr == (3,)
    cluster.start_node(1)
    until(lambda: set(partition(cluster, "lost").isr) == {2, 3}, "2 follows again")


def test_more_fetchers_at_runtime_share_the_partitions_and_lose_nothing(cluster: EmbeddedCluster) -> None:
    names = [f"spread-{number}" for number in range(8)]
    for name in names:
        create(cluster, name, [1, 2])

    def fetchers(server: KafkaServer) -> dict[int, int]:
        assert server.broker is not None
        manager = server.broker._replica_fetchers
        spread: dict[int, int] = {}
        for (fetcher_id, leader_id), fetcher in manager._fetchers.items():
            mine = [key for key, _ in fetcher.states() if key.topic in names and leader_id == 1]
            spread[fetcher_id] = spread.get(fetcher_id, 0) + len(mine)
        return {fetcher_id: count for fetcher_id, count in spread.items() if count}

    until(lambda: sum(cluster.call(fetchers, 1).values()) == 8, "broker 2 follows all of them")
    assert list(cluster.call(fetchers, 1)) == [0]
    for value in ("2", None):
        operation = 0 if value else 1
        change = iac.AlterConfigsResource(4, "2", [iac.AlterableConfig("num.replica.fetchers", operation, value)])
        assert ask(cluster.nodes[1].port, iac.IncrementalAlterConfigsRequest([change]), 1).responses[0].error_code == 0
        wanted = {0, 1} if value else {0}
        until(lambda wanted=wanted: set(cluster.call(fetchers, 1)) == wanted, f"fetchers {wanted}")
        assert sum(cluster.call(fetchers, 1).values()) == 8
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for name in names:
            producer.produce(name, b"value", partition=0)
        assert producer.flush(REACHED_S) == 0
    for name in names:
        assert partition(cluster, name).isr == (1, 2)


def test_a_broker_that_cannot_apply_the_metadata_ends() -> None:
    class Broken:
        name = "broken"
        installed = False

        def on_metadata_update(self, delta: object, image: object, manifest: object) -> None:
            if self.installed:
                raise RuntimeError("a record that nobody understands")
            self.installed = True

    with EmbeddedCluster(brokers=2, config={"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}) as cluster:
        cluster.call(lambda server: server.broker._metadata.loader.install_publisher(Broken()), 1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers.partition(",")[0]})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(REACHED_S)
        deadline = time.monotonic() + REACHED_S
        while not cluster.call(lambda server: server.fatal.done(), 1):
            assert time.monotonic() < deadline, "the broker lives on"
            time.sleep(0.05)
        assert "a record that nobody understands" in cluster.call(lambda server: server.fatal.result(), 1)
