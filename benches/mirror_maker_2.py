"""`connect-mirror-maker` against Apache Kafka's, each between two brokers of ours: CPU seconds of the
program per GB of source log.

Both programs copy topics that are there when they start, a topic to get warm first. Then a program
is stopped by SIGSTOP while a topic is filled by librdkafka with batches of 16 KB, and goes on by
SIGCONT; what it uses from there to the last record at the target counts. Of `unpacked` nothing can
be passed on as it is: its times are the broker's, so each record gets its own in a new batch.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benches import foreign
from benches.harness import MB, Context, Row, cpu_seconds, median, run_command, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.peers import peers

WARM_UP, ONE, TEN, UNPACKED = "warm", "one", "ten", "unpacked"
PARTITIONS = {WARM_UP: 2, ONE: 1, TEN: 10, UNPACKED: 1}
TARGETS = {ONE: 10, TEN: 10, UNPACKED: 3}
SETTINGS = {
    "clusters": "a, b", "a->b.enabled": "true", "b->a.enabled": "false", "a->b.topics": ", ".join(PARTITIONS), "tasks.max": "2",
    "replication.factor": "1", "checkpoints.topic.replication.factor": "1", "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1", "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1", "config.storage.replication.factor": "1",
    "emit.heartbeats.enabled": "false", "b->a.emit.heartbeats.enabled": "false", "b.producer.compression.type": "lz4",
}  # fmt: skip
BATCH_BYTES = 40_000
"""Before compression; some 16 KB in the log."""
OURS, APACHES = "kmirror", "Apache Kafka 4.3's"


@contextmanager
def program(kind: str, folder: pathlib.Path, servers: tuple[str, str], settings: Mapping[str, str] = SETTINGS) -> Iterator[int]:
    """The program with its properties; its pid."""
    folder.mkdir(parents=True)
    settings = {**settings, "a.bootstrap.servers": servers[0], "b.bootstrap.servers": servers[1]}
    path = folder / "mm2.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "kmirror.cli.connect_mirror_maker", str(path)]
    if kind == APACHES:
        java = [peers.java(), "-Xms256M", "-Xmx2G", "-XX:+UseG1GC", peers._log4j(folder, "out", "WARN"), "-cp", peers.kafka_classpath()]
        command = [*java, "org.apache.kafka.connect.mirror.MirrorMaker", str(path)]
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
        partitions = [TopicPartition(f"a.{topic}", number) for number in range(PARTITIONS[topic])]
        try:
            return sum(self._consumer.get_watermark_offsets(one, timeout=10)[1] for one in partitions)
        except KafkaException:  # the topic is not there yet
            return -1


def fill(servers: str, topic: str, records: int) -> None:
    run_command(
        [sys.executable, "-m", "benches.load", "produce", servers, topic, str(PARTITIONS[topic]), str(records), "lz4", str(BATCH_BYTES)]
    )


def log_size(data: pathlib.Path, topic: str) -> int:
    return sum(path.stat().st_size for number in range(PARTITIONS[topic]) for path in (data / f"{topic}-{number}").glob("*.log"))


def measure(kind: str, context: Context, folder: pathlib.Path, records: int) -> dict[str, float]:
    """CPU seconds per GB of source log, by topic."""
    found: dict[str, float] = {}
    with ExitStack() as stack:
        source, target = (stack.enter_context(foreign.kmirror(folder / side)) for side in ("source", "target"))
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers, "log_level": 0})
        times = {"message.timestamp.type": "LogAppendTime"}
        wanted = [NewTopic(name, count, 1, config=times if name == UNPACKED else {}) for name, count in PARTITIONS.items()]
        for future in admin.create_topics(wanted).values():
            future.result(30)
        servers = (source.bootstrap_servers, target.bootstrap_servers)
        pid = stack.enter_context(program(kind, folder / "program", servers))
        copies = Copies(target.bootstrap_servers)
        wait_until(lambda: all(copies.count(name) == 0 for name in PARTITIONS), f"{kind} to create its topics")
        fill(source.bootstrap_servers, WARM_UP, records)
        wait_until(lambda: copies.count(WARM_UP) == records, f"{kind} to copy the first topic")
        for topic in (ONE, TEN, UNPACKED):
            os.kill(pid, signal.SIGSTOP)
            fill(source.bootstrap_servers, topic, records)
            size = log_size(source.data, topic)
            began, started = cpu_seconds(pid), time.monotonic()
            os.kill(pid, signal.SIGCONT)
            wait_until(lambda topic=topic: copies.count(topic) == records, f"{kind} to copy {topic}", 300)
            used = cpu_seconds(pid) - began
            found[topic] = used / size * 1000 * MB
            context.say(f"{kind}, {topic}: {size / MB:.0f} MB, {used:.2f} CPU-s, {time.monotonic() - started:.1f} s")
    return found


def run(context: Context) -> Iterator[Row]:
    missing = foreign.missing_kafka()
    records = context.choose(5_000, 600_000)
    rates: Mapping[str, list[dict[str, float]]] = {OURS: [], APACHES: []}
    for number in range(context.choose(1, 2)):
        for kind in (OURS, APACHES) if missing is None else (OURS,):
            rates[kind].append(measure(kind, context, context.folder / f"{number}-{kind[:6].strip()}", records))
    for topic, factor in TARGETS.items():
        ours = median([one[topic] for one in rates[OURS]])
        theirs = median([one[topic] for one in rates[APACHES]]) if rates[APACHES] else None
        met = None if theirs is None else ours <= theirs / factor
        note = "" if theirs is None else f"1/{theirs / ours:.1f}"
        label = f"{topic}, {PARTITIONS[topic]} partition{'s' if PARTITIONS[topic] > 1 else ''}"
        yield Row("mirror_maker_2", label, ours, "CPU-s/GB", f"<= 1/{factor} of {APACHES}", met, missing or APACHES, theirs, None, note)
