"""The names of Connect's and its clients' metrics against the tables that Apache's own programs print for
Kafka's documentation. What Apache has and we do not is listed here, and in docs/MIRRORMAKER.md.
"""

from __future__ import annotations

import re
import subprocess

import pytest
from support.peers.peers import TOOL_JVM, java, kafka_classpath
from support.waiting import PROGRAM_S

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.error_handling import ErrorHandlingMetrics
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.rebalance_metrics import Rebalances, register_rebalance_metrics
from kmirror.mirrormaker.herder.worker_metrics import register_worker_metrics
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.source_task_metrics import SourceTaskMetrics
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

pytestmark = pytest.mark.interop

TABLES = (
    "org.apache.kafka.connect.runtime.ConnectMetrics",
    "org.apache.kafka.clients.producer.internals.ProducerMetrics",
    "org.apache.kafka.clients.consumer.internals.ConsumerMetrics",
)
CLASSES = {
    f"{part}-{what}" for part in ("connector", "task", "key-converter", "value-converter", "header-converter") for what in ("class", "version")
} | {"connector-type"}  # fmt: skip
NOT_HERE: dict[str, set[str]] = {
    "connect-worker-metrics": set(),
    "connect-worker-rebalance-metrics": set(),
    "connector-metrics": {"connector-class", "connector-type", "connector-version"},
    "connector-task-metrics": CLASSES,
    "source-task-metrics": set(),
    "task-error-metrics": set(),
    "producer-metrics": {"compression-rate-avg", "record-size-avg", "record-size-max"},
    "consumer-fetch-manager-metrics": {"bytes-consumed-rate", "bytes-consumed-total", "records-per-request-avg"},
}
"""By the type of the MBean, what Apache has and we do not."""
NOT_IN_TABLES = ("producer-metrics",)
"""Apache's tables lack what a producer's connections and calls measure."""


def documented() -> dict[str, set[str]]:
    """The attributes of each type of MBean; those of a topic or partition of a client are left out."""
    found: dict[str, set[str]] = {}
    for table in TABLES:
        command = [java(), *TOOL_JVM, "-cp", kafka_classpath(), table]
        page = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=True).stdout
        for attribute, mbean in re.findall(r"<td>(\S+?)</td>\s*<td>[^<]*</td>\s*<td>(.*?)</td>", page):
            if "topic=" not in mbean:
                found.setdefault(mbean.partition("type=")[2].partition(",")[0], set()).add(attribute)
    return found


async def served() -> dict[str, set[str]]:
    """Of a worker with one connector and one task."""
    runtime = AsyncioRuntime()
    clock = runtime.clock
    registry, startups = MetricsRegistry(clock), WorkerStartups(clock)
    units = {unit: Status("u", clock) for unit in ("c", ConnectorTaskId("c", 0))}
    register_worker_metrics(registry, lambda: units, startups)
    rebalances = Rebalances(clock, "sessioned")
    register_rebalance_metrics(registry, lambda: rebalances)
    props = {"bootstrap.servers": "127.0.0.1:1"}
    consumer, producer = KafkaConsumer(runtime, props), KafkaProducer(runtime, props)
    found: dict[str, set[str]] = {}
    with SourceTaskMetrics(registry, clock, None).of_task("c", 0) as meter, ErrorHandlingMetrics(registry).of_task("c", 0):
        meter.begin(consumer, producer)
        for name, _ in registry:
            found.setdefault(name.type, set()).add(name.attribute)
    await consumer.close(timeout_ms=0)
    await producer.close(timeout_ms=0)
    return found


async def test_every_documented_metric_is_served_or_listed_and_none_is_of_our_own_making() -> None:
    theirs, ours = documented(), await served()
    assert {kind: theirs[kind] - ours[kind] for kind in NOT_HERE} == NOT_HERE
    own = {kind: ours[kind] - theirs[kind] for kind in NOT_HERE if kind not in NOT_IN_TABLES}
    assert own == {kind: set() for kind in own}
