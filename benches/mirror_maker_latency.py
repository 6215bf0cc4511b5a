"""Latency of `connect-mirror-maker` beside Apache Kafka's: from the moment when a record is sent to
the source to the moment when a consumer at the target has it, at a steady 500 records a second.

Two brokers of ours serve for all turns. A turn is one program with a topic of its own: it copies
the topic until the first seconds (a JVM compiles then) are over, and what follows is counted. The
programs have the same properties, all of them Kafka's defaults but for replication factors and
heartbeats. Records carry the time of their sending in their value and go out one by one, without
linger, from a process of their own (`python -m benches.mirror_maker_latency BOOTSTRAP TOPIC
SECONDS`), so what is shown holds both brokers and both clients of the measurement, too.
"""

from __future__ import annotations

import os
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benches import foreign
from benches.harness import Context, Row, median, wait_until
from benches.load import create_topic, send_steadily
from benches.mirror_maker_2 import APACHES, OURS, SETTINGS, program

RECORDS_A_SECOND: Final = 500
PARTITIONS: Final = 4
STAMP: Final = struct.Struct(">d")
PAYLOAD: Final = bytes(192)
ROOT: Final = pathlib.Path(__file__).resolve().parent.parent
KEPT: Final = ("b.producer.compression.type", "a->b.topics")
"""What `mirror_maker_2` sets for its own ends."""
Latencies = list[float]


def run(context: Context) -> Iterator[Row]:
    missing = foreign.missing_kafka()
    seconds, warm_up = context.choose(3, 30), context.choose(2, 15)
    found: dict[str, list[Latencies]] = {OURS: [], APACHES: []}
    with foreign.kmirror(context.folder / "source") as source, foreign.kmirror(context.folder / "target") as target:
        servers = (source.bootstrap_servers, target.bootstrap_servers)
        for number in range(context.choose(1, 3)):
            for kind in (APACHES, OURS) if missing is None else (OURS,):
                latencies = turn(
                    kind, context.folder / f"{number}-{kind[:6].strip()}", servers, f"turn-{number}-{kind[:6].strip()}", warm_up, seconds
                )
                found[kind].append(latencies)
                context.say(f"{kind}: {described(latencies)}")
    for name, figure in (("p50", 50), ("p99", 99), ("worst", 100)):
        ours, theirs = (
            median([quantile(latencies, figure) for latencies in found[kind]]) if found[kind] else None for kind in (OURS, APACHES)
        )
        met = None if theirs is None or ours is None or name != "p99" else ours < theirs
        target_text = f"< {APACHES}" if name == "p99" else "reported"
        note = f"{RECORDS_A_SECOND} records/s, {len(found[OURS])} turns of {seconds} s"
        yield Row("mirror_maker_latency", name, ours, "ms", target_text, met, missing or APACHES, theirs, None, note)


def turn(kind: str, folder: pathlib.Path, servers: tuple[str, str], topic: str, warm_up: int, seconds: int) -> Latencies:
    """The latencies in ms of the records after the first `warm_up` seconds."""
    create_topic(servers[0], topic, PARTITIONS)
    with copying(kind, folder, servers, topic):
        consumer = Consumer({"bootstrap.servers": servers[1], "group.id": "bench", "enable.auto.commit": False, "log_level": 0,
                             "fetch.wait.max.ms": 100})  # fmt: skip
        copy = f"a.{topic}"
        wait_until(
            lambda: len((known := consumer.list_topics(timeout=30).topics.get(copy)) and known.partitions or ()) == PARTITIONS,
            f"{kind} to create {copy}",
        )
        consumer.assign([TopicPartition(copy, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        sender = subprocess.Popen(
            [sys.executable, "-m", "benches.mirror_maker_latency", servers[0], topic, str(warm_up + seconds)], cwd=ROOT
        )
        latencies = receive(consumer, (warm_up + seconds) * RECORDS_A_SECOND)
        assert sender.wait() == 0, "the producer failed"
        consumer.close()
    return latencies[warm_up * RECORDS_A_SECOND :]


@contextmanager
def copying(kind: str, folder: pathlib.Path, servers: tuple[str, str], topic: str) -> Iterator[None]:
    """The program at work; it leaves its groups at the end, so that the next one need not wait."""
    own: Mapping[str, str] = {name: value for name, value in SETTINGS.items() if name not in KEPT}
    with program(kind, folder, servers, own | {"a->b.topics": topic}) as pid:
        yield
        os.kill(pid, signal.SIGTERM)
        stat = pathlib.Path(f"/proc/{pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", f"{kind} to end")


def receive(consumer: Consumer, count: int) -> Latencies:
    """The latencies of the next `count` records, in the order of their sending."""
    stamped: list[tuple[float, float]] = []
    deadline = time.monotonic() + count / RECORDS_A_SECOND + 60
    while len(stamped) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            (sent,) = STAMP.unpack_from(message.value())
            stamped.append((sent, (time.time() - sent) * 1000))
    assert len(stamped) == count, f"{len(stamped)} of {count} records arrived"
    return [latency for _, latency in sorted(stamped)]


def quantile(latencies: Latencies, percent: int) -> float:
    return max(latencies) if percent == 100 else statistics.quantiles(latencies, n=100)[percent - 1]


def described(latencies: Latencies) -> str:
    p50, p99, worst = (quantile(latencies, percent) for percent in (50, 99, 100))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.0f} ms of {len(latencies)} records"


def stamped_value(_: int) -> bytes:
    return STAMP.pack(time.time()) + PAYLOAD


if __name__ == "__main__":
    send_steadily(sys.argv[1], sys.argv[2], int(sys.argv[3]), RECORDS_A_SECOND, stamped_value, partitions=PARTITIONS)
