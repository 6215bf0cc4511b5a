"""Share groups of an Apache Kafka 4.3 source, used by its share consumer, start at the same offsets
at the destination (SYN15).
"""

from __future__ import annotations

import pathlib

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.peers.peers import apache_kafka, java_tool

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition

pytestmark = pytest.mark.interop
PARTITIONS = [TopicPartition("t", number) for number in range(2)]
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


def starts(address: str, group: str) -> dict[TopicPartition, int]:
    rows = call(address, lambda admin: admin.list_share_group_offsets(group), timeout_ms=60_000)
    return {name: row.start_offset for name, row in rows.items() if row is not None}


def consume(address: str, group: str, count: int) -> list[str]:
    arguments = ("--bootstrap-server", address, "--topic", "t", "--group", group, "--max-messages", str(count), "--timeout-ms", "20000")
    return java_tool(SHARE_CONSUMER, *arguments).stdout.split()


def test_share_groups_of_apache_kafka_move_here(tmp_path: pathlib.Path) -> None:
    with apache_kafka(tmp_path) as source, EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as here:
        address = source.bootstrap_servers
        create_topic(address, "t", 2)
        for partition in range(2):
            produce(address, "t", numbered("v", 30), partition=partition)
        call(address, lambda admin: admin.alter_share_group_offsets("workers", dict.fromkeys(PARTITIONS, 10)))
        call(address, lambda admin: admin.alter_share_group_offsets("idle", {PARTITIONS[1]: 3}))
        assert len(consume(address, "workers", 40)) == 40, "everything behind the start offsets, acknowledged"
        for partition in range(2):
            produce(address, "t", numbered("w", 4), partition=partition)
        consume(address, "workers", 8)
        worked = starts(address, "workers")
        assert all(offset > 10 for offset in worked.values()), "the start moved on with the acknowledgements"
        create_mirror(here.bootstrap_servers, "m", address)
        add(here.bootstrap_servers, "m", "t")
        wait_caught_up(here.bootstrap_servers, address, "m")
        wait_for("the groups here", lambda: (starts(here.bootstrap_servers, "workers"), starts(here.bootstrap_servers, "idle"))
                 == (worked, {PARTITIONS[1]: 3}))  # fmt: skip
        remove(here.bootstrap_servers, "m", "t")
        wait_state(here.bootstrap_servers, "m", "STOPPED")
        brokers = [node.server.broker for node in here.nodes if node.server is not None]
        assert [broker.mirror.metadata_manager.errors.group_offset for broker in brokers if broker is not None] == [0, 0, 0]
