"""Kills a random broker of three with SIGKILL under load, again and again; then accounts for every
record.

    python tools/sigkill_campaign.py --kills 100 --seed 1 [--session-timeout-ms 9000] [--json FILE]

Three broker processes, one topic (RF 3, min.insync.replicas 2), idempotent librdkafka producers
with acks=all. In a round a random broker is killed and started again, sometimes at once and
sometimes after the others have taken over; the round ends when every ISR is complete. Two times are
measured. The first runs from the kill until every partition has acknowledged a record that was sent
after the process was dead ("writable"). The second runs from the restart (or from the end of the
dead incarnation's session, if that is later) until the broker is unfenced and until every ISR holds
it again. A session ends its timeout after the last heartbeat, which came up to a heartbeat interval
before the kill; so it is assumed to have ended by that much sooner, and no time is reported shorter
than it was. At the end every acknowledged record is read back at the offset it was acknowledged
with, and kafka-log-diff compares the three data directories. The exit code is 1 when a record is
gone, doubled or different, a log differs, or a limit of issue 4 is exceeded.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benches.harness import cpu_seconds
from kmirror import EmbeddedCluster
from kmirror.cli import log_diff

TOPIC = "campaign"
BROKERS = 3
FAST_CLIENT = {
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}
"""Measures the brokers' times, not the client's.

