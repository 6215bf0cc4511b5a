"""librdkafka's groups on three brokers: KIP-848 and classic cooperative members, patterns, static
members, a coordinator that dies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import partition_for

CONFIG = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "100",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
}
WAIT_S = 40
CONTROLLER = 1
"""The node that is the controller, too: it must live for others to take over."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create_and_fill(cluster: EmbeddedCluster, admin: AdminClient, topic: str, partitions: int, records: int = 0) -> None:
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(REACHED_S)
    fill(cluster, topic, partitions, records)


def fill(cluster: EmbeddedCluster, topic: str, partitions: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(REACHED_S) == 0


def member(cluster: EmbeddedCluster, group: str, topics: list[str], protocol: str = "consumer", **settings: object) -> Consumer:
    classic = {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 200, "session.timeout.ms": 6_000}
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            **(classic if protocol == "classic" else {}),
            **settings,
        }
    )
    consumer.subscribe(topics)
    return consumer


def poll_until(condition: Callable[[], bool], *consumers: Consumer, into: list[tuple[int, int]] | None = None) -> None:
    """Poll all of them until then; `into` gets partitions and offsets of what is read."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None and into is not None:
                into.append((message.partition(), message.offset()))
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]


def sizes(*consumers: Consumer) -> list[int]:
    return [len(consumer.assignment()) for consumer in consumers]


def shared(total: int, *consumers: Consumer) -> bool:
    assigned = [(each.topic, each.partition) for consumer in consumers for each in consumer.assignment()]
    return len(assigned) == len(set(assigned)) == total and all(sizes(*consumers))


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_members_come_and_go(cluster, admin, protocol: str) -> None:
    topic = f"members-{protocol}"
    create_and_fill(cluster, admin, topic, 4, 40)
    first = member(cluster, topic, [topic], protocol)
    read: list[tuple[int, int]] = []
    poll_until(lambda: len(read) == 40, first, into=read)
    first.commit(asynchronous=False)
    second = member(cluster, topic, [topic], protocol)
    poll_until(lambda: sizes(first, second) == [2, 2] and shared(4, first, second), first, second)
    described = admin.describe_consumer_groups([topic])[topic].result(REACHED_S)
    assert described.state is ConsumerGroupState.STABLE and len(described.members) == 2
    first.close()
    poll_until(lambda: sizes(second) == [4], second)
    committed = second.committed([TopicPartition(topic, partition) for partition in range(4)], timeout=REACHED_S)
    assert [each.offset for each in committed] == [10, 10, 10, 10]
    second.close()


def test_a_pattern_names_its_topics(cluster, admin) -> None:
    create_and_fill(cluster, admin, "pattern-1", 1)
    create_and_fill(cluster, admin, "pattern-2", 2)
    consumer = member(cluster, "patterns", ["^pattern-.*"])
    poll_until(lambda: sizes(consumer) == [3], consumer)
    consumer.close()


def test_a_static_member_comes_back_to_its_partitions(cluster, admin) -> None:
    create_and_fill(cluster, admin, "static", 4)
    first, second = (member(cluster, "static", ["static"], **{"group.instance.id": name}) for name in "ab")
    poll_until(lambda: sizes(first, second) == [2, 2], first, second)
    kept = {each.partition for each in first.assignment()}
    first.close()
    again = member(cluster, "static", ["static"], **{"group.instance.id": "a"})
    poll_until(lambda: sizes(again) == [2], again, second)
    assert {each.partition for each in again.assignment()} == kept and sizes(second) == [2]
    again.close()
    second.close()


def test_a_groups_config_is_told_to_its_members_and_bounded_by_the_brokers(cluster, admin) -> None:
    entry = ConfigEntry("consumer.heartbeat.interval.ms", "99", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, "bounded", incremental_configs=[entry])
    with pytest.raises(Exception, match="consumer.heartbeat.interval.ms must be greater than or equal to group.consumer.min"):
        admin.incremental_alter_configs([resource])[resource].result(REACHED_S)


def committed_in(consumer: Consumer, topic: str, partitions: int) -> list[int]:
    """Offsets of the consumer's group; none while nobody answers for it.

    (librdkafka's admin client can crash on such a timeout.)
    """
    try:
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(partitions)], timeout=5)
    except KafkaException:
        return []
    return [each.offset for each in found]


def test_a_group_goes_on_when_its_coordinator_is_killed(admin, cluster) -> None:
    """The offsets and the members are where the next coordinator reads them."""
    create_and_fill(cluster, admin, "surviving", 3, 30)
    admin.describe_consumer_groups(["s1"])["s1"].result(REACHED_S)  # the topic of groups comes with the first question for one
    leaders = admin.list_topics("__consumer_offsets", timeout=20).topics["__consumer_offsets"].partitions
    coordinators = {name: leaders[partition_for(name, len(leaders))].leader for name in ("s1", "s2", "s3", "s4", "s5", "s6")}
    group, coordinator = next((name, leader) for name, leader in coordinators.items() if leader != CONTROLLER)
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 200}
    first, second = (member(cluster, group, ["surviving"], **settings) for _ in range(2))
    poll_until(lambda: shared(3, first, second) and committed_in(first, "surviving", 3) == [10, 10, 10], first, second)
    cluster.kill_node(coordinator - 1)
    try:
        seen: list[list[int]] = []

        def has_gone_on() -> bool:
            seen.append(committed_in(second, "surviving", 3))
            return seen[-1] == [20, 20, 20] and shared(3, first, second)

        poll_until(lambda: bool(committed_in(second, "surviving", 3)), first, second)
        fill(cluster, "surviving", 3, 30)
        poll_until(has_gone_on, first, second)
        assert all(offset >= 10 for offsets in seen for offset in offsets), seen
    finally:
        cluster.start_node(coordinator - 1)
    first.close()
    second.close()
