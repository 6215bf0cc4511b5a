"""Kafka's Java consumer reads from the follower in its rack (KIP-392); Kafka's own tools see the
throttles.
"""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrors.mirror_harness import produce_numbered, quiet
from support.peers.peers import java_tool
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def test_the_java_consumer_reads_from_the_follower_in_its_rack() -> None:
    racks = {index: {"broker.rack": f"rack-{index + 1}"} for index in range(3)}
    selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    with EmbeddedCluster(brokers=3, config=selector, node_config=racks) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("jf", 1, 3)])["jf"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "jf", 0, 50, acks="all")
        leader = admin.list_topics("jf", timeout=10).topics["jf"].partitions[0].leader
        follower = leader % 3 + 1
        done = java_tool(
            CONSUME, "--bootstrap-server", cluster.bootstrap_servers, "--topic", "jf", "--from-beginning", "--max-messages", "50",
            "--timeout-ms", "30000", "--command-property", f"client.rack=rack-{follower}",
        )  # fmt: skip
        assert done.returncode == 0 and len(done.stdout.splitlines()) == 50, done.stdout + done.stderr

        def bytes_out(server) -> int:  # type: ignore[no-untyped-def]
            return server.broker.replica_manager.stats.topic("jf").bytes_out.count

        sent = {node + 1: cluster.call(bytes_out, node) for node in range(3)}
        assert sent[follower] > 0 and sent[leader] == 0, "all of it came from the follower"
