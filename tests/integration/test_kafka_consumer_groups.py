"""Groups of `KafkaConsumer`s on an embedded cluster, in each protocol: who owns what, what the
listener sees, and that nothing is lost and nothing comes twice while members come and go.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.clients.consumer.consumer_types import CommitFailedException, ConsumerRebalanceListener
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

CONFIG = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.assignment.interval.ms": "50",
}
CLASSIC = {"heartbeat.interval.ms": 100, "session.timeout.ms": 10_000}
PROTOCOLS = {
    "range": CLASSIC | {"partition.assignment.strategy": "range"},
    "roundrobin": CLASSIC | {"partition.assignment.strategy": "roundrobin"},
    "sticky": CLASSIC | {"partition.assignment.strategy": "sticky"},
    "cooperative-sticky": CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
REBALANCING = pytest.mark.parametrize("protocol", ["sticky", "cooperative-sticky", "consumer"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config=CONFIG) as running:
        yield running


def admin(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create(cluster: EmbeddedCluster, topic: str, partitions: int) -> None:
    client = admin(cluster)
    client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(REACHED_S)


def fill(cluster: EmbeddedCluster, topic: str, partitions: int, begin: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "message.timeout.ms": REACHED_S * 1000})
    for number in range(begin, end):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(REACHED_S) == 0


class Story(ConsumerRebalanceListener):
    """Writes down what the listener is told, and keeps what is owned."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.owned: set[TopicPartition] = set()
        self.wrong: list[str] = []

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("revoked", partitions)
        if not set(partitions) <= self.owned:
            self.wrong.append(f"revoked {partitions}, owned {self.owned}")
        self.owned -= set(partitions)

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("assigned", partitions)
        if set(partitions) & self.owned:
            self.wrong.append(f"assigned {partitions} again")
        self.owned |= set(partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lost", partitions)
        self.owned -= set(partitions)

    def _note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append((what, sorted(partition.partition for partition in partitions)))


class Member:
    """A consumer that polls in a task of its own, until `stop`."""

    def __init__(self, cluster: EmbeddedCluster, group: str, topics: list[str] | re.Pattern[str], protocol: str, **more: object) -> None:
        props: dict[str, object] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 50,
            "metadata.max.age.ms": 300,
        }
        self.consumer = KafkaConsumer(AsyncioRuntime(), props | PROTOCOLS[protocol] | {k.replace("_", "."): v for k, v in more.items()})
        self.story = Story()
        self.seen: list[int] = []
        self.error: KmirrorError | None = None
        self.frozen = False
        self._running = True
        self.consumer.subscribe(topics, self.story)
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._running:
            if self.frozen:
                await asyncio.sleep(0.05)
                continue
            try:
                records = await self.consumer.poll(100)
            except KmirrorError as error:
                self.error = error
                return
            self.seen += [int(record.value or b"-1") for record in records]

    async def stop(self) -> None:
        self._running = False
        await self._task
        await self.consumer.close()

    @property
    def owned(self) -> list[TopicPartition]:
        return sorted(self.consumer.assignment())


async def until(condition: Callable[[], object], what: str, members: Sequence[Member] = ()) -> None:
    for _ in range(REACHED_S * 20):
        for member in members:
            if member.error is not None:
                raise member.error
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not reached: {what}; {[(member.owned, member.story.calls) for member in members]}")


async def owned_by(members: Sequence[Member], topic: str, partitions: int, each: Sequence[int] | None = None) -> None:
    wanted = [TopicPartition(topic, number) for number in range(partitions)]

    def shared() -> bool:
        owned = sorted(one for member in members for one in member.owned)
        told = all(member.story.owned == set(member.owned) for member in members)
        return owned == wanted and told and (each is None or sorted(len(member.owned) for member in members) == sorted(each))

    await until(shared, f"{partitions} partitions of {topic} shared as {each}", members)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_members_share(cluster: EmbeddedCluster, protocol: str) -> None:
    topic = f"share-{protocol}"
    create(cluster, topic, 4)
    members = [Member(cluster, topic, [topic], protocol) for _ in range(2)]
    await owned_by(members, topic, 4, [2, 2])
    fill(cluster, topic, 4, 0, 400)
    await until(lambda: sum(len(member.seen) for member in members) >= 400, "all records", members)
    assert sorted(value for member in members for value in member.seen) == list(range(400))
    if protocol in ("range", "roundrobin"):
        numbers = sorted([one.partition for one in member.owned] for member in members)
        assert numbers == ([[0, 1], [2, 3]] if protocol == "range" else [[0, 2], [1, 3]])
    for member in members:
        await member.stop()
        assert member.story.wrong == []
        assert member.story.owned == set()


