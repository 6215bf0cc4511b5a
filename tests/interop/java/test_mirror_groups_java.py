"""Java's classic and KIP-848 consumers that move to the mirror at failover: they go on where the
source's offsets were synced.
"""

from __future__ import annotations

import pathlib

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
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
from support.peers.peers import start_java_program
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "programs" / "GroupConsumers.java"
CONFIG = FAST_MIRROR | {"offsets.topic.num.partitions": "6", "group.initial.rebalance.delay.ms": "100"}
PARTITIONS = 2


def read_with_java(cluster: EmbeddedCluster, group: str, protocol: str, count: int, log: pathlib.Path) -> list[tuple[int, int]]:
    """Partition and offset of what a member of the group reads until it has `count` records; all of
    it is committed.
    """

    def records() -> list[tuple[int, int]]:
        lines = [line.split(" ") for line in log.read_text().splitlines()]
        assert not [words for words in lines if words[0] == "error"], log.read_text()
        return [(int(words[3]), int(words[4])) for words in lines if words[0] == "record"]

    with start_java_program(PROGRAM, cluster.bootstrap_servers, group, log=log) as process:
        assert process.stdin is not None
        process.stdin.write(f"open a {protocol} t\n")
        process.stdin.flush()
        wait_for(f"{count} records", lambda: len(records()) >= count)
    return records()


def synced(cluster: EmbeddedCluster, group: str) -> list[int]:
    client = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
    rows = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(REACHED_S).topic_partitions
    return sorted(row.offset for row in rows)


def test_java_consumers_of_both_protocols_go_on_at_the_synced_offsets(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(mirroring=True, config=CONFIG) as a, EmbeddedCluster(brokers=3, mirroring=True, config=CONFIG) as b:
        create_topic(a.bootstrap_servers, "t", PARTITIONS)
        for partition in range(PARTITIONS):
            produce(a.bootstrap_servers, "t", numbered("early", 50), partition=partition)
        moves = {"to-new": ("classic", "consumer"), "to-old": ("consumer", "classic")}
        for group, (protocol, _) in moves.items():
            assert len(read_with_java(a, group, protocol, 100, tmp_path / f"{group}-a.txt")) == 100
        for partition in range(PARTITIONS):
            produce(a.bootstrap_servers, "t", numbered("late", 30), partition=partition)
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        wait_for("the offsets", lambda: all(synced(b, group) == [50, 50] for group in moves))
        a.kill_node()
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        for group, (_, protocol) in moves.items():
            read = read_with_java(b, group, protocol, 60, tmp_path / f"{group}-b.txt")
            assert sorted(read) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(50, 80)]
