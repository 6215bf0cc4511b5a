"""A three-broker cluster under clients: reading from followers by rack, DeleteRecords on three
replicas, leaders that move under load.
"""

from __future__ import annotations

import json
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, ElectionType, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrors.mirror_harness import produce_numbered, quiet, wait_for
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

RACKS = {index: {"broker.rack": f"rack-{index + 1}"} for index in range(3)}
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
FAST = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "100", "replica.fetch.backoff.ms": "100"}


def admin_of(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))


def create(admin: AdminClient, name: str, partitions: int = 1, **configs: str) -> None:
    topic = NewTopic(name, partitions, 3, config={key.replace("_", "."): value for key, value in configs.items()})
    admin.create_topics([topic])[name].result(REACHED_S)


def leader_of(admin: AdminClient, name: str, partition: int = 0) -> int:
    return int(admin.list_topics(name, timeout=10).topics[name].partitions[partition].leader)


def read_all(cluster: EmbeddedCluster, topic: str, count: int, **settings: object) -> tuple[list[bytes], set[int]]:
    """`count` values from the beginning, and the brokers that the consumer says it fetched from."""
    brokers: set[int] = set()

    def on_stats(text: str) -> None:
        for state in json.loads(text)["topics"].get(topic, {}).get("partitions", {}).values():
            if state["fetch_state"] == "active":
                brokers.add(state["broker"])

    consumer = Consumer(
        quiet(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "statistics.interval.ms": 20,
                "stats_cb": on_stats,
                **settings,
            }
        )
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    deadline = time.monotonic() + REACHED_S
    while (len(values) < count or len(brokers) == 0) and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(100, timeout=0.2) if message.error() is None]
    for _ in range(5):
        consumer.poll(0.02)
    consumer.close()
    return values, brokers


def test_a_consumer_reads_from_the_follower_in_its_rack_and_from_the_leader_without_one() -> None:
    with EmbeddedCluster(brokers=3, config=FAST | SELECTOR, node_config=RACKS) as cluster:
        admin = admin_of(cluster)
        create(admin, "f")
        produce_numbered(cluster.bootstrap_servers, "f", 0, 50, acks="all")
        leader = leader_of(admin, "f")
        follower = leader % 3 + 1
        near, from_near = read_all(cluster, "f", 50, **{"client.rack": f"rack-{follower}"})
        anywhere, from_anywhere = read_all(cluster, "f", 50)
        assert near == anywhere and len(near) == 50
        assert follower in from_near and from_anywhere == {leader}
        sent = [cluster.call(lambda server: server.broker.replica_manager.stats.topic("f").bytes_out.count, node) for node in range(3)]
        assert {node + 1 for node, size in enumerate(sent) if size} == {leader, follower}


def test_deleted_records_are_gone_on_every_replica() -> None:
    with EmbeddedCluster(brokers=3, config=FAST) as cluster:
        admin = admin_of(cluster)
        create(admin, "d")
        produce_numbered(cluster.bootstrap_servers, "d", 0, 30, acks="all")
        deleted = admin.delete_records([TopicPartition("d", 0, 12)])
        assert [future.result(REACHED_S).low_watermark for future in deleted.values()] == [12]

        def starts(server) -> tuple[int, int]:  # type: ignore[no-untyped-def]
            log = next(log for log in server.broker.log_manager.current_logs() if log.topic_partition.topic == "d")
            return log.log_start_offset, log.log_end_offset

        assert [cluster.call(starts, node) for node in range(3)] == [(12, 30)] * 3
        follower = 2 if leader_of(admin, "d") == 2 else 1  # the first node is the controller, too
        cluster.kill_node(follower)
        wait_for("a smaller ISR", lambda: len(admin.list_topics("d", timeout=10).topics["d"].partitions[0].isrs) == 2)
        assert [future.result(REACHED_S).low_watermark for future in admin.delete_records([TopicPartition("d", 0, 20)]).values()] == [20]
        cluster.start_node(follower)
        wait_for("the follower to catch up", lambda: cluster.call(starts, follower) == (20, 30))


def test_preferred_leaders_move_back_under_load_without_a_lost_or_doubled_record() -> None:
    with EmbeddedCluster(brokers=3, config=FAST | {"min.insync.replicas": "2"}) as cluster:
        admin = admin_of(cluster)
        create(admin, "m", partitions=3)
        stop, acked = threading.Event(), []
        producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "retry.backoff.ms": 20}))

        def load() -> None:
            number = 0
            while not stop.is_set():
                for partition in range(3):
                    value = b"%d" % number
                    producer.produce(
                        "m", value, partition=partition, on_delivery=lambda error, message: acked.append((error, message.value()))
                    )
                    number += 1
                producer.poll(0.005)
            assert producer.flush(REACHED_S) == 0

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for node in (1, 2):
                cluster.stop_node(node)
                cluster.start_node(node)
                wait_for(
                    "whole ISRs", lambda: all(len(p.isrs) == 3 for p in admin.list_topics("m", timeout=10).topics["m"].partitions.values())
                )
                admin.elect_leaders(ElectionType.PREFERRED).result(REACHED_S)
                placed = admin.describe_topics(TopicCollection(["m"]))["m"].result(REACHED_S).partitions
                assert all(partition.leader.id == partition.replicas[0].id for partition in placed)
        finally:
            stop.set()
            thread.join()
        assert acked and all(error is None for error, _ in acked)
        consumer = Consumer(quiet({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}))
        consumer.assign([TopicPartition("m", partition, OFFSET_BEGINNING) for partition in range(3)])
        found: list[bytes] = []
        deadline = time.monotonic() + REACHED_S
        while len(found) < len(acked) and time.monotonic() < deadline:
            found += [message.value() for message in consumer.consume(1000, timeout=0.5) if message.error() is None]
        consumer.close()
        assert sorted(found) == sorted(value for _, value in acked)
