"""Producers of a scripted cluster, numbered records and batches for them, and what became of each."""

from __future__ import annotations

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch

P0 = TopicPartition("t", 0)


def producer_of(cluster, **settings):
    """A producer whose bootstrap servers are all brokers of the cluster."""

    async def made():
        return KafkaProducer(cluster.runtime, cluster.props(*cluster.named, **settings))

    return cluster.run(made())


async def send_all(producer, count, *, partition=0, start=0, topic="t"):
    return [await producer.send(ProducerRecord(topic, b"%06d" % number, partition=partition)) for number in range(start, start + count)]


def expected(count, start=0):
    """The values that `send_all` sends."""
    return [b"%06d" % number for number in range(start, start + count)]


async def outcomes(sent):
    """For each record its metadata, or the error that it failed with."""
    found = []
    for future in sent:
        try:
            found.append(await future)
        except ApiException as error:
            found.append(error.error)
    return found


async def offsets_or_errors(sent):
    return [getattr(outcome, "offset", outcome) for outcome in await outcomes(sent)]


def batch_of(count, *, codec=CompressionType.NONE, start=0, **options):
    records = [Record(number, 1000 + number, b"k", b"%06d" % (start + number), []) for number in range(count)]
    return build_batch(records, compression=codec, **options)


def run_of(*counts, start=0, **options):
    """Batches of so many records each."""
    batches = []
    for count in counts:
        batches.append(RecordBatch(bytes(batch_of(count, start=start, **options))))
        start += count
    return batches
