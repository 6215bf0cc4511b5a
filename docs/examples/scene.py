"""What the examples share: clusters, MirrorMaker 2 as the program that one would run, and what
clients of the clusters see.

Clusters have an alias, as in mm2.properties. A file refers to their addresses by environment
variables, `us-west.bootstrap.servers = ${env:US_WEST}`, which `mirror_maker` sets.

An example prints only what is the same in each run. A number behind `~` is the exception: it depends
on how fast the machine is, so a page may show another one. What an example claims it checks first,
with `check`, and it waits for everything that takes time, with `until`.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

from kmirror import EmbeddedCluster

LIMIT_S = 120
"""Ends a wait that would never end."""
BROKER = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
POLL_S = 0.1
PROGRAM = shlex.split(os.environ.get("MIRROR_MAKER", "")) or [sys.executable, "-m", "kmirror.cli.connect_mirror_maker"]
"""What runs MirrorMaker 2; another program, such as Apache Kafka's, if MIRROR_MAKER names one."""


class Record(NamedTuple):
    """What a client reads."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int

    @property
    def text(self) -> str:
        return (self.value or b"").decode()


class Cluster:
    """A cluster of one broker, and what clients do with it; `user` is who they log in as."""

    def __init__(self, alias: str, embedded: EmbeddedCluster, user: str | None = None) -> None:
        self.alias, self.embedded, self.user = alias, embedded, user
        self.admin = AdminClient(self.settings())

    @property
    def variable(self) -> str:
        """The environment variable that has its address in mm2.properties."""
        return self.alias.upper().replace("-", "_")

    @property
    def servers(self) -> str:
        return self.embedded.bootstrap_servers

    def settings(self, **more: Any) -> dict[str, Any]:
        named = {name.replace("_", "."): value for name, value in more.items()}
        return {**self.embedded.client_properties(self.user), "log_level": 0, **named}

    def make(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        done(self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]))

    def topics(self) -> dict[str, int]:
        """Topics with the number of their partitions; without Kafka's own."""
        found = self.admin.list_topics(timeout=LIMIT_S).topics
        return {name: len(found[name].partitions) for name in sorted(found) if not name.startswith("__")}

    def data_topics(self) -> list[str]:
        """Names of topics that are neither MirrorMaker's nor heartbeats."""
        return [name for name in self.topics() if not name.endswith((".internal", "heartbeats"))]

    def produce(self, topic: str, texts: Iterable[str], *, partitions: int = 1) -> None:
        """Writes the texts to the partitions in turn."""
        producer = ck.Producer(self.settings())
        for number, text in enumerate(texts):
            producer.produce(topic, text.encode(), key=b"key %d" % (number % 7), partition=number % partitions)
        check(producer.flush(LIMIT_S) == 0, f"{self.alias} took all records")

    def read(self, topic: str, *, isolation: str = "read_committed") -> list[Record]:
        """All records of a topic by partition and offset; none if there is no such topic."""
        consumer = self._consumer("reads-everything", isolation=isolation, enable_partition_eof=True)
        known = consumer.list_topics(timeout=LIMIT_S).topics.get(topic)
        partitions = len(known.partitions) if known is not None else 0
        consumer.assign([ck.TopicPartition(topic, number, ck.OFFSET_BEGINNING) for number in range(partitions)])
        found, ended, deadline = [], set(), time.monotonic() + LIMIT_S
        while len(ended) < partitions:
            check(time.monotonic() < deadline, f"{topic} can be read")
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                found.append(_record(message))
            elif message is not None and message.error().code() == ck.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        consumer.close()
        return sorted(found)

    def count(self, topic: str) -> int:
        return len(self.read(topic))

    def end(self, topic: str) -> int:
        """The end offset of partition 0; 0 if there is no such topic. A topic that grows without end
        cannot be read to its end.
        """
        if topic not in self.topics():
            return 0
        consumer = self._consumer("asks-for-offsets")
        _, end = consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), LIMIT_S)
        consumer.close()
        return end

    def consume(self, group: str, topics: str, count: int) -> list[Record]:
        """Joins the group, reads `count` records, and everything else that comes soon; commits.

        `topics` is a name, or a regular expression if it begins with `^`.
        """
        consumer = self._consumer(group)
        consumer.subscribe([topics])
        found: list[Record] = []
        deadline = time.monotonic() + LIMIT_S
        while True:
            message = consumer.poll(POLL_S if len(found) < count else 5 * POLL_S)
            if message is not None and message.error() is None:
                found.append(_record(message))
            elif message is None and len(found) >= count:
                break
            check(time.monotonic() < deadline, f"{group} reads {count} records, not {len(found)}")
        if found:
            consumer.commit(asynchronous=False)
        consumer.close()
        return found

    def commit(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        """Commits one offset for each partition."""
        consumer = self._consumer(group)
        consumer.commit(offsets=[ck.TopicPartition(topic, *pair) for pair in enumerate(offsets)], asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str, partitions: int = 1) -> list[int]:
        """The group's offset in each partition, below 0 where it has none."""
        consumer = self._consumer(group)
        found = consumer.committed([ck.TopicPartition(topic, number) for number in range(partitions)], LIMIT_S)
        consumer.close()
        return [one.offset for one in found]

    def _consumer(self, group: str, *, isolation: str = "read_committed", **more: Any) -> ck.Consumer:
        settings = self.settings(group_id=group, auto_offset_reset="earliest", fetch_wait_max_ms=20, enable_auto_commit=False, **more)
        return ck.Consumer({**settings, "isolation.level": isolation})


@contextmanager
def clusters(*aliases: str, **options: Mapping[str, Any]) -> Iterator[list[Cluster]]:
    """Starts clusters of these aliases; `options` are an EmbeddedCluster's, by alias."""
    with ExitStack() as stack:
        made = []
        for alias in aliases:
            given = dict(options.get(alias, {}))
            user = given.pop("user", None)
            embedded = EmbeddedCluster(**{**given, "config": BROKER | given.get("config", {})})
            made.append(Cluster(alias, stack.enter_context(embedded), user))
        yield made


class Program:
    """A running `connect-mirror-maker`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """Ends it in good order (SIGTERM). A Java program returns 143 then."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(LIMIT_S) in (0, 128 + signal.SIGTERM), f"connect-mirror-maker ended well\n{self.log}")

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self.process.kill()
        self.process.wait()


def environment(known: Iterable[Cluster]) -> dict[str, str]:
    """The environment of programs that read a file: it has the addresses of clusters."""
    return {**os.environ, **{cluster.variable: cluster.servers for cluster in known}}


@contextmanager
def mirror_maker(file: Path, known: Sequence[Cluster], *options: str, **variables: str) -> Iterator[Program]:
    """Runs `connect-mirror-maker FILE OPTIONS`, which finds the known clusters by their variables.

    At the end the program is stopped, unless the example has killed it.
    """
    command = [*PROGRAM, str(file), *options]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, env=environment(known) | variables, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        program = Program(process, log)
        try:
            yield program
            if process.returncode != -signal.SIGKILL:
                program.stop()
        except BaseException:
            print(program.log, file=sys.stderr)
            raise
        finally:
            program.kill()


def until(what: str, found: Callable[[], Any]) -> Any:
    """Waits for a true answer and returns it."""
    deadline = time.monotonic() + LIMIT_S
    while not (value := found()):
        check(time.monotonic() < deadline, what)
        time.sleep(POLL_S)
    return value


def check(holds: bool, what: str) -> None:
    """Ends the example if what its page claims does not hold."""
    if not holds:
        raise SystemExit(f"this does not hold: {what}")


def copied(source: Cluster, topic: str, target: Cluster, copy: str) -> list[Record]:
    """Waits until the copy has as many records as the topic, and checks that they are the same in
    each partition, in the same order; returns them.
    """
    wanted = source.read(topic)
    found: list[Record] = until(
        f"{target.alias} has the {len(wanted)} records of {copy}", lambda: len(now := target.read(copy)) >= len(wanted) and now
    )
    check(list(map(_kept, wanted)) == list(map(_kept, found)), f"{copy} has the records of {topic}, in their order")
    return found


def texts(what: str, count: int, first: int = 1) -> list[str]:
    """`order 1`, `order 2`, and so on."""
    return [f"{what} {number}" for number in range(first, first + count)]


def twice(records: Iterable[Record]) -> int:
    """How many records are there again."""
    return sum(count - 1 for count in Counter(record.value for record in records).values())


def table(*rows: Sequence[Any]) -> None:
    """Prints rows, the first of which has the headings."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def counts(*shown: Cluster) -> None:
    """Prints which topics the clusters have, with their partitions and records."""
    rows = [
        (cluster.alias, name, cluster.topics()[name], cluster.count(name))
        for cluster in shown
        for name in cluster.data_topics()
    ]  # fmt: skip
    table(("cluster", "topic", "partitions", "records"), *rows)


def done(futures: Mapping[Any, Any]) -> None:
    """Waits for what was asked of a cluster."""
    for future in futures.values():
        future.result(LIMIT_S)


def _record(message: Any) -> Record:
    return Record(message.topic(), message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1])


def _kept(record: Record) -> tuple[Any, ...]:
    return record.partition, record.key, record.value, record.timestamp
