"""Signs of life of a flow: its heartbeats, written into its target (Kafka's `MirrorHeartbeatTask`).

The one task writes a heartbeat each emit.heartbeats.interval.seconds, also for a flow that copies
nothing. The topic is copied like others, so that a cluster sees, in names like
`B.A.heartbeats`, whose flows reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kmirror.mirrormaker.connect_offsets import SourceOffsets
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import Heartbeat
from kmirror.mirrormaker.herder.connector_plan import TaskContext
from kmirror.mirrormaker.source_records import RecordsConfig, SourceRecord, SourceRecordWriter
from kmirror.mirrormaker.source_task_metrics import SourceTaskMeter
from kmirror.runtime.api import Runtime


@dataclass(frozen=True)
class HeartbeatTaskConfig:
    flow: SourceAndTarget
    topic: str
    records: RecordsConfig
    interval_ms: int


class MirrorHeartbeatTask:
    """One task. `run` runs one life of it. `heard` is called with each heartbeat."""

    def __init__(
        self,
        runtime: Runtime,
        config: HeartbeatTaskConfig,
        offsets: SourceOffsets,
        context: TaskContext,
        meter: SourceTaskMeter | None = None,
    ) -> None:
        self.config = config
        self._meter = meter
        self._runtime = runtime
        self._offsets = offsets
        self._context = context

    async def run(self, heard: Callable[[], object]) -> None:
        """Works until it is cancelled; raises what a heartbeat could not be written for."""
        config, clock = self.config, self._runtime.clock
        records = SourceRecordWriter(
            self._runtime,
            f"{config.flow}|{config.records.connector}",
            config.records,
            self._offsets,
            self._context.writes_to,
            self._meter,
        )
        try:
            await records.start(self._context.check)
            while True:
                beat = Heartbeat(config.flow.source, config.flow.target, clock.time_ms())
                record = SourceRecord(beat.connect_partition, config.topic, beat.record_key, beat.record_value, beat.timestamp)
                await records.send(record)
                await records.poll_ended()
                heard()
                await self._runtime.sleep_ms(max(config.interval_ms, 1))
        finally:
            await records.end()
