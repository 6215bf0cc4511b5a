"""Our `KafkaProducer` and `KafkaConsumer` against librdkafka (confluent_kafka): CPU seconds of the
client's process per GB, from and to one broker of ours.

Records: 1,000 bytes each, with acks=all, batches of 100 KB, CRCs checked by both consumers, no
group. Batches: ours alone can pass whole batches on (`send_batch`, `poll_batches`), as MirrorMaker
does; they are held against librdkafka's records, because it has nothing else.

Each measurement is a process of its own (`python -m benches.clients SIDE ACTION ...`), which says
what it used between its preparations and its end, with all its threads. The sides take turns, and a
ratio is the median of pairs.
"""

from __future__ import annotations

import asyncio
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from benches import foreign
from benches.data import RECORD_BYTES, json_records
from benches.harness import Context, Row, median, median_ratio
from benches.load import DIFFERENT_RECORDS, create_topic, delete_topic, send_all
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.topic_partition import TopicPartition as OurTopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run as run_loop

PARTITIONS: Final = 4
BATCH_BYTES: Final = 100_000
RECORDS_A_BATCH: Final = 90
CODECS: Final = ("none", "lz4")
RECORDS, BATCHES, LIBRDKAFKA = "records", "batches", "librdkafka"
SIDES: Final = (RECORDS, BATCHES, LIBRDKAFKA)
ACTIONS: Final = ("produce", "consume")
PRODUCING: Final[dict[str, Any]] = {"acks": "all", "linger.ms": 20, "batch.size": BATCH_BYTES}
CONSUMING: Final[dict[str, Any]] = {"auto.offset.reset": "earliest", "check.crcs": "true"}
PATIENCE_MS: Final = 30_000
ROOT: Final = pathlib.Path(__file__).resolve().parent.parent


def run(context: Context) -> Iterator[Row]:
    records, rounds = context.choose(9_000, 1_000_080), context.choose(1, 2)
    used: dict[tuple[str, str, str], list[float]] = {}
    with foreign.kmirror(context.folder / "broker") as broker:
        for codec in CODECS:
            for number in range(rounds):
                for side in SIDES:
                    topic = f"{codec}-{number}-{side}"
                    create_topic(broker.bootstrap_servers, topic, PARTITIONS)
                    for action in ACTIONS:
                        cost = measure(side, action, broker.bootstrap_servers, topic, records, codec)
                        used.setdefault((action, codec, side), []).append(cost)
                        context.say(f"{topic}, {action}: {cost:.2f} CPU-s/GB")
                    delete_topic(broker.bootstrap_servers, topic)
    for action in ACTIONS:
        for codec in CODECS:
            theirs = used[action, codec, LIBRDKAFKA]
            for side in (RECORDS, BATCHES):
                ours = used[action, codec, side]
                yield Row(
                    "clients", f"{action} {codec}, {side}", median(ours), "CPU-s/GB", "reported", None,
                    peer="librdkafka, records", peer_value=median(theirs), note=f"{median_ratio(ours, theirs):.2f} of librdkafka's",
                )  # fmt: skip


def measure(side: str, action: str, servers: str, topic: str, records: int, codec: str) -> float:
    """CPU seconds per GB of values."""
    command = [sys.executable, "-m", "benches.clients", side, action, servers, topic, str(records), codec]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, f"{' '.join(command[3:])} failed: {done.stderr[-500:]}"
    return float(done.stdout) / (records * RECORD_BYTES / 1e9)


# The measured process


