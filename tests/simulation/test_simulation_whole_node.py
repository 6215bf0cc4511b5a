"""A whole node (broker and controller) in the simulator: it starts, answers over the network, and
survives losing its power.
"""

from __future__ import annotations

import pytest

from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.network.client import NetworkClient
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.metadata import MetadataRequest

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://kafka1:9092,CONTROLLER://kafka1:9093",
    "advertised.listeners": "PLAINTEXT://kafka1:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@kafka1:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": "/data",
}


def lose_power_after_creating_a_topic(seed: int) -> tuple[list[str], str]:
    """The topics after the restart, and the hash of the trace."""
    world = SimWorld(SimLoop(seed))
    node, client_runtime = world.node("kafka1"), world.node("client").boot()
    client = NetworkClient(client_runtime, "tester")
    config = KafkaConfig.from_props(PROPERTIES)

    def start() -> None:
        runtime = node.boot()
        if not runtime.files.exists("/data"):
            runtime.files.make_dirs("/data")
            runtime.files.fsync_path("/")
            format_node(config, FormatOptions(cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"), runtime)
        server = KafkaServer(config, runtime)
        world.loop.run_until_complete(runtime.spawn(server.start(), name="start"))

    def ask(request):
        sending = client.send("kafka1", 9092, request, timeout_ms=30_000)
        return world.loop.run_until_complete(client_runtime.spawn(sending, name="ask"))

    start()
    created = ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)]))
    assert [topic.error_code for topic in created.topics] == [0]
    node.kill(power_loss=True)
    world.loop.run_for_us(500_000)
    start()
    topics = [topic.name for topic in ask(MetadataRequest(topics=None)).topics]
    assert world.loop.failures == []
    world.close()
    return topics, world.loop.trace_hash


@pytest.mark.parametrize("seed", range(5))
def test_an_answered_create_topic_survives_a_power_loss(seed):
    topics, _ = lose_power_after_creating_a_topic(seed)
    assert topics == ["orders"]


def test_the_same_seed_is_the_same_disaster():
    assert lose_power_after_creating_a_topic(3) == lose_power_after_creating_a_topic(3)
    assert lose_power_after_creating_a_topic(3)[1] != lose_power_after_creating_a_topic(4)[1]
