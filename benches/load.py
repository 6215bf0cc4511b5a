"""librdkafka as the load: `python -m benches.load produce|consume BOOTSTRAP TOPIC PARTITIONS
RECORDS CODEC [BATCH]`, a process of its own.

produce sends RECORDS records of 1,000 bytes round robin with acks=all, in batches of up to BATCH
bytes before compression (default: librdkafka's), and ends when all are acknowledged; consume reads
RECORDS records from the beginning without a group. Failure is a non-zero exit code.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benches.data import json_records

DIFFERENT_RECORDS = 4_000
_QUIET = {"log_level": 0}


def create_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient(_QUIET | {"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    admin = AdminClient(_QUIET | {"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(30)


def produce(bootstrap_servers: str, topic: str, partitions: int, records: int, codec: str, batch_size: int | None = None) -> None:
    errors: list[Any] = []
    settings: dict[str, Any] = {
        "compression.type": codec,
        "linger.ms": 20,
        "acks": "all",
        "queue.buffering.max.kbytes": 200_000,
        "delivery.report.only.error": True,
    }
    if batch_size is not None:
        settings["batch.size"] = batch_size
    producer = Producer(_QUIET | {"bootstrap.servers": bootstrap_servers, "on_delivery": lambda error, _: errors.append(error)} | settings)
    send_all(producer, topic, partitions, records, json_records(DIFFERENT_RECORDS))
    assert not [error for error in errors if error], errors[:3]


def send_all(producer: Producer, topic: str, partitions: int, records: int, values: list[bytes]) -> None:
    """Sends `values` again and again, a hundred records to each partition in turn, until all
    `records` are acknowledged.
    """
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], partition=number // 100 % partitions)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 2_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0, "not everything was acknowledged in two minutes"


def send_steadily(
    bootstrap_servers: str, topic: str, seconds: int, records_a_second: int, value: Callable[[int], bytes], *, partitions: int = 1
) -> None:
    """Sends one record at a time, at a steady pace and without linger, round robin. `value` makes the
    value of a record from its number.
    """
    producer = Producer(_QUIET | {"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "acks": "1"})
    began = time.monotonic()
    for number in range(seconds * records_a_second):
        pause = began + number / records_a_second - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        producer.produce(topic, value(number), partition=number % partitions)
        producer.poll(0)
    assert producer.flush(30) == 0, "the source does not keep up"


def consume(bootstrap_servers: str, topic: str, partitions: int, records: int) -> None:
    consumer = Consumer(_QUIET | {"bootstrap.servers": bootstrap_servers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    seen = 0
    while seen < records:
        messages = consumer.consume(10_000, timeout=30)
        assert messages, f"{seen} of {records} records, then nothing for 30 s"
        seen += len(messages)
    consumer.close()


def main(arguments: list[str]) -> int:
    action, bootstrap_servers, topic, partitions, records, codec, *batch = arguments
    if action == "produce":
        produce(bootstrap_servers, topic, int(partitions), int(records), codec, *map(int, batch))
    else:
        consume(bootstrap_servers, topic, int(partitions), int(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
