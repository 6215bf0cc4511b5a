"""A source task between two embedded clusters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kmirror import EmbeddedCluster
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connect_offsets import TOPIC_IDS, OffsetStorage
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.herder.connector_plan import TaskContext
from kmirror.mirrormaker.mirror_metrics import MirrorSourceMetrics
from kmirror.mirrormaker.replication_policy import DefaultReplicationPolicy
from kmirror.mirrormaker.source_task import MirrorSourceTask
from kmirror.mirrormaker.source_task_config import SourceTaskConfig
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from support.mirrormaker.logs_compared import make_topics, read

FLOW = SourceAndTarget("A", "B")
CONNECTOR = "MirrorSourceConnector"
OFFSETS, SYNCS = "mm2-offsets.A.internal", "mm2-offset-syncs.B.internal"
BROKER = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1", "log.cleaner.backoff.ms": "100"}


class Pair:
    """Two clusters, and tasks between them."""

    def __init__(self, a: str, b: str) -> None:
        self.a, self.b = a, b
        self.runtime = AsyncioRuntime()
        self.registry = MetricsRegistry(self.runtime.clock)
        self.metrics = MirrorSourceMetrics(self.registry, self.runtime.clock, FLOW)

    def config(self, topics: dict[str, int], **changes: Any) -> SourceTaskConfig:
        a, b = {"bootstrap.servers": self.a}, {"bootstrap.servers": self.b}
        producer = {**b, **changes.pop("producer", {})}
        consumer = {**a, "enable.auto.commit": "false", "auto.offset.reset": "earliest", **changes.pop("consumer", {})}
        partitions = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
        settings = {"offset_syncs_topic": SYNCS, "offset_flush_interval_ms": 300, "poll_timeout_ms": 200, **changes}
        return SourceTaskConfig(CONNECTOR, FLOW, DefaultReplicationPolicy(), partitions, consumer, producer, a, **settings)

    @asynccontextmanager
    async def running(
        self, config: SourceTaskConfig, writes_to: Callable[[str], object] = lambda _: None
    ) -> AsyncIterator[tuple[MirrorSourceTask, asyncio.Task[None]]]:
        offsets = OffsetStorage(self.runtime, OFFSETS, consumer={"bootstrap.servers": self.b}, producer={"bootstrap.servers": self.b})
        task = MirrorSourceTask(self.runtime, config, offsets, self.metrics, TaskContext(writes_to=writes_to))
        running = self.runtime.spawn(task.run(), name="task")
        try:
            yield task, running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await offsets.close()

    def stored(self) -> dict[bytes, int]:
        """Source offsets at the target, as bytes say it."""
        found = read(self.b, OFFSETS)[0]
        return {row.key or b"": json.loads(row.value or b"")["offset"] for _, row in found if TOPIC_IDS.encode() not in (row.key or b"")}

    def syncs(self) -> list[OffsetSync]:
        return [OffsetSync.deserialize_record(row.key, row.value) for _, row in read(self.a, SYNCS)[0]]


@asynccontextmanager
async def pair(topics: dict[str, int], config: dict[str, str] | None = None) -> AsyncIterator[Pair]:
    with EmbeddedCluster(config=BROKER) as a, EmbeddedCluster(config=BROKER) as b:
        make_topics(a.bootstrap_servers, topics, config)
        make_topics(a.bootstrap_servers, {SYNCS: 1})
        make_topics(b.bootstrap_servers, {OFFSETS: 1, **{f"A.{name}": count for name, count in topics.items()}})
        yield Pair(a.bootstrap_servers, b.bootstrap_servers)
