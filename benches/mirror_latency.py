"""Steady-state latency of a mirror: source append to destination append, at 1,000 records a second
on loopback.

The topic's timestamps are the source's append times (message.timestamp.type=LogAppendTime), and
batches are mirrored as they are. So a consumer at the destination knows when the source appended
what it has just received; what is shown is an upper bound, for it holds the fetch of that consumer,
too, and up to a millisecond of rounding. Records go out one by one, without linger, from a process
of their own (`python -m benches.mirror_latency BOOTSTRAP SECONDS`).
"""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from benches.harness import Context, Row
from benches.load import send_steadily
from benches.mirror_source import mirrored

RECORDS_A_SECOND = 1_000
LIMIT_MS = 20
TOPIC = "latency"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(context: Context) -> Iterator[Row]:
    seconds = context.choose(3, 30)
    with mirrored(context.folder, TOPIC, 1, **{"message.timestamp.type": "LogAppendTime"}) as (source, destination):
        produce(source.bootstrap_servers, 1)
        latencies = measure(source.bootstrap_servers, destination.bootstrap_servers, seconds)
    p50, p99 = (statistics.quantiles(latencies, n=100)[index] for index in (49, 98))
    note = f"p50 {p50:.1f} ms, worst {max(latencies):.0f} ms, {len(latencies)} records"
    yield Row("mirror_latency", f"{RECORDS_A_SECOND} records/s, p99", p99, "ms", f"<= {LIMIT_MS}", p99 <= LIMIT_MS, note=note)


def measure(source: str, destination: str, seconds: int) -> list[float]:
    consumer = Consumer(
        {"bootstrap.servers": destination, "group.id": "bench", "log_level": 0, "enable.auto.commit": False, "fetch.wait.max.ms": 500}
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_END)])
    consumer.poll(2)
    sender = subprocess.Popen([sys.executable, "-m", "benches.mirror_latency", source, str(seconds)], cwd=ROOT)
    latencies: list[float] = []
    deadline = time.monotonic() + seconds + 30
    while len(latencies) < seconds * RECORDS_A_SECOND and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            latencies.append(time.time() * 1000 - message.timestamp()[1])
    assert sender.wait() == 0, "the producer failed"
    consumer.close()
    assert len(latencies) == seconds * RECORDS_A_SECOND, f"{len(latencies)} records arrived"
    return latencies


def produce(bootstrap_servers: str, seconds: int) -> None:
    """A record every millisecond."""
    send_steadily(bootstrap_servers, TOPIC, seconds, RECORDS_A_SECOND, lambda number: b"%d" % number * 20)


if __name__ == "__main__":
    produce(sys.argv[1], int(sys.argv[2]))
