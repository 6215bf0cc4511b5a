"""What a producer of ours writes for others to read: every codec, headers, nulls, large values, whole
batches, transactions with aborts; and the rows that a reader must find.
"""

from __future__ import annotations

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.runtime.api import Runtime
from support.clients.ended_transactions import wait_until_ended

BASE_TIME_MS = 1_700_000_000_000
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Timestamp, key, value, headers."""


def rows_of(codec: CompressionType) -> list[Row]:
    """The records that are written with `codec`, in order."""
    name = codec.text.encode()
    rows: list[Row] = [
        (BASE_TIME_MS, b"k", name, ()),
        (BASE_TIME_MS + 5, None, None, (("h", b"1"), ("h", None), ("empty", b""))),
        (BASE_TIME_MS - 7, b"", b"", ()),
        (BASE_TIME_MS + 9, b"big", name * 40_000, ()),
    ]
    return rows + [(BASE_TIME_MS + 10 + number, None, b"%s-%d" % (name, number), ()) for number in range(500)]


def batch_rows(codec: CompressionType) -> list[Row]:
    return [(BASE_TIME_MS + number, b"b", b"%s batch %d" % (codec.text.encode(), number), ()) for number in range(50)]


async def write_story(runtime: Runtime, bootstrap_servers: str, topic: str, codec: CompressionType) -> list[Row]:
    """Writes to partition 0 of `topic`; returns what is there then."""
    configs = {"bootstrap.servers": bootstrap_servers, "compression.type": codec.text, "batch.size": "4000", "client.id": "story"}
    async with KafkaProducer(runtime, configs) as producer:
        sent = [
            await producer.send(ProducerRecord(topic, value, key=key, headers=headers, partition=0, timestamp=timestamp))
            for timestamp, key, value, headers in rows_of(codec)
        ]
        records = [Record(number, *row[:3], list(row[3])) for number, row in enumerate(batch_rows(codec))]
        sent.append(await producer.send_batch(TopicPartition(topic, 0), bytes(build_batch(records, compression=codec))))
        await producer.flush()
        offsets = [(await one).offset for one in sent]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    return rows_of(codec) + batch_rows(codec)


async def write_transactions(runtime: Runtime, bootstrap_servers: str, topic: str) -> tuple[list[bytes], list[bytes]]:
    """Writes transactions to partition 0 of `topic`, some of them aborted: (all values, those that
    were committed).
    """
    written, committed = [], []
    configs = {"bootstrap.servers": bootstrap_servers, "transactional.id": f"tx-{topic}"}
    async with KafkaProducer(runtime, configs) as producer:
        await producer.init_transactions()
        for number in range(9):
            await producer.begin_transaction()
            values = [b"%d-%d" % (number, index) for index in range(20)]
            sent = [await producer.send(ProducerRecord(topic, value, partition=0)) for value in values]
            for one in sent:
                await one
            written += values
            if number % 3 == 1:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                committed += values
    await runtime.run_blocking(lambda: wait_until_ended(bootstrap_servers, topic))
    return written, committed