@REBALANCING
async def test_members_come_and_go_while_records_flow(cluster: EmbeddedCluster, protocol: str) -> None:
    """Auto commit before every revocation: nothing is lost, and nothing comes twice."""
    topic = f"flow-{protocol}"
    create(cluster, topic, 6)
    everybody = [Member(cluster, topic, [topic], protocol)]
    await owned_by(everybody, topic, 6, [6])

    async def produce() -> int:
        total = 0
        while producing:
            await asyncio.to_thread(fill, cluster, topic, 6, total, total + 60)
            total += 60
        return total

    producing = True
    producer = asyncio.create_task(produce())
    everybody.append(Member(cluster, topic, [topic], protocol))
    await owned_by(everybody, topic, 6, [3, 3])
    everybody.append(Member(cluster, topic, [topic], protocol))
    await owned_by(everybody, topic, 6, [2, 2, 2])
    await everybody[0].stop()
    await owned_by(everybody[1:], topic, 6, [3, 3])
    await everybody[2].stop()
    await owned_by(everybody[1:2], topic, 6, [6])
    producing = False
    total = await producer
    await until(lambda: len({value for member in everybody for value in member.seen}) == total, f"{total} records", everybody[1:2])
    await everybody[1].stop()
    seen = sorted(value for member in everybody for value in member.seen)
    assert seen == list(range(total)), f"{len(seen) - len(set(seen))} came twice"
    assert [member.story.wrong for member in everybody] == [[], [], []]


async def test_eager_gives_up_all_and_cooperative_only_what_moves(cluster: EmbeddedCluster) -> None:
    for protocol in ("sticky", "cooperative-sticky"):
        topic = f"revoked-{protocol}"
        create(cluster, topic, 4)
        first = Member(cluster, topic, [topic], protocol)
        await owned_by([first], topic, 4)
        second = Member(cluster, topic, [topic], protocol)
        await owned_by([first, second], topic, 4, [2, 2])
        await until(lambda first=first: [call for call in first.story.calls if call[0] == "revoked"], "a revocation")
        revoked = next(numbers for what, numbers in first.story.calls if what == "revoked")
        assert len(revoked) == (4 if protocol == "sticky" else 2)
        assert first.story.calls[0] == ("assigned", [0, 1, 2, 3])
        await first.stop()
        await second.stop()


@REBALANCING
async def test_a_partition_that_is_added_is_read(cluster: EmbeddedCluster, protocol: str) -> None:
    topic = f"grown-{protocol}"
    create(cluster, topic, 1)
    members = [Member(cluster, topic, [topic], protocol) for _ in range(2)]
    await owned_by(members, topic, 1)
    client = admin(cluster)
    client.create_partitions([NewPartitions(topic, 3)])[topic].result(REACHED_S)
    await owned_by(members, topic, 3, [1, 2])
    fill(cluster, topic, 3, 0, 30)
    await until(lambda: sorted(value for member in members for value in member.seen) == list(range(30)), "all records", members)
    for member in members:
        await member.stop()


@REBALANCING
async def test_who_does_not_poll_loses_everything_and_comes_back(cluster: EmbeddedCluster, protocol: str) -> None:
    topic = f"unpolled-{protocol}"
    create(cluster, topic, 2)
    members = [
        Member(cluster, topic, [topic], protocol, max_poll_interval_ms=3000),
        Member(cluster, topic, [topic], protocol),
    ]
    await owned_by(members, topic, 2, [1, 1])
    members[0].frozen, before = True, len(members[0].story.calls)
    await until(lambda: len(members[1].owned) == 2, "the other one takes over", members)
    with pytest.raises(CommitFailedException):
        await members[0].consumer.commit()
    members[0].frozen = False
    await owned_by(members, topic, 2, [1, 1])
    assert [what for what, numbers in members[0].story.calls[before:] if numbers].count("lost") == 1
    for member in members:
        await member.stop()


