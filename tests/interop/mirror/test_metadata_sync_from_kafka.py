"""Metadata sync from Apache Kafka 4.3, 3.9 and a 2.8 of the ZooKeeper days: configs, partitions,
access rules and group offsets, no error counted (UPG6).
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as GroupPartition
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from support.brokers.kmirror_side import AUTHORIZED
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    quiet,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.peers.peer_clusters import kafka_cluster
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.acls import AclBinding
from kmirror.admin.results import ConfigResourceType
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType

pytestmark = pytest.mark.interop
ONE_NODE = {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "default.replication.factor": "1"}
AUTHORIZERS = {
    "4.3.0": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "3.9.1": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "2.8.2": "kafka.security.authorizer.AclAuthorizer",
}
RULES = [
    AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
    AclBinding(ResourceType.GROUP, "app-", PatternType.PREFIXED, "User:bob", "10.0.0.1", AclOperation.READ, AclPermissionType.DENY),
]


def consume(bootstrap_servers: str, group: str, protocol: str, count: int) -> None:
    """Read and commit `count` records of t, then leave."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer(quiet(settings | {"enable.auto.commit": False}))
    consumer.subscribe(["t"])
    for _ in range(count):
        message = wait_for("a record", lambda: consumer.poll(0.2))
        assert message.error() is None, message.error()
    consumer.commit(asynchronous=False)
    consumer.close()


def offsets(bootstrap_servers: str, group: str) -> dict[int, int]:
    client = ConfluentAdmin(quiet({"bootstrap.servers": bootstrap_servers}))
    rows = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(REACHED_S).topic_partitions
    return {row.partition: row.offset for row in rows}


@pytest.mark.parametrize("version", AUTHORIZERS)
def test_configs_partitions_rules_and_offsets_come_from_kafka(version: str, tmp_path: pathlib.Path) -> None:
    authorized = ONE_NODE | {"authorizer.class.name": AUTHORIZERS[version], "super.users": "User:ANONYMOUS"}
    with (
        kafka_cluster(tmp_path / "source", version, nodes=1, properties=authorized) as source,
        EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR | AUTHORIZED) as ours,
    ):
        address = source.bootstrap_servers
        removed_in_4 = {"message_format_version": "2.8-IV1"} if version == "2.8.2" else {}
        takes_any_time = {"message.timestamp.after.max.ms": str(2**63 - 1), "mirror.source.defaults": "message.timestamp.after.max.ms"}
        in_effect = {} if version == "4.3.0" else takes_any_time  # Kafka 4 refuses what lies an hour ahead
        create_topic(address, "t", 2, retention_ms="777000", min_insync_replicas="1", **removed_in_4)
        for partition in range(2):
            produce(address, "t", numbered("a", 30), partition=partition)
        call(address, lambda admin: admin.create_acls(RULES))
        protocols = ["classic", "consumer"] if version == "4.3.0" else ["classic"]
        for protocol in protocols:
            consume(address, f"app-{protocol}", protocol, 25)
        create_mirror(ours.bootstrap_servers, "m", address)
        add(ours.bootstrap_servers, "m", "t")
        wait_caught_up(ours.bootstrap_servers, address, "m")
        for protocol in protocols:
            theirs = offsets(address, f"app-{protocol}")
            assert sum(theirs.values()) == 25
            wait_for("the offsets", lambda protocol=protocol, theirs=theirs: offsets(ours.bootstrap_servers, f"app-{protocol}") == theirs)
        wait_for("the rules", lambda: set(RULES) <= set(call(ours.bootstrap_servers, lambda admin: admin.describe_acls())))
        call(address, lambda admin: admin.create_partitions({"t": 3})).all()
        wait_for("3 partitions", lambda: len(call(ours.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].partitions) == 3)
        entries = call(ours.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, "t"))
        assert {entry.name: entry.value for entry in entries if entry.source == 1} == {"retention.ms": "777000"} | in_effect
        assert [ours.call(errors_of, node=index) for index in range(3)] == [{}] * 3
        remove(ours.bootstrap_servers, "m", "t")
        wait_state(ours.bootstrap_servers, "m", "STOPPED")
        client = ConfluentAdmin(quiet({"bootstrap.servers": address}))
        late = ConsumerGroupTopicPartitions("app-classic", [GroupPartition("t", 0, 1)])
        client.alter_consumer_group_offsets([late])["app-classic"].result(REACHED_S)
        consume(ours.bootstrap_servers, "app-classic", protocols[-1], 35)
        ends = offsets(ours.bootstrap_servers, "app-classic")
        assert {ends[0], ends[1]} <= {30, 31}, "all records, and the PID reset where it was passed"


def errors_of(server: Any) -> dict[str, int]:
    """The gauges that are not 0."""
    errors = server.broker.mirror.metadata_manager.errors
    names = ("metadata_refresh", "topic_config", "group_offset", "acl")
    return {name: getattr(errors, name) for name in names if getattr(errors, name)}
