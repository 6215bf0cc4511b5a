"""Two thousand idle connections and five hundred busy ones, each with ten small produces a second:
how long an answer takes.

The broker is a process of its own (`EmbeddedCluster(1, processes=True)`), the load another one.
Each produce is one record of 100 bytes with acks=all, into one of ten partitions. Beside it: the
broker's CPU for a produce, and how many a second one core would take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient, NewTopic

from benches.harness import Context, Row, cpu_seconds
from kmirror import EmbeddedCluster

TOPIC, PARTITIONS = "busy", 10
IDLE, BUSY, RATE = 2000, 500, 10
LIMIT_MS = 50


def run(context: Context) -> Iterator[Row]:
    idle, busy, seconds = context.choose(200, IDLE), context.choose(50, BUSY), context.choose(3, 15)
    with EmbeddedCluster(1, processes=True, folder=context.folder / "cluster") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        node = cluster.nodes[0]
        assert node.process is not None
        before = cpu_seconds(node.process.pid)
        command = [sys.executable, "-m", "benches.connection_load", *map(str, (node.port, TOPIC, PARTITIONS, idle, busy, RATE, seconds))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        assert done.returncode == 0, done.stderr[-500:]
        used = cpu_seconds(node.process.pid) - before
    answer = json.loads(done.stdout)
    latencies = answer["latencies_ms"]
    wanted = int(busy * RATE * seconds)
    assert latencies, "no produce was answered"
    total = busy * RATE * (seconds + 2)
    p99 = latencies[int(len(latencies) * 0.99)]
    what = f"{idle} idle, {busy} busy connections, {busy * RATE} produces/s"
    note = f"p50 {latencies[len(latencies) // 2]:.1f} ms, max {latencies[-1]:.0f} ms; {len(latencies)} of {wanted} answered in time"
    met = p99 < LIMIT_MS and answer["unanswered"] == 0
    yield Row("connections", f"{what}: p99", p99, "ms", f"< {LIMIT_MS}", met, note=note)
    yield Row(
        "connections",
        f"{what}: broker CPU a produce",
        1e6 * used / total,
        "us",
        "",
        None,
        note=f"{100 * used / (seconds + 2):.0f} % of a core",
    )
