"""A destination whose brokers keep less than the source's, and a failover before the configs came.

The source keeps records as Kafka does by default, for seven days. The destination's brokers delete
after a minute and compact, look every second, and nothing is set on the topic. Its records are two
days old and have few keys, so they would be gone at once if the destination's defaults counted.

In a round a new topic is mirrored, in one of three ways by chance: the topic fails over as soon as
its first records are there, or when it is level, or after its leader was killed. Then it fails
back. All of it happens after the cleaners of the destination have looked. The promises: both
clusters have every record that was acknowledged, from the first on, and no dry run promised less
than was dropped.
"""

from __future__ import annotations

import json
import time
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    create_mirror_by_tool,
    create_topic,
    describe,
    kafka_mirrors,
    wait_for,
)

from kmirror import EmbeddedCluster
from tools.campaigns import checks
from tools.campaigns.cluster import Cluster
from tools.campaigns.load import QUIET, Place
from tools.campaigns.run import Run

MIRROR = "fronts"
BROKERS = 2
PARTITIONS = 2
KEYS = 7
OLD_MS = 2 * 24 * 3600 * 1000
SWEEPS_S = 4.0
"""Longer than the destination's intervals of retention and cleaning, and than a sync of configs."""
SEGMENTS = {"segment.ms": "1000"}
KEEPS_LITTLE = FAST_MIRROR | {
    "log.retention.ms": "60000",
    "log.cleanup.policy": "compact,delete",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
}


def campaign(run: Run) -> None:
    with (
        EmbeddedCluster(mirroring=True, processes=True, folder=run.folder / "source", config=FAST_MIRROR) as source,
        Cluster(BROKERS, folder=run.folder / "destination", config=KEEPS_LITTLE) as destination,
    ):
        create_mirror_by_tool(run.folder, destination.bootstrap_servers, source.bootstrap_servers, MIRROR)
        create_mirror_by_tool(run.folder, source.bootstrap_servers, destination.bootstrap_servers, MIRROR)
        for number in range(run.rounds):
            run.say(f"round {number + 1}: {_Round(run, source, destination, f'front-{number}').play()}")