@REBALANCING
async def test_a_pattern_takes_topics_that_are_made_later(cluster: EmbeddedCluster, protocol: str) -> None:
    create(cluster, f"match-{protocol}-1", 1)
    member = Member(cluster, f"match-{protocol}", re.compile(f"match-{protocol}-[0-9]"), protocol)
    await until(lambda: len(member.owned) == 1, "the first topic", [member])
    create(cluster, f"match-{protocol}-2", 1)
    create(cluster, f"match-{protocol}-x", 1)
    await until(lambda: len(member.owned) == 2, "the second topic", [member])
    assert [one.topic for one in member.owned] == [f"match-{protocol}-1", f"match-{protocol}-2"]
    member.consumer.subscribe(re.compile(f"match-{protocol}-[2x]"), member.story)
    await until(lambda: [one.topic for one in member.owned] == [f"match-{protocol}-2", f"match-{protocol}-x"], "another pattern", [member])
    await member.consumer.unsubscribe()
    assert member.owned == []
    member.consumer.subscribe([f"match-{protocol}-1"], member.story)
    await until(lambda: [one.topic for one in member.owned] == [f"match-{protocol}-1"], "a topic after unsubscribe", [member])
    await member.stop()


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
async def test_a_static_member_comes_back_to_its_partitions(cluster: EmbeddedCluster, protocol: str) -> None:
    topic = f"static-{protocol}"
    create(cluster, topic, 4)
    members = [Member(cluster, topic, [topic], protocol, group_instance_id=f"i{number}") for number in range(2)]
    await owned_by(members, topic, 4, [2, 2])
    before = members[0].owned
    calls = len(members[1].story.calls)
    await members[0].stop()
    members[0] = Member(cluster, topic, [topic], protocol, group_instance_id="i0")
    await owned_by(members, topic, 4, [2, 2])
    assert members[0].owned == before
    assert [call for call in members[1].story.calls[calls:] if call[1]] == [], "the other one was not disturbed"
    for member in members:
        await member.stop()


async def test_two_members_of_one_instance_fence_each_other(cluster: EmbeddedCluster) -> None:
    create(cluster, "fenced", 2)
    first = Member(cluster, "fenced", ["fenced"], "range", group_instance_id="i")
    await owned_by([first], "fenced", 2)
    second = Member(cluster, "fenced", ["fenced"], "range", group_instance_id="i")
    await until(lambda: first.error, "the first one is fenced")
    assert isinstance(first.error, ApiException)
    assert first.error.error is Errors.FENCED_INSTANCE_ID
    await owned_by([second], "fenced", 2)
    await first.stop()
    await second.stop()


@REBALANCING
async def test_a_listener_that_raises_is_told_to_the_application(cluster: EmbeddedCluster, protocol: str) -> None:
    topic = f"raises-{protocol}"
    create(cluster, topic, 1)
    member = Member(cluster, topic, [topic], protocol)

    async def fail(partitions: Sequence[TopicPartition]) -> None:
        raise ValueError("mine")

    member.story.on_partitions_assigned = fail  # type: ignore[method-assign]
    await until(lambda: member.error, "the error")
    assert str(member.error) == "User rebalance callback throws an error"
    assert isinstance(member.error, KmirrorError)
    assert isinstance(member.error.__cause__, ValueError)
    assert member.owned == [TopicPartition(topic, 0)], "the assignment was taken over all the same"
    await member.stop()


@REBALANCING
async def test_the_coordinator_is_restarted(protocol: str) -> None:
    topic = f"restart-{protocol}"
    with EmbeddedCluster(config=CONFIG) as cluster:
        create(cluster, topic, 2)
        members = [Member(cluster, topic, [topic], protocol) for _ in range(2)]
        await owned_by(members, topic, 2, [1, 1])
        fill(cluster, topic, 2, 0, 50)
        await until(lambda: sum(len(member.seen) for member in members) >= 50, "the first records", members)
        await asyncio.to_thread(cluster.kill_node)
        await asyncio.to_thread(cluster.start_node)
        fill(cluster, topic, 2, 50, 100)
        await until(lambda: {value for member in members for value in member.seen} == set(range(100)), "all records", members)
        await owned_by(members, topic, 2, [1, 1])
        for member in members:
            await member.stop()
