"""Elections that lose records on purpose, and writes that must not be accepted."""

from __future__ import annotations

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrors.mirror_harness import log_bytes, produce_numbered, quiet, wait_for
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

FAST = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100", "replica.fetch.backoff.ms": "100"}


def row(admin: AdminClient, topic: str) -> tuple[int, list[int]]:
    partition = admin.list_topics(topic, timeout=10).topics[topic].partitions[0]
    return partition.leader, sorted(partition.isrs)


def test_an_unclean_election_loses_what_only_the_dead_leader_had_and_its_return_makes_the_logs_equal() -> None:
    with EmbeddedCluster(brokers=3, config=FAST) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        unclean = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        admin.create_topics([NewTopic("u", replica_assignment=[[2, 3]], num_partitions=1, config=unclean)])["u"].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "u", 0, 50, acks="all")
        cluster.kill_node(2)
        wait_for("the ISR to shrink", lambda: row(admin, "u") == (2, [2]))
        produce_numbered(cluster.bootstrap_servers, "u", 50, 20, acks="all")
        only_leader = log_bytes(cluster.log_dir(1), "u-0")
        cluster.kill_node(1)
        wait_for("the leader to be gone", lambda: row(admin, "u")[0] == -1)
        cluster.start_node(2)
        wait_for("the unclean election", lambda: row(admin, "u") == (3, [3]))
        produce_numbered(cluster.bootstrap_servers, "u", 100, 30, acks="all")
        cluster.start_node(1)
        wait_for("the old leader to follow", lambda: row(admin, "u") == (3, [2, 3]))
        wait_for("equal logs", lambda: log_bytes(cluster.log_dir(1), "u-0") == log_bytes(cluster.log_dir(2), "u-0"))
        now = log_bytes(cluster.log_dir(1), "u-0")
        assert b"v69v69" in only_leader and b"v69v69" not in now and b"v129v129" in now and b"v49v49" in now


def test_too_small_an_isr_refuses_acks_all_and_takes_acks_1() -> None:
    with EmbeddedCluster(brokers=3, config=FAST) as cluster:
        admin = AdminClient(quiet({"bootstrap.servers": cluster.bootstrap_servers}))
        admin.create_topics([NewTopic("i", replica_assignment=[[1, 2]], num_partitions=1, config={"min.insync.replicas": "2"})])[
            "i"
        ].result(REACHED_S)
        produce_numbered(cluster.bootstrap_servers, "i", 0, 10, acks="all")
        cluster.kill_node(1)
        wait_for("the ISR to shrink", lambda: row(admin, "i") == (1, [1]))
        errors: list[KafkaError | None] = []
        for acks in ("all", "1"):
            producer = Producer(quiet({"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "retries": 0}))
            producer.produce("i", b"x", on_delivery=lambda error, message: errors.append(error))
            assert producer.flush(REACHED_S) == 0
        assert errors[0] is not None and errors[0].code() == KafkaError.NOT_ENOUGH_REPLICAS and errors[1] is None
        cluster.start_node(1)
        wait_for("the ISR to grow", lambda: row(admin, "i") == (1, [1, 2]))
        produce_numbered(cluster.bootstrap_servers, "i", 10, 10, acks="all")
