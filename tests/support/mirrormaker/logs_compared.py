"""What MirrorMaker's source and target hold, read by a foreign client, and producers of all that a
topic can hold.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from support.clients.ended_transactions import wait_until_ended
from support.waiting import REACHED_S

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EPOCH_MS = int(time.time()) * 1000 - 3_600_000
"""An hour ago: retention leaves such records alone."""
QUIET = {"log_level": 0}


class Row(NamedTuple):
    """What a copied record keeps."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def make_topics(servers: str, topics: dict[str, int], config: dict[str, str] | None = None, **settings: Any) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **QUIET, **settings})
    for future in admin.create_topics([NewTopic(name, count, 1, config=config or {}) for name, count in topics.items()]).values():
        future.result(REACHED_S)


def produce(
    servers: str, topic: str, count: int, *, partitions: int = 1, first: int = 0, codec: str = "none", keyed: bool = False, **settings: Any
) -> None:
    """Records with and without keys, values and headers; with `keyed`, all have a key. Batches have seven,
    however slow the machine is, for the last ones of each partition alone are sent by the flush.
    """
    refused: list[Any] = []
    full = {"batch.num.messages": 7, "linger.ms": 60_000}
    producer = ck.Producer({"bootstrap.servers": servers, "compression.type": codec, **full, **QUIET, **settings})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 and not keyed else b"k%d" % (number % 11),
            value=None if number % 7 == 3 else b"v%d-%s" % (number, b"x" * (number % 50)),
            headers=[("n", b"%d" % number), ("empty", b""), ("null", None), ("n", b"again")] if number % 3 else None,
            partition=number % partitions,
            timestamp=EPOCH_MS + 10 * number,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(REACHED_S) == 0
    assert not refused, refused


def produce_transactions(servers: str, topic: str, count: int) -> None:
    """Transactions of five records each; every third is aborted."""
    producer = ck.Producer({"bootstrap.servers": servers, "transactional.id": f"tx-{topic}", "compression.type": "lz4", **QUIET})
    producer.init_transactions(REACHED_S)
    for turn in range(count):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, b"%s-%d-%d" % (b"aborted" if turn % 3 == 1 else b"committed", turn, number), timestamp=EPOCH_MS + turn)
        producer.flush(REACHED_S)
        if turn % 3 == 1:
            producer.abort_transaction(REACHED_S)
        else:
            producer.commit_transaction(REACHED_S)
    wait_until_ended(servers, topic)


def read(
    servers: str, topic: str, partitions: int = 1, *, isolation: str = "read_uncommitted", **settings: Any
) -> dict[int, list[tuple[int, Row]]]:
    """All records of a topic by partition, with their offsets. `settings` are the consumer's."""
    return read_topics(servers, {topic: partitions}, isolation=isolation, **settings)[topic]


def read_topics(
    servers: str, topics: Mapping[str, int], *, isolation: str = "read_uncommitted", **settings: Any
) -> dict[str, dict[int, list[tuple[int, Row]]]]:
    """The same of several topics, whose counts of partitions are given, by one consumer."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reads-logs",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": isolation,
            **QUIET,
            **settings,
        }
    )
    found: dict[str, dict[int, list[tuple[int, Row]]]] = {topic: {number: [] for number in range(count)} for topic, count in topics.items()}
    assigned = [(topic, number) for topic, count in topics.items() for number in range(count)]
    consumer.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING) for topic, number in assigned])
    ended: set[tuple[str, int]] = set()
    deadline = time.monotonic() + REACHED_S
    while len(ended) < len(assigned):
        assert time.monotonic() < deadline, f"{sorted({*assigned} - ended)} cannot be read"
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            assert error.code() == ck.KafkaError._PARTITION_EOF, error
            ended.add((message.topic(), message.partition()))
            continue
        headers = tuple(message.headers() or ())
        row = Row(message.partition(), message.key(), message.value(), headers, message.timestamp()[1])
        found[message.topic()][message.partition()].append((message.offset(), row))
    consumer.close()
    return found


def rows(read_records: dict[int, list[tuple[int, Row]]]) -> dict[int, list[Row]]:
    return {partition: [row for _, row in records] for partition, records in read_records.items()}


async def until_copied(
    source: str, topic: str, target: str, remote: str, partitions: int = 1, *, isolation: str = "read_uncommitted"
) -> dict[int, list[tuple[int, Row]]]:
    """Waits until the target has as many records as the source; returns the target's, which are
    compared with the source's in full.
    """
    wanted = rows(await asyncio.to_thread(read, source, topic, partitions, isolation=isolation))
    count = sum(len(records) for records in wanted.values())
    deadline = time.monotonic() + REACHED_S
    while True:
        found = await asyncio.to_thread(read, target, remote, partitions)
        if sum(len(records) for records in found.values()) >= count:
            break
        assert time.monotonic() < deadline, f"{remote} has {sum(map(len, found.values()))} of {count} records"
        await asyncio.sleep(0.2)
    copied = rows(found)
    assert copied == wanted, _difference(copied, wanted)
    return found


def _difference(copied: dict[int, list[Row]], wanted: dict[int, list[Row]]) -> str:
    said = []
    for partition, expected in wanted.items():
        lost, more = Counter(expected), Counter(copied[partition])
        again = more - lost
        said.append(f"partition {partition}: {(lost - more).total()} of {len(expected)} are lost, {again.total()} came again or changed")
        said += [f"    {row}" for row in list(again)[:3]]
    return "\n".join([*said, "what is neither is in another order"])


def is_dense(read_records: dict[int, list[tuple[int, Row]]]) -> bool:
    """Whether offsets begin at 0 and have no gaps."""
    return all([offset for offset, _ in records] == list(range(len(records))) for records in read_records.values())