def cpu_used() -> float:
    """User and system seconds of this process with all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(side: str, action: str, servers: str, topic: str, records: int, codec: str) -> float:
    values = json_records(DIFFERENT_RECORDS) if action == "produce" else []
    batches = batches_of(values, codec) if side == BATCHES else []
    began = cpu_used()
    if side == LIBRDKAFKA and action == "produce":
        produce_by_librdkafka(servers, topic, records, codec, values)
    elif side == LIBRDKAFKA:
        consume_by_librdkafka(servers, topic, records)
    else:

        async def work(runtime: Runtime) -> None:
            if action == "consume":
                await consume(runtime, servers, topic, records, by_batch=side == BATCHES)
            elif side == BATCHES:
                await produce_batches(runtime, servers, topic, records, batches)
            else:
                await produce_records(runtime, servers, topic, records, codec, values)

        run_loop(work)
    return cpu_used() - began


def batches_of(values: list[bytes], codec: str) -> list[bytes]:
    """Batches as they come from another cluster's log, of now: retention deletes older ones."""
    now_ms = int(time.time() * 1000)
    compression = next(one for one in CompressionType if one.text == codec)
    groups = [values[begin : begin + RECORDS_A_BATCH] for begin in range(0, len(values) - RECORDS_A_BATCH, RECORDS_A_BATCH)]
    return [
        bytes(build_batch([Record(offset, now_ms, None, value, []) for offset, value in enumerate(group)], compression=compression))
        for group in groups
    ]


async def produce_records(runtime: Runtime, servers: str, topic: str, records: int, codec: str, values: list[bytes]) -> None:
    errors: list[Exception] = []
    async with KafkaProducer(runtime, PRODUCING | {"bootstrap.servers": servers, "compression.type": codec}) as producer:
        for number in range(records):
            record = ProducerRecord(topic, values[number % DIFFERENT_RECORDS], partition=number // 100 % PARTITIONS)
            await producer.send(record, lambda _, error: errors.append(error) if error is not None else None)
            if number % 100 == 0:
                await asyncio.sleep(0)  # `send` waits only for memory
        await producer.flush()
    assert not errors, errors[:3]


async def produce_batches(runtime: Runtime, servers: str, topic: str, records: int, batches: list[bytes]) -> None:
    assert records % RECORDS_A_BATCH == 0, "whole batches"
    errors: list[Exception] = []
    async with KafkaProducer(runtime, PRODUCING | {"bootstrap.servers": servers}) as producer:
        for number in range(records // RECORDS_A_BATCH):
            partition = OurTopicPartition(topic, number % PARTITIONS)
            batch = batches[number % len(batches)]
            await producer.send_batch(partition, batch, lambda _, error: errors.append(error) if error is not None else None)
        await producer.flush()
    assert not errors, errors[:3]


async def consume(runtime: Runtime, servers: str, topic: str, records: int, *, by_batch: bool) -> None:
    seen = 0
    async with KafkaConsumer(runtime, CONSUMING | {"bootstrap.servers": servers, "max.poll.records": 10_000}) as consumer:
        consumer.assign([OurTopicPartition(topic, number) for number in range(PARTITIONS)])
        while seen < records:
            if by_batch:
                count = sum(one.next_offset - one.position for one in await consumer.poll_batches(PATIENCE_MS))
            else:
                count = len([record.value for record in await consumer.poll(PATIENCE_MS)])
            assert count, f"{seen} of {records} records, then nothing"
            seen += count


def produce_by_librdkafka(servers: str, topic: str, records: int, codec: str, values: list[bytes]) -> None:
    errors: list[Any] = []
    settings = PRODUCING | {"bootstrap.servers": servers, "compression.type": codec, "log_level": 0, "queue.buffering.max.kbytes": 32_768}
    producer = Producer(settings | {"delivery.report.only.error": True, "on_delivery": lambda error, _: errors.append(error)})
    send_all(producer, topic, PARTITIONS, records, values)
    assert not errors, errors[:3]


def consume_by_librdkafka(servers: str, topic: str, records: int) -> None:
    settings = CONSUMING | {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    seen = 0
    while seen < records:
        messages = [message.value() for message in consumer.consume(min(1_000, records - seen), timeout=PATIENCE_MS / 1000)]
        assert messages, f"{seen} of {records} records, then nothing"
        seen += len(messages)
    consumer.close()


if __name__ == "__main__":
    sys.stdout.write(str(main(*sys.argv[1:5], int(sys.argv[5]), sys.argv[6])))  # type: ignore[call-arg]
