"""Signs of life of a flow: its heartbeats, written into its target (Kafka's `MirrorHeartbeatTask`).

The one task writes a heartbeat each emit.heartbeats.interval.seconds, also for a flow that copies
nothing. The topic is copied like others, so that a cluster sees, in names like
`B.A.heartbeats`, whose flows reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import Heartbeat
from kmirror.runtime.api import Runtime


@dataclass(frozen=True)
class HeartbeatTaskConfig:
    flow: SourceAndTarget
    topic: str
    producer: Mapping[str, str]
    interval_ms: int


class MirrorHeartbeatTask:
    """One task. `run` runs one life of it. `heard` is called with each heartbeat."""

    def __init__(self, runtime: Runtime, config: HeartbeatTaskConfig) -> None:
        self.config = config
        self._runtime = runtime

    async def run(self, heard: Callable[[], object]) -> None:
        """Works until it is cancelled; raises what a heartbeat could not be written for."""
        config = self.config
        producer = KafkaProducer(self._runtime, {"linger.ms": "0", **config.producer})
        try:
            while True:
                now_ms = self._runtime.clock.time_ms()
                beat = Heartbeat(config.flow.source, config.flow.target, now_ms)
                record = ProducerRecord(config.topic, beat.record_value, key=beat.record_key, partition=0, timestamp=now_ms)
                await (await producer.send(record))
                heard()
                await self._runtime.sleep_ms(max(config.interval_ms, 1))
        finally:
            await producer.close(timeout_ms=0)
