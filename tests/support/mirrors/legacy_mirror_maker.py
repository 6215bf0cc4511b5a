"""`kafka-mirror-maker` as a child process, two clusters for it, and what came over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kmirror import EmbeddedCluster
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches
from support.mirrors.mirror_harness import call, log_bytes, wait_for
from support.tools.child_processes import hear_ctrl_c
from support.waiting import REACHED_S

ROOT = Path(__file__).resolve().parents[3]
QUICK = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0", "num.partitions": "1"}


class Seen(NamedTuple):
    """What a record is, apart from where it lies."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple


@contextmanager
def two_clusters(**config: str) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with EmbeddedCluster(config=QUICK | config) as source, EmbeddedCluster(config=QUICK | config) as target:
        yield source, target


def records_of(data: bytes) -> list[Seen]:
    def own(part) -> bytes | None:
        return None if part is None else bytes(part)

    return [
        Seen(own(record.key), own(record.value), record.timestamp, tuple((name, own(value)) for name, value in record.headers))
        for batch in iter_batches(data)
        if not batch.is_control
        for record in batch.records()
    ]


def mirrored(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> list[Seen]:
    """The records of one partition, from its log."""
    if not (cluster.log_dir() / f"{topic}-{partition}").exists():
        return []
    return records_of(log_bytes(cluster.log_dir(), f"{topic}-{partition}"))


def values(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in mirrored(cluster, topic, partition)]


def committed(bootstrap_servers: str, group: str = "mm") -> dict[TopicPartition, int]:
    found = call(bootstrap_servers, lambda admin: admin.list_consumer_group_offsets(group))
    return {partition: offset.offset for partition, offset in found.items() if offset is not None}


def wait_committed(cluster: EmbeddedCluster, expected: dict[TopicPartition, int], group: str = "mm") -> None:
    wait_for(f"{expected} to be committed", lambda: committed(cluster.bootstrap_servers, group) == expected)


class MirrorMakerChild:
    """One running `kafka-mirror-maker`; `log` is its stderr."""

    def __init__(
        self,
        folder: Path,
        source: str,
        target: str,
        *arguments: str,
        include: str = "orders",
        interval_ms: int = 200,
        consumer: Sequence[str] = (),
        producer: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_file = folder / "mirror-maker.log"
        consumer_file, producer_file = folder / "consumer.properties", folder / "producer.properties"
        settings = [f"bootstrap.servers={source}", "group.id=mm", "auto.offset.reset=earliest", "metadata.max.age.ms=500", *consumer]
        consumer_file.write_text("\n".join(settings) + "\n")
        producer_file.write_text("\n".join([f"bootstrap.servers={target}", *producer]) + "\n")
        command = [
            *(sys.executable, "-m", "kmirror.cli.mirror_maker", "--include", include, "--offset.commit.interval.ms", str(interval_ms)),
            *("--consumer.config", str(consumer_file), "--producer.config", str(producer_file), *arguments),
        ]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
        with self.log_file.open("wb") as output:
            self.process = subprocess.Popen(command, stderr=output, stdout=output, preexec_fn=hear_ctrl_c, env=environment, cwd=folder)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait_for_line(self, text: str) -> None:
        wait_for(f"{text!r} in the log", lambda: text in self.log)

    def wait_ended(self) -> int:
        return self.process.wait(REACHED_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait_ended()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(REACHED_S)


@contextmanager
def mirror_maker(folder: Path, source: EmbeddedCluster, target: EmbeddedCluster, *arguments: str, **settings) -> Iterator[MirrorMakerChild]:
    """Killed at the end if the test has not ended it."""
    child = MirrorMakerChild(folder, source.bootstrap_servers, target.bootstrap_servers, *arguments, **settings)
    try:
        yield child
    except AssertionError as error:
        raise AssertionError(f"{error}\n{child.log[-3000:]}") from error
    finally:
        child.kill()
