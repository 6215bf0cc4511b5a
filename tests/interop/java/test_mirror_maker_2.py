"""Kafka Connect with MirrorMaker 2 (dedicated, exactly-once source tasks) between two clusters of
ours.

Connect keeps its configs, offsets and status in compacted topics of the destination and elects its
leader by a group of its own protocol; with exactly-once, tasks write in transactions and fence each
other by their transactional ids. So it asks a broker for more than most clients. What must arrive:
every record of a topic with key, value and headers, its partition count, and a group's offsets.
"""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.peers import _log4j, java, kafka_classpath
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

RECORDS = 600
PARTITIONS = 3
WAIT_S = 120
INTERNAL = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage", "config.storage")
SETTINGS = {
    "clusters": "a, b",
    "a->b.enabled": "true",
    "a->b.topics": "orders",
    "a->b.groups": "shop",
    "b->a.enabled": "false",
    "b.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
    "replication.factor": "1",
    "a->b.emit.checkpoints.interval.seconds": "1",
    "a->b.sync.group.offsets.enabled": "true",
    "a->b.sync.group.offsets.interval.seconds": "1",
    "a->b.offset.lag.max": "0",
    "a->b.refresh.topics.interval.seconds": "2",
    "a->b.refresh.groups.interval.seconds": "2",
    "offset.flush.interval.ms": "1000",
    **{f"{name}.replication.factor": "1" for name in INTERNAL},
}


@contextmanager
def mirror_maker_2(folder: pathlib.Path, source: str, destination: str) -> Iterator[Callable[[], str]]:
    """The program while it runs; what is yielded gives its log."""
    settings = {**SETTINGS, "a.bootstrap.servers": source, "b.bootstrap.servers": destination}
    (folder / "mm2.properties").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    command = [java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", _log4j(folder, "out", "WARN"), "-cp", kafka_classpath()]
    log = folder / "mm2.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(folder / "mm2.properties")],
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield log.read_text
    finally:
        process.kill()
        process.wait()


def read(bootstrap: str, topic: str, count: int, log: Callable[[], str]) -> list[ck.Message]:
    """That many committed records; fails with the program's log when they do not come."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "auto.offset.reset": "earliest"})
    consumer.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    assert len(found) == count, f"{len(found)} records arrived\n{log()[-4000:]}"
    return found


def write(bootstrap: str, first: int, count: int) -> None:
    producer = ck.Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    for number in range(first, first + count):
        producer.produce(
            "orders", key=f"k{number}", value=f"v{number}", partition=number % PARTITIONS, headers=[("n", str(number).encode())]
        )
    assert producer.flush(REACHED_S) == 0


def consume_some(bootstrap: str, count: int) -> dict[int, int]:
    """The group `shop` reads that many records and commits; offsets by partition."""
    consumer = ck.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "shop", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    seen = 0
    while seen < count:
        message = consumer.poll(10)
        assert message is not None and message.error() is None, message and message.error()
        seen += 1
    committed = {partition.partition: partition.offset for partition in consumer.commit(asynchronous=False)}
    consumer.close()
    return committed


def test_mirror_maker_2_mirrors_records_and_offsets_exactly_once(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster() as a, EmbeddedCluster() as b:
        admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
        admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result(REACHED_S)
        write(a.bootstrap_servers, 0, RECORDS)
        with mirror_maker_2(tmp_path, a.bootstrap_servers, b.bootstrap_servers) as log:
            arrived = [(m.partition(), m.key(), m.value(), m.headers()) for m in read(b.bootstrap_servers, "a.orders", RECORDS, log)]
            expected = [(n % PARTITIONS, f"k{n}".encode(), f"v{n}".encode(), [("n", str(n).encode())]) for n in range(RECORDS)]
            assert sorted(arrived, key=lambda row: int(row[1][1:])) == expected
            write(a.bootstrap_servers, RECORDS, RECORDS)
            mirrored = read(b.bootstrap_servers, "a.orders", 2 * RECORDS, log)
            committed = consume_some(a.bootstrap_servers, RECORDS)
            translated = _synced_offsets(b.bootstrap_servers, log)
    for message in mirrored:
        if message.offset() < translated.get(message.partition(), 0):
            number = int(message.key()[1:])
            assert number // PARTITIONS < committed[message.partition()], "the translated offset skips a record that the group has not read"


def _synced_offsets(bootstrap: str, log: Callable[[], str]) -> dict[int, int]:
    """Offsets of `shop` at the destination once MirrorMaker 2 has written some."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "shop"})
    deadline = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            wanted = [ck.TopicPartition("a.orders", number) for number in range(PARTITIONS)]
            found = {
                partition.partition: partition.offset for partition in consumer.committed(wanted, timeout=REACHED_S) if partition.offset > 0
            }
            if found:
                return found
            time.sleep(0.5)
    finally:
        consumer.close()
    raise AssertionError(f"no offsets were synced\n{log()[-4000:]}")
