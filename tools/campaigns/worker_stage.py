"""The setting of the campaign of MirrorMaker's workers: two clusters of three broker processes each, load
at the source, and three `connect-mirror-maker` processes that share the flow A->B.

Sessions of workers and brokers have Kafka's defaults. All topics have three replicas, and two must
have a record before it counts, so that what was acknowledged outlives each broker. There is one task a
partition. A group at the source commits offsets behind what the load has written, as its members would,
and the checkpoints of the flow translate them.

`owners` says which worker copies which partition now, as the workers' metrics do: whose count of
acknowledged records grows.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ConsumedPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrormaker.mirror_makers import INTERNAL, MirrorMakerProcess, our_mirror_maker_2, properties, topics_of
from support.mirrors.mirror_harness import wait_for

from tools.campaigns import checks
from tools.campaigns.cluster import Cluster
from tools.campaigns.copies import Arrivals, Partition
from tools.campaigns.load import QUIET, Load
from tools.campaigns.run import Run

BROKERS: Final = 3
WORKERS: Final = 3
PARTITIONS: Final = 3
TOPICS: Final = ("plain", "txn")
REMOTES: Final = {f"A.{topic}": topic for topic in TOPICS}
GROUP: Final = "moves"
SESSION_S: Final = 10
"""session.timeout.ms of workers, the default."""
LIMIT_S: Final = 300
ASKED_LIMIT_S: Final = 10
BROKER: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
}
_PORT = re.compile(r"Metrics and health are served on port (\d+)")


class CommittingGroup:
    """Runs from the first line on. `committed` is what the source has acknowledged last."""

    def __init__(self, bootstrap_servers: str, load: Load, chance: random.Random) -> None:
        self._load, self._chance = load, chance
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False} | QUIET)
        self.committed: dict[Partition, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._commit)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _commit(self) -> None:
        """Behind each partition's newest record, or some before it."""
        while not self._ended.wait(2):
            newest: dict[Partition, int] = {}
            for topic, number, offset in list(self._load.acknowledged):
                newest[topic, number] = max(offset, newest.get((topic, number), 0))
            offsets = {of: max(self.committed.get(of, 0), offset + 1 - self._chance.randrange(40)) for of, offset in newest.items()}
            rows = [ConsumedPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
            with contextlib.suppress(KafkaException):  # the cluster is away: the next one
                self._consumer.commit(offsets=rows, asynchronous=False)
                self.committed |= offsets


@dataclass
class Stage:
    """`workers` are those that live; `gone` are those that were killed."""

    run: Run
    a: Cluster
    b: Cluster
    load: Load
    group: CommittingGroup
    arrivals: Arrivals
    workers: list[MirrorMakerProcess]
    gone: list[MirrorMakerProcess]
    start_worker: Callable[[], MirrorMakerProcess]

    def replace(self, victim: int) -> None:
        """Starts another worker in place of one that was killed."""
        self.gone.append(self.workers[victim])
        self.workers[victim] = self.start_worker()

    @contextmanager
    def stalled_worker(self, victim: int) -> Iterator[None]:
        process = self.workers[victim].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def owners(self, pause_s: float = 1.5) -> dict[Partition, int]:
        """By partition of the source: the worker that copies it; those without one are left out."""
        before = [_counts(worker) for worker in self.workers]
        time.sleep(pause_s)
        after = [_counts(worker) for worker in self.workers]
        return {
            partition: number
            for number, (old, new) in enumerate(zip(before, after, strict=True))
            for partition, count in new.items()
            if count > old.get(partition, 0)
        }


def _counts(worker: MirrorMakerProcess) -> dict[Partition, float]:
    """Records that a worker has copied, by partition of the source; nothing of a worker that begins."""
    ports = _PORT.findall(worker.log)
    if not ports:
        return {}
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/metrics.json", timeout=10) as answer:
            beans: dict[str, dict[str, float]] = json.load(answer)
    except OSError:
        return {}
    counts = {}
    for name, attributes in beans.items():
        tags = dict(tag.split("=") for tag in name.partition(":")[2].split(","))
        if tags["type"] == "MirrorSourceConnector":
            counts[REMOTES[tags["topic"]], int(tags["partition"])] = attributes["record-count"]
    return counts


def leader(cluster: Cluster, topic: str, partition: int) -> int:
    """Returns the index of the broker that leads a partition; -1 if nobody does, or nobody can tell."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers} | QUIET)
    numbers: list[int] = []

    def found() -> bool:
        numbers[:] = [admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader]
        return numbers[0] > 0

    return numbers[0] - 1 if checks.until(found, ASKED_LIMIT_S) else -1


def _create_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers} | QUIET)
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, len(cluster.nodes)) for topic in TOPICS]).values():
        future.result(60)
    checks.everybody_in_sync(cluster.bootstrap_servers)


def worker_properties(a: Cluster, b: Cluster, settings: Mapping[str, str], *, exactly_once: bool) -> dict[str, str]:
    replicas = str(len(a.nodes))
    factors = {f"{name}.replication.factor": replicas for name in INTERNAL}
    exact = {"B.exactly.once.source.support": "enabled"} if exactly_once else {}
    return properties(
        ("A", "B"),
        (a.bootstrap_servers, b.bootstrap_servers),
        {
            "tasks.max": str(PARTITIONS * len(TOPICS)),
            "replication.factor": replicas,
            "topics": ",".join(TOPICS),
            "groups": GROUP,
            "A.consumer.isolation.level": "read_committed",
            "kmirror.http.listener": "127.0.0.1:0",
            **factors,
            **exact,
            **settings,
        },
    )


@contextmanager
def shared_flow(
    run: Run,
    *,
    exactly_once: bool,
    brokers: int = BROKERS,
    workers: int = WORKERS,
    combined: bool = False,
    config: Mapping[str, str] = BROKER,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Stage]:
    """The stage: all partitions are copied when the block begins. `config` is that of the brokers, and
    `settings` are the workers'. `combined`: broker 1 of each cluster is its controller.
    """
    with ExitStack() as stack:
        a, b = (stack.enter_context(Cluster(brokers, folder=run.folder / name, combined=combined, config=config)) for name in "AB")
        _create_topics(a)
        props = worker_properties(a, b, settings or {}, exactly_once=exactly_once)
        started = 0

        def start_worker() -> MirrorMakerProcess:
            nonlocal started
            started += 1
            return stack.enter_context(our_mirror_maker_2(run.folder / f"worker-{started}", props))

        living = [start_worker() for _ in range(workers)]
        load = Load(a.bootstrap_servers, TOPICS[:1], PARTITIONS, seed=run.seed, transactional=TOPICS[1:])
        stack.callback(load.end)
        wait_for("the remote topics are made", lambda: set(REMOTES) <= set(topics_of(b.bootstrap_servers)))
        arrivals = Arrivals(b.bootstrap_servers, REMOTES, PARTITIONS)
        stack.callback(arrivals.end)
        group = CommittingGroup(a.bootstrap_servers, load, random.Random(run.seed))
        stack.callback(group.end)
        arrivals.wait_for(dict(load.acknowledged), LIMIT_S)
        yield Stage(run, a, b, load, group, arrivals, living, [], start_worker)