By default librdkafka asks for new leaders in steps that double up to a second, so a question just
before the election costs a second more (seen: writable after 2.1 s with leaders elected after
1.04).
"""
READ_TIMEOUT_S = 60


class Load:
    """Producers that send numbered records to every partition in turn.

    They remember what was acknowledged, where and when.
    """

    def __init__(self, bootstrap_servers: str, partitions: int, *, producers: int, pause_s: float) -> None:
        self.partitions = partitions
        self.acked: dict[tuple[int, int], bytes] = {}
        self.failed: list[str] = []
        self._first_ack_since: dict[int, float] = {}
        self._since = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pause_s = pause_s
        self._threads = [threading.Thread(target=self._run, args=(bootstrap_servers, number)) for number in range(producers)]
        for thread in self._threads:
            thread.start()

    def mark(self) -> None:
        """Watches from now on for acknowledgements of records that are sent from now on."""
        with self._lock:
            self._since = time.monotonic()
            self._first_ack_since = {}

    def writable_at_s(self) -> float | None:
        """Returns when the last partition acknowledged its first record since `mark` (monotonic).

        None while a partition has not.
        """
        with self._lock:
            return max(self._first_ack_since.values()) if len(self._first_ack_since) == self.partitions else None

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, bootstrap_servers: str, number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                **FAST_CLIENT,
            }
        )
        count = 0
        while not self._stop.is_set():
            for partition in range(self.partitions):
                value = b"%d-%d-%d" % (number, partition, count)
                self._send(producer, partition, value)
                count += 1
            producer.poll(0)
            time.sleep(self._pause_s)
        remaining = producer.flush(60)
        if remaining:
            self.failed.append(f"{remaining} records of producer {number} were never answered")

    def _send(self, producer: Producer, partition: int, value: bytes) -> None:
        sent = time.monotonic()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed.append(str(error))
                return
            with self._lock:
                key = (partition, message.offset())
                if key in self.acked:
                    self.failed.append(f"offset {key} was acknowledged twice: {self.acked[key]!r} and {value!r}")
                self.acked[key] = value
                if sent >= self._since:
                    self._first_ack_since.setdefault(partition, time.monotonic())

        try:
            producer.produce(TOPIC, value, partition=partition, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.05)


@dataclass
class Round:
    """One kill; times in seconds."""

    victim: int
    at_once: bool
    writable: float = 0.0
    unfenced: float = 0.0
    in_isr: float = 0.0
    cpu: float = 0.0
    """CPU seconds of the new process until it was in every ISR: what the time would be on a machine
    with nothing else to do.
    """


@dataclass
class Campaign:
    kills: int
    seed: int
    session_timeout_ms: int
    partitions: int
    producers: int
    pause_s: float
    rounds: list[Round] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def _heartbeat_interval_ms(self) -> int:
        return min(2000, self.session_timeout_ms // 10)

    def run(self, folder: Path | None) -> None:
        config = {
            "broker.session.timeout.ms": str(self.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(self._heartbeat_interval_ms),
            "min.insync.replicas": "2",
        }
        with EmbeddedCluster(brokers=BROKERS, processes=True, config=config, folder=folder) as cluster:
            self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **FAST_CLIENT})
            self._admin.create_topics([NewTopic(TOPIC, self.partitions, BROKERS)])[TOPIC].result(30)
            self._wait_whole()
            load = Load(cluster.bootstrap_servers, self.partitions, producers=self.producers, pause_s=self.pause_s)
            try:
                chance = random.Random(self.seed)
                for number in range(self.kills):
                    self._round(cluster, load, chance, number)
            finally:
                load.stop()
            self.problems += load.failed[:10]
            self._wait_whole()
            self._read_back(cluster.bootstrap_servers, load.acked)
            for node in range(BROKERS):
                cluster.stop_node(node)
            for node in range(1, BROKERS):
                with contextlib.redirect_stdout(io.StringIO()) as report:
                    code = log_diff.main([str(cluster.log_dir(0)), str(cluster.log_dir(node))])
                if code != 0:
                    self.problems.append(f"the logs of brokers 1 and {node + 1} differ:\n{report.getvalue()}")

    def _round(self, cluster: EmbeddedCluster, load: Load, chance: random.Random, number: int) -> None:
        time.sleep(chance.uniform(0.0, 0.5))
        result = Round(victim=chance.randrange(BROKERS), at_once=chance.random() < 0.5)
        killed = time.monotonic()
        cluster.kill_node(result.victim)
        load.mark()
        if not result.at_once:
            self._writable_at(load, number)
            time.sleep(chance.uniform(0.0, 0.3))
        started = time.monotonic()
        cluster.start_node(result.victim)
        unfenced = time.monotonic()
        self._wait_whole()
        in_isr = time.monotonic()
        process = cluster.nodes[result.victim].process
        assert process is not None
        result.cpu = cpu_seconds(process.pid)
        result.writable = self._writable_at(load, number) - killed
        # Until its session ends, the dead incarnation may keep the new one out.
        begin = max(started, killed + (self.session_timeout_ms - self._heartbeat_interval_ms) / 1000)
        result.unfenced = max(0.0, unfenced - begin)
        result.in_isr = max(0.0, in_isr - begin)
        self.rounds.append(result)
        print(
            f"{number + 1:3} broker {result.victim + 1} killed, started {'at once' if result.at_once else 'later':7}"
            f" writable {result.writable:.2f} s, unfenced {result.unfenced:.2f} s, in every ISR {result.in_isr:.2f} s,"
            f" {result.cpu:.2f} CPU-s, {len(load.acked)} records acknowledged",
            flush=True,
        )

    def _writable_at(self, load: Load, number: int) -> float:
        self._wait(lambda: load.writable_at_s() is not None, f"round {number}: a partition took no record")
        at = load.writable_at_s()
        assert at is not None
        return at

    def _wait(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(problem)
            time.sleep(0.02)

    def _wait_whole(self) -> None:
        def is_whole() -> bool:
            partitions = self._admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
            return len(partitions) == self.partitions and all(len(partition.isrs) == BROKERS for partition in partitions)

        self._wait(is_whole, "the ISRs did not become whole again")

    def _read_back(self, bootstrap_servers: str, acked: dict[tuple[int, int], bytes]) -> None:
        """Every acknowledged record is where it was acknowledged, and no value is there twice."""
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "campaign", "enable.auto.commit": False, **FAST_CLIENT})
        consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(self.partitions)])
        ends = {p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), timeout=10)[1] for p in range(self.partitions)}
        found: dict[tuple[int, int], bytes] = {}
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(found) < sum(ends.values()) and time.monotonic() < deadline:
            for message in consumer.consume(5000, timeout=1.0):
                if message.error() is None:
                    found[message.partition(), message.offset()] = message.value()
        consumer.close()
        lost = [key for key, value in acked.items() if found.get(key) != value]
        if lost:
            self.problems.append(f"{len(lost)} acknowledged records are gone or different, such as {sorted(lost)[:5]}")
        doubled = len(found) - len(set(found.values()))
        if doubled:
            self.problems.append(f"{doubled} records are in the log more than once")
        self.read = len(found)
        self.acknowledged = len(acked)

    def check_limits(self) -> None:
        writable_limit = self.session_timeout_ms / 1000 + 1
        for result in self.rounds:
            if result.writable > writable_limit:
                self.problems.append(f"writable only after {result.writable:.2f} s: {result}")
            if result.in_isr > 2:
                self.problems.append(f"back only after {result.in_isr:.2f} s: {result}")

    def summary(self) -> dict[str, object]:
        def of(name: str) -> dict[str, float]:
            values = [getattr(result, name) for result in self.rounds]
            return {"median_s": round(statistics.median(values), 3), "max_s": round(max(values), 3)}

        return {
            "kills": len(self.rounds),
            "seed": self.seed,
            "session_timeout_ms": self.session_timeout_ms,
            "acknowledged": self.acknowledged,
            "read": self.read,
            "writable": of("writable"),
            "unfenced": of("unfenced"),
            "in_isr": of("in_isr"),
            "restart_cpu": of("cpu"),
            "problems": self.problems,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="SIGKILL brokers under load and account for every acknowledged record")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--session-timeout-ms", type=int, default=1000, help="broker.session.timeout.ms")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--pause-ms", type=float, default=5.0, help="between two records to the same partition")
    parser.add_argument("--folder", type=Path, help="keep the data here (default: a temporary folder)")
    parser.add_argument("--no-limits", action="store_true", help="report times without holding them against the limits (busy machines)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    campaign = Campaign(
        options.kills, options.seed, options.session_timeout_ms, options.partitions, options.producers, options.pause_ms / 1000
    )
    campaign.run(options.folder)
    if not options.no_limits:
        campaign.check_limits()
    report = campaign.summary()
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 1 if campaign.problems else 0


if __name__ == "__main__":
    sys.exit(main())