class _Round:
    """One topic, from its first record to its failback."""

    def __init__(self, run: Run, source: EmbeddedCluster, destination: Cluster, topic: str) -> None:
        self._run, self._destination, self._topic = run, destination, topic
        self._there, self._here = source.bootstrap_servers, destination.bootstrap_servers
        self._acknowledged: dict[Place, bytes] = {}

    def play(self) -> str:
        run, topic = self._run, self._topic
        create_topic(self._there, topic, PARTITIONS, **{key.replace(".", "_"): value for key, value in SEGMENTS.items()})
        self._write(self._there, run.chance.randint(50, 300), age_ms=OLD_MS)
        self._write(self._there, run.chance.randint(5, 20))
        kafka_mirrors(self._here, "--add", "--mirror", MIRROR, "--topic", topic)
        way = run.chance.choice(["at once", "when it was level", "after a kill"])
        wanted = self._mirrored_at_once() if way == "at once" else self._mirrored(kill=way == "after a kill")
        kafka_mirrors(self._here, "--remove", "--mirror", MIRROR, "--topic", topic)
        self._await_state(self._here, "STOPPED")
        run.count(f"failovers {way}")
        time.sleep(SWEEPS_S)
        run.promise(f"{topic} is whole after the failover", lambda: _whole(self._here, topic, wanted))
        self._fail_back(wanted)
        return f"{topic} failed over {way} with {len(wanted)} of {len(self._acknowledged)} records, and back"

    def _mirrored_at_once(self) -> dict[Place, bytes]:
        """Returns the records that are there when each partition has one."""
        rows: list[dict[str, Any]] = []

        def has_some() -> bool:
            rows[:] = [row for row in describe(self._here, MIRROR) if row["topic"] == self._topic]
            return len(rows) == PARTITIONS and all((row["destinationOffset"] or 0) > 0 for row in rows)

        wait_for(f"the first records of {self._topic}", has_some)
        ends = {row["partition"]: row["destinationOffset"] for row in rows}
        return {place: value for place, value in self._acknowledged.items() if place[2] < ends[place[1]]}

    def _mirrored(self, *, kill: bool) -> dict[Place, bytes]:
        run = self._run
        self._await_state(self._here, "MIRRORING", lag=0)
        if kill:
            victim = run.chance.randrange(BROKERS)
            self._destination.kill_node(victim)
            time.sleep(run.chance.choice([0.0, 2.0]))
            self._destination.start_node(victim)
        self._write(self._there, run.chance.randint(5, 20))
        self._await_state(self._here, "MIRRORING", lag=0)
        time.sleep(SWEEPS_S)
        run.promise("kafka-mirrors --verify", lambda: checks.mirror_verifies(self._here, MIRROR))
        run.promise(f"{self._topic} is whole while it is mirrored", lambda: _whole(self._here, self._topic, self._acknowledged))
        return dict(self._acknowledged)

    def _fail_back(self, wanted: dict[Place, bytes]) -> None:
        """The source mirrors the destination, and drops what the destination does not have."""
        run, topic = self._run, self._topic
        before = _records(self._there, topic)
        promised = self._promised()
        kafka_mirrors(self._there, "--add", "--mirror", MIRROR, "--topic", topic)
        self._await_state(self._there, "MIRRORING", lag=0)
        time.sleep(SWEEPS_S)
        gone = len(before.keys() - _records(self._there, topic).keys())
        run.count("records dropped by failbacks", gone)
        run.promise(f"the dry run told what {topic} loses", lambda: _told(promised, gone))
        run.promise(f"{topic} is whole after the failback", lambda: _whole(self._there, topic, wanted))
        kafka_mirrors(self._there, "--remove", "--mirror", MIRROR, "--topic", topic)
        self._await_state(self._there, "STOPPED")

    def _promised(self) -> int | None:
        """Returns how many records the failback's dry run says that it drops, None for not known."""
        told = kafka_mirrors(self._there, "--add", "--mirror", MIRROR, "--topic", self._topic, "--dry-run", "--json")
        counts = [row["droppedRecords"] for row in json.loads(told)]
        return None if None in counts else sum(counts)

    def _await_state(self, servers: str, state: str, *, lag: int | None = None) -> None:
        def reached() -> bool:
            rows = [row for row in describe(servers, MIRROR) if row["topic"] == self._topic]
            return len(rows) == PARTITIONS and all(row["state"] == state and lag in (None, row["lag"]) for row in rows)

        wait_for(f"{self._topic} to be {state}", reached)

    def _write(self, servers: str, count: int, *, age_ms: int = 0) -> None:
        """Writes `count` records to each partition and remembers them."""
        producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5} | QUIET)
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error)
            else:
                self._acknowledged[self._topic, message.partition(), message.offset()] = message.value()

        now_ms = int(time.time() * 1000)
        for number in range(count * PARTITIONS):
            value = f"{self._topic}-{len(self._acknowledged)}-{number}-{now_ms}"
            producer.produce(
                self._topic,
                value,
                f"k{number % KEYS}",
                partition=number % PARTITIONS,
                timestamp=now_ms - age_ms,
                on_delivery=delivered,
            )
            if number % 20 == 19:
                producer.flush()
        producer.flush()
        assert not refused, f"{self._topic} refused {len(refused)} records: {refused[0]}"


def _records(servers: str, topic: str) -> dict[Place, bytes]:
    found, _ = checks.read_all(servers, topic, PARTITIONS, isolation="read_committed")
    return {place: value for place, (_, value) in found.items()}


def _whole(servers: str, topic: str, wanted: dict[Place, bytes]) -> None:
    """Every record is at its place, those at the front as well."""
    assert wanted, f"no record of {topic} was to be there, so nothing was looked at"
    found = _records(servers, topic)
    missing = sorted(place for place, value in wanted.items() if found.get(place) != value)
    assert not missing, f"{len(missing)} of {len(wanted)} records of {topic} are gone or different: {missing[:5]}"


def _told(promised: int | None, gone: int) -> None:
    assert promised is not None, f"the dry run did not know what would be dropped; {gone} records were"
    assert promised == gone, f"the dry run said {promised} records, and {gone} were dropped"
