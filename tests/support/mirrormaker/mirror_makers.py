"""Apache Kafka's MirrorMaker 2 and `connect-mirror-maker`, each as a process with one properties file,
and what both leave behind: topics, heartbeats, checkpoints, offset syncs, stored offsets.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kmirror.mirrormaker.connect_offsets import parse_key, parse_value
from kmirror.mirrormaker.formats import Checkpoint, OffsetSync
from support.mirrormaker.logs_compared import QUIET, read
from support.peers.peers import TOOL_JVM, _log4j, java, kafka_classpath
from support.waiting import REACHED_S

INTERNAL = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage", "config.storage")
FAST: Mapping[str, str] = {
    "replication.factor": "1",
    "offset.storage.partitions": "3",
    "consumer.poll.timeout.ms": "200",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
    "topic.creation.enable": "false",
    **{f"{name}.replication.factor": "1" for name in INTERNAL},
}
"""Settings for tests, understood alike by both programs."""

SERVICE_LOAD: Mapping[str, str] = {"plugin.discovery": "service_load"}
"""Without it each worker of Apache's looks into each jar for plugins, which takes seconds of CPU."""
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
APACHE_PROGRAM = "org.apache.kafka.connect.mirror.MirrorMaker"
OUR_PROGRAM = "kmirror.cli.connect_mirror_maker"


class MirrorMakerProcess:
    """One running program."""

    def __init__(self, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def stop(self) -> int:
        """Ends it in good order; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(REACHED_S)

    def until(self, what: str, found: Callable[[], Any]) -> Any:
        """Waits for a true answer; fails with the program's log."""
        deadline = time.monotonic() + REACHED_S
        while not (value := found()):
            assert self.process.poll() is None, f"the program ended before {what}\n{self.log[-6000:]}"
            assert time.monotonic() < deadline, f"not reached: {what}\n{self.log[-6000:]}"
            time.sleep(0.25)
        return value


def properties(flow: tuple[str, str], servers: tuple[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Returns a file's properties for one enabled flow."""
    source, target = flow
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": servers[0],
        f"{target}.bootstrap.servers": servers[1],
        f"{source}->{target}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        f"{target}->{source}.emit.heartbeats.enabled": "false",
        f"{target}.offset.flush.interval.ms": "500",
        **{f"{prefix}{name}": value for prefix in ("", f"{source}.", f"{target}.") for name, value in SERVICE_LOAD.items()},
        **FAST,
        **settings,
    }


@contextmanager
def apache_mirror_maker_2(folder: pathlib.Path, props: Mapping[str, str], *jvm: str) -> Iterator[MirrorMakerProcess]:
    options = jvm or TOOL_JVM
    command = [java(), *options, _log4j(folder, "out", "WARN"), "-cp", kafka_classpath(), APACHE_PROGRAM]
    with _running(folder, props, command) as made:
        yield made


@contextmanager
def our_mirror_maker_2(folder: pathlib.Path, props: Mapping[str, str]) -> Iterator[MirrorMakerProcess]:
    with _running(folder, props, [sys.executable, "-m", OUR_PROGRAM]) as made:
        yield made


@contextmanager
def _running(folder: pathlib.Path, props: Mapping[str, str], command: list[str]) -> Iterator[MirrorMakerProcess]:
    log = folder / "mm2.log"
    with started([*command, written(folder / "mm2.properties", props)], log) as process:
        yield MirrorMakerProcess(process, log)


def written(path: pathlib.Path, props: Mapping[str, str]) -> str:
    """Writes a properties file; returns its path as an argument."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} = {value}\n" for name, value in props.items()))
    return str(path)


@contextmanager
def started(command: list[str], log: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the block, at the latest; what it says is added to `log`."""
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# What they leave


def topics_of(servers: str) -> dict[str, int]:
    """Partition counts by topic."""
    metadata = AdminClient({"bootstrap.servers": servers, **QUIET}).list_topics(timeout=REACHED_S)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def own_configs(servers: str, topic: str) -> dict[str, str]:
    """The configs that the topic itself has."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    (future,) = admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in future.result(REACHED_S).items() if not entry.is_default}


def copied(servers: str, topic: str, partitions: int) -> dict[int, list[tuple[int, Any]]]:
    """Records by partition with their offsets; nothing yet if the topic is not there."""
    return read(servers, topic, partitions) if topics_of(servers).get(topic, 0) >= partitions else {}


def count_of(servers: str, topic: str, partitions: int) -> int:
    return sum(map(len, copied(servers, topic, partitions).values()))


def last_syncs(servers: str, topic: str) -> dict[str, tuple[int, int]]:
    """By partition of the source: upstream and downstream offset of the newest sync."""
    found = {}
    for _, row in copied(servers, topic, 1).get(0, []):
        sync = OffsetSync.deserialize_record(row.key, row.value)
        found[str(sync.topic_partition)] = (sync.upstream_offset, sync.downstream_offset)
    return found


def all_syncs(servers: str, topic: str) -> dict[str, list[tuple[int, int]]]:
    """By partition of the source: all syncs, in order."""
    found: dict[str, list[tuple[int, int]]] = {}
    for _, row in copied(servers, topic, 1).get(0, []):
        sync = OffsetSync.deserialize_record(row.key, row.value)
        found.setdefault(str(sync.topic_partition), []).append((sync.upstream_offset, sync.downstream_offset))
    return found


def last_checkpoints(servers: str, topic: str) -> dict[tuple[str, str], tuple[int, int, str]]:
    """By group and remote partition: upstream offset, downstream offset, metadata."""
    found = {}
    for _, row in copied(servers, topic, 1).get(0, []):
        one = Checkpoint.deserialize_record(row.key, row.value)
        found[one.consumer_group_id, str(one.topic_partition)] = (one.upstream_offset, one.downstream_offset, one.metadata)
    return found


def stored_offsets(servers: str, topic: str, partitions: int) -> dict[bytes, int | None]:
    """What Connect's offsets topic says last of each source partition, by key."""
    found = {}
    for records in copied(servers, topic, partitions).values():
        for _, row in records:
            assert parse_key(row.key) == row.key, f"not a key of this topic, or not in its order: {row.key!r}"
            found[row.key] = None if row.value is None else parse_value(row.value)
    return found


def commit(servers: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False, **QUIET})
    consumer.commit(offsets=[ck.TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()], asynchronous=False)
    consumer.close()


def committed(servers: str, group: str, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Committed offsets; those that there are."""
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET})
    found = consumer.committed([ck.TopicPartition(topic, number) for topic, number in partitions], REACHED_S)
    consumer.close()
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}
