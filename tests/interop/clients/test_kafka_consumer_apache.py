"""Our consumer against Apache's broker 4.3: in one group with a Java or a librdkafka member, with
each assignor and either of them leading; and read_committed beside Java's console consumer.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.apache_tools import CONSUMER, apache_tools
from support.peers.peers import KafkaPeer, apache_kafka, start_java_program
from support.waiting import REACHED_S

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parents[1] / "java" / "programs" / "GroupConsumers.java"
PACKAGE = "org.apache.kafka.clients.consumer"
PARTITIONS = 5
PROPERTIES = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "3000",
}
PROTOCOLS = {
    "RangeAssignor": {"partition.assignment.strategy": f"{PACKAGE}.RangeAssignor"},
    "RoundRobinAssignor": {"partition.assignment.strategy": f"{PACKAGE}.RoundRobinAssignor"},
    "StickyAssignor": {"partition.assignment.strategy": f"{PACKAGE}.StickyAssignor"},
    "CooperativeStickyAssignor": {"partition.assignment.strategy": f"{PACKAGE}.CooperativeStickyAssignor"},
    "consumer": {"group.protocol": "consumer"},
}
CLASSIC = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    with apache_kafka(tmp_path_factory.mktemp("apache"), properties=PROPERTIES) as running:
        yield running


def create(peer: KafkaPeer, topic: str, partitions: int) -> None:
    client = AdminClient({"bootstrap.servers": peer.bootstrap_servers})
    client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(REACHED_S)


def fill(peer: KafkaPeer, topic: str, begin: int, end: int) -> None:
    producer = ck.Producer({"bootstrap.servers": peer.bootstrap_servers})
    for number in range(begin, end):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(REACHED_S) == 0


class Ours:
    """Our member, in a thread with a loop of its own. `records`: (partition, offset)."""

    def __init__(self, peer: KafkaPeer, group: str, protocol: str) -> None:
        self.records: list[tuple[int, int]] = []
        self.owned: set[int] = set()
        self.error: BaseException | None = None
        props = {
            "bootstrap.servers": peer.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": 1000,
        }
        self._props = props | PROTOCOLS[protocol] | ({} if protocol == "consumer" else CLASSIC)
        self._stop = threading.Event()
        self._topic = group
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    async def _run(self) -> None:
        try:
            async with KafkaConsumer(AsyncioRuntime(), self._props) as consumer:
                consumer.subscribe([self._topic])
                while not self._stop.is_set():
                    self.records += [(record.partition, record.offset) for record in await consumer.poll(100)]
                    self.owned = {partition.partition for partition in consumer.assignment()}
                self.owned = set()
        except BaseException as error:
            self.error = error
            raise

    def close(self) -> None:
        self._stop.set()
        self._thread.join(REACHED_S)


class Java:
    """The Java program's member."""

    def __init__(self, peer: KafkaPeer, group: str, protocol: str, folder: pathlib.Path, stack: contextlib.ExitStack) -> None:
        self._log = folder / "java.txt"
        self._process = stack.enter_context(start_java_program(PROGRAM, peer.bootstrap_servers, group, log=self._log))
        self._say(f"open j {protocol if protocol == 'consumer' else f'classic:{PACKAGE}.{protocol}'} {group}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _lines(self, what: str) -> list[list[str]]:
        return [line.split(" ") for line in self._log.read_text().splitlines() if line.startswith(what)]

    @property
    def owned(self) -> set[int]:
        found = self._lines("assignment")
        return {int(name.rpartition("-")[2]) for name in found[-1][2].split(",") if name} if found else set()

    @property
    def records(self) -> list[tuple[int, int]]:
        return [(int(words[3]), int(words[4])) for words in self._lines("record")]

    def close(self) -> None:
        self._say("close j")
        until(lambda: self._lines("closed"), "the Java member closes")


class Librdkafka:
    """librdkafka's member, polled by the test."""

    def __init__(self, peer: KafkaPeer, group: str, protocol: str) -> None:
        names = {"RangeAssignor": "range", "RoundRobinAssignor": "roundrobin", "CooperativeStickyAssignor": "cooperative-sticky"}
        props: dict[str, object] = {"bootstrap.servers": peer.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        props |= {"group.protocol": "consumer"} if protocol == "consumer" else CLASSIC | {"partition.assignment.strategy": names[protocol]}
        self._consumer = ck.Consumer(props)
        self._consumer.subscribe([group])
        self._records: list[tuple[int, int]] = []

    def poll(self) -> None:
        message = self._consumer.poll(0.01)
        while message is not None:
            if message.error() is None:
                self._records.append((message.partition(), message.offset()))
            message = self._consumer.poll(0.01)

    @property
    def owned(self) -> set[int]:
        self.poll()
        return {one.partition for one in self._consumer.assignment()}

    @property
    def records(self) -> list[tuple[int, int]]:
        self.poll()
        return self._records

    def close(self) -> None:
        self._consumer.close()


def until(condition: Callable[[], object], what: str) -> None:
    pause = threading.Event()
    for _ in range(REACHED_S * 10):
        if condition():
            return
        pause.wait(0.1)
    raise AssertionError(f"not reached: {what}")


def share(peer: KafkaPeer, topic: str, ours: Ours, other: Java | Librdkafka) -> None:
    everything = set(range(PARTITIONS))

    def shared() -> bool:
        mine, theirs = ours.owned, other.owned
        return not mine & theirs and mine | theirs == everything and {len(mine), len(theirs)} == {2, 3}

    until(lambda: shared() or ours.error, "the partitions are split")
    assert ours.error is None
    fill(peer, topic, 0, 500)
    until(lambda: len(ours.records) + len(other.records) >= 500, "all records are read")
    assert sorted(ours.records + other.records) == sorted((partition, offset) for partition in everything for offset in range(100))
    assert ours.records and other.records


@pytest.mark.parametrize("leader", ["ours", "java"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_beside_a_java_member(peer: KafkaPeer, tmp_path: pathlib.Path, protocol: str, leader: str) -> None:
    topic = f"java-{protocol}-{leader}"
    create(peer, topic, PARTITIONS)
    with contextlib.ExitStack() as stack:
        if leader == "java":
            java = Java(peer, topic, protocol, tmp_path, stack)
            until(lambda: len(java.owned) == PARTITIONS, "the Java member owns all")
        ours = Ours(peer, topic, protocol)
        stack.callback(ours.close)
        if leader == "ours":
            until(lambda: len(ours.owned) == PARTITIONS, "our member owns all")
            java = Java(peer, topic, protocol, tmp_path, stack)
        share(peer, topic, ours, java)
        java.close()
        until(lambda: len(ours.owned) == PARTITIONS, "our member takes over")
        read = len(ours.records) + len(java.records)
        assert read == 500, "what the Java member committed does not come again"


@pytest.mark.parametrize("protocol", ["RangeAssignor", "RoundRobinAssignor", "CooperativeStickyAssignor", "consumer"])
def test_beside_a_librdkafka_member(peer: KafkaPeer, protocol: str) -> None:
    topic = f"librdkafka-{protocol}"
    create(peer, topic, PARTITIONS)
    with contextlib.ExitStack() as stack:
        ours = Ours(peer, topic, protocol)
        stack.callback(ours.close)
        until(lambda: len(ours.owned) == PARTITIONS, "our member owns all")
        other = Librdkafka(peer, topic, protocol)
        stack.callback(other.close)
        share(peer, topic, ours, other)


async def read_all(peer: KafkaPeer, topic: str, isolation: str) -> list[str]:
    props = {"bootstrap.servers": peer.bootstrap_servers, "auto.offset.reset": "earliest", "isolation.level": isolation}
    partition = TopicPartition(topic, 0)
    async with KafkaConsumer(AsyncioRuntime(), props) as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[str] = []
        while await consumer.position(partition) < end:
            values += [(record.value or b"").decode() for record in await consumer.poll(200)]
    return values


async def test_transactions_as_java_sees_them(peer: KafkaPeer, tmp_path: pathlib.Path) -> None:
    """Committed, aborted and open ones, of two producers side by side, in every codec."""
    create(peer, "transactions", 1)
    number = 0
    producers = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        settings = {"bootstrap.servers": peer.bootstrap_servers, "compression.type": codec}
        for name in ("a", "b"):
            producer = ck.Producer(settings | {"transactional.id": f"{codec}-{name}"})
            producer.init_transactions(REACHED_S)
            producers.append(producer)
    plain = ck.Producer({"bootstrap.servers": peer.bootstrap_servers})
    for turn in range(3):
        for producer in producers:
            producer.begin_transaction()
        for _ in range(2):
            for producer in [*producers, plain]:
                for _ in range(3):
                    producer.produce("transactions", f"value-{number:05}")
                    number += 1
                producer.flush(REACHED_S)
        for index, producer in enumerate(producers):
            if turn == 2 and index > 7:
                continue  # stays open
            if (index + turn) % 3 == 0:
                producer.abort_transaction(REACHED_S)
            else:
                producer.commit_transaction(REACHED_S)
    with apache_tools(tmp_path / "tools") as tools:
        for isolation in ("read_uncommitted", "read_committed"):
            options = ("--bootstrap-server", peer.bootstrap_servers, "--topic", "transactions", "--from-beginning", "--timeout-ms", "8000")
            done = tools.run(CONSUMER, *options, "--isolation-level", isolation)
            theirs = [line for line in done.out.splitlines() if line.startswith("value-")]
            ours = await read_all(peer, "transactions", isolation)
            assert ours == theirs
            assert 50 < len(ours) <= number
            assert (len(ours) == number) is (isolation == "read_uncommitted")
