"""Java's transactional producer (transactions v2) and Kafka Streams with exactly-once v2 against
embedded clusters of three brokers.
"""

from __future__ import annotations

import pathlib
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.peers import java_program, java_tool, start_java_program
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CONFIG = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
WAIT_S = 60


@contextmanager
def three_brokers(*topics: tuple[str, int]) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, config=CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        for created in admin.create_topics([NewTopic(name, partitions, 3) for name, partitions in topics]).values():
            created.result(REACHED_S)
        yield cluster


@contextmanager
def consumer(cluster: EmbeddedCluster, topic: str, partitions: int, isolation: str) -> Iterator[ck.Consumer]:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": f"reader-{isolation}",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "topic.metadata.refresh.interval.ms": 500,
    }
    reader = ck.Consumer(settings)
    reader.assign([ck.TopicPartition(topic, partition, ck.OFFSET_BEGINNING) for partition in range(partitions)])
    try:
        yield reader
    finally:
        reader.close()


def read_to_the_end(reader: ck.Consumer, partitions: int) -> list[str]:
    values: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"no end of partitions after {values}"
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        elif message is not None and message.error().code() == ck.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    return sorted(values)


def test_java_transactional_producers_of_version_2() -> None:
    with three_brokers(("tx", 2)) as cluster:
        done = java_program(PROGRAMS / "TransactionalProducers.java", cluster.bootstrap_servers, "tx")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.split("\n")[:2] in (
            ["fenced: ProducerFencedException", "done"],
            ["fenced: InvalidProducerEpochException", "done"],
        )
        committed = ["committed-0", "committed-1", "committed-by-the-second", "committed-with-offsets"]
        with consumer(cluster, "tx", 2, "read_committed") as reader:
            assert read_to_the_end(reader, 2) == committed
        with consumer(cluster, "tx", 2, "read_uncommitted") as reader:
            assert read_to_the_end(reader, 2) == sorted([*committed, "aborted-0", "of-the-fenced-producer"]), "the zombie wrote nothing"
        group = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "java-group"})
        (offset,) = group.committed([ck.TopicPartition("tx", 1)], timeout=REACHED_S)
        group.close()
        assert offset.offset == 7, "offset 9 was aborted"
        described = java_tool(
            "org.apache.kafka.tools.TransactionsCommand",
            *("--bootstrap-server", cluster.bootstrap_servers, "describe", "--transactional-id", "java-producer"),
        )
        fields = described.stdout.splitlines()[1].split()
        assert "CompleteCommit" in fields, described.stdout + described.stderr


def test_streams_word_count_is_exact_although_a_broker_dies(tmp_path: pathlib.Path) -> None:
    """Exactly-once v2: a lost or a doubled line would show in the last count of some word."""
    words = ["alder", "birch", "cedar", "douglas", "elm", "fir"]
    expected: Counter[str] = Counter()
    chance = random.Random(7)
    with three_brokers(("lines", 3), ("counts", 2)) as cluster:
        with start_java_program(
            PROGRAMS / "WordCountEos.java",
            cluster.bootstrap_servers,
            "lines",
            "counts",
            str(tmp_path / "state"),
            log=tmp_path / "streams.log",
        ) as streams:
            producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
            counted: dict[str, int] = {}
            _send_lines(producer, words, expected, chance)
            with consumer(cluster, "counts", 2, "read_committed") as reader:
                _read_counts(reader, counted, lambda: bool(counted), streams, tmp_path / "streams.log")
                cluster.kill_node(1)
                _send_lines(producer, words, expected, chance)
                cluster.start_node(1)
                _send_lines(producer, words, expected, chance)
                _read_counts(reader, counted, lambda: counted == dict(expected), streams, tmp_path / "streams.log")
        assert counted == dict(expected)


def _send_lines(producer: ck.Producer, words: list[str], expected: Counter[str], chance: random.Random) -> None:
    for number in range(400):
        line = chance.choices(words, k=4)
        expected.update(line)
        producer.produce("lines", " ".join(line).encode(), key=str(number).encode())
    assert producer.flush(WAIT_S) == 0


def _read_counts(reader: ck.Consumer, counted: dict[str, int], is_enough, streams: subprocess.Popen[str], log: pathlib.Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_enough():
        assert time.monotonic() < deadline and streams.poll() is None, f"{counted}\n{log.read_text()[-3000:]}"
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            counted[message.key().decode()] = int(message.value())
