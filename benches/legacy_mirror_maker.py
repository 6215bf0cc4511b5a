"""`kafka-mirror-maker` (KIP-3) against Apache Kafka 3.9's, each between two brokers of ours: CPU
seconds of the program per GB of records, before compression.

Both programs have the default settings, one stream, and the default handler, so each record is taken
out of its batch and put into another one. The topics are there at source and target: one partition
and ten, uncompressed and lz4 at the source (the target gets them uncompressed: it is the producer's
`compression.type` that counts). As in `mirror_maker_2`, a program copies a topic to get warm, is
stopped by SIGSTOP while the next topic is filled, and what it uses from SIGCONT to the last record
at the target counts. The programs take turns.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benches import foreign
from benches.data import RECORD_BYTES
from benches.harness import MB, Context, Row, cpu_seconds, median, run_command, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.peers import peers

VERSION: Final = "3.9.1"
WARM_UP: Final = "warm"
TOPICS: Final = {WARM_UP: (1, "none"), "one-none": (1, "none"), "one-lz4": (1, "lz4"), "ten-none": (10, "none")}
"""Partitions, and the codec at the source."""
BATCH_BYTES: Final = 100_000
OURS, APACHES = "kmirror", "Apache Kafka 3.9's"
JVM: Final = ("-Xms256M", "-Xmx1G", "-XX:+UseG1GC", "-Djava.awt.headless=true")
LOG4J: Final = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def missing() -> str | None:
    """Why Apache's program cannot be run here."""
    reason = foreign.missing_kafka()
    if reason is None and not (peers.KAFKA_JARS.parent / VERSION / ".complete").exists():
        return f"no peer: no jars of {VERSION} (python tools/kafka_jars.py --all, needs Maven)"
    return reason


@contextmanager
def program(kind: str, folder: pathlib.Path, source: str, target: str) -> Iterator[int]:
    """The program with its properties; its pid."""
    folder.mkdir(parents=True)
    consumer, producer, log4j = folder / "consumer.properties", folder / "producer.properties", folder / "log4j.properties"
    consumer.write_text(f"bootstrap.servers={source}\ngroup.id=bench\nauto.offset.reset=earliest\n")
    producer.write_text(f"bootstrap.servers={target}\n")
    log4j.write_text(LOG4J)
    command = [sys.executable, "-m", "kmirror.cli.mirror_maker"]
    if kind == APACHES:
        classpath = peers.kafka_classpath(VERSION)
        command = [peers.java(), *JVM, f"-Dlog4j.configuration=file:{log4j}", "-cp", classpath, "kafka.tools.MirrorMaker"]
    command += ["--consumer.config", str(consumer), "--producer.config", str(producer), "--include", "|".join(TOPICS)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


class Copies:
    """How much of a topic the target has."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "log_level": 0})

    def count(self, topic: str) -> int:
        partitions = [TopicPartition(topic, number) for number in range(TOPICS[topic][0])]
        try:
            return sum(self._consumer.get_watermark_offsets(one, timeout=10)[1] for one in partitions)
        except KafkaException:  # asked again
            return -1


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, (count, _) in TOPICS.items()]).values():
        future.result(30)


def fill(servers: str, topic: str, records: int) -> None:
    partitions, codec = TOPICS[topic]
    command = [sys.executable, "-m", "benches.load", "produce", servers, topic, str(partitions), str(records), codec, str(BATCH_BYTES)]
    run_command(command)


def measure(kind: str, context: Context, folder: pathlib.Path, records: int) -> dict[str, float]:
    """CPU seconds per GB of records, by topic."""
    found: dict[str, float] = {}
    with ExitStack() as stack:
        source, target = (stack.enter_context(foreign.kmirror(folder / side)) for side in ("source", "target"))
        for one in (source, target):
            create_topics(one.bootstrap_servers)
        pid = stack.enter_context(program(kind, folder / "program", source.bootstrap_servers, target.bootstrap_servers))
        copies = Copies(target.bootstrap_servers)
        fill(source.bootstrap_servers, WARM_UP, records)
        wait_until(lambda: copies.count(WARM_UP) == records, f"{kind} to copy the first topic", 300)
        for topic in TOPICS:
            if topic == WARM_UP:
                continue
            os.kill(pid, signal.SIGSTOP)
            fill(source.bootstrap_servers, topic, records)
            began, started = cpu_seconds(pid), time.monotonic()
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda topic=topic: copies.count(topic) == records, f"{kind} to copy {topic}", 300)
            used = cpu_seconds(pid) - began
            found[topic] = used / (records * RECORD_BYTES) * 1000 * MB
            context.say(f"{kind}, {topic}: {records * RECORD_BYTES / MB:.0f} MB, {used:.2f} CPU-s, {time.monotonic() - started:.1f} s")
    return found


def run(context: Context) -> Iterator[Row]:
    reason = missing()
    records = context.choose(5_000, 100_000)
    rates: dict[str, list[dict[str, float]]] = {OURS: [], APACHES: []}
    for number in range(context.choose(1, 2)):
        for kind in (OURS, APACHES) if reason is None else (OURS,):
            rates[kind].append(measure(kind, context, context.folder / f"{number}-{kind[:6].strip()}", records))
    for topic, (partitions, codec) in TOPICS.items():
        if topic == WARM_UP:
            continue
        ours = median([one[topic] for one in rates[OURS]])
        theirs = median([one[topic] for one in rates[APACHES]]) if rates[APACHES] else None
        note = "" if theirs is None else f"{ours / theirs:.2f} x"
        label = f"{partitions} partition{'s' if partitions > 1 else ''}, {codec}"
        yield Row("legacy_mirror_maker", label, ours, "CPU-s/GB", "reported", None, reason or APACHES, theirs, None, note)
