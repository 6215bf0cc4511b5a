"""Says in the log why nothing is mirrored although both clusters can be reached.

The guarding properties have the producer try for ever (`delivery.timeout.ms`, `max.block.ms`), and a
consumer does so anyway. So a topic that the target does not create, a partition without a leader, or
replicas that are too few stop the whole tool, and it looks like one that has nothing to do. Kafka's
clients log each try; here one line says what is wrong, after TOLD_AFTER_MS and each TOLD_AGAIN_MS:

    source   a consumer's partitions that cannot be read, or a group that it cannot join
             (`SourceWatch`, one for each stream)
    target   the first record that cannot be written, while nothing else is acknowledged either
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kmirror.common.ports import Clock
from kmirror.mirrormaker.legacy.mirror_maker_producer import MirrorMakerProducer
from kmirror.mirrormaker.legacy.mirror_maker_thread import MirrorMakerThread
from kmirror.mirrormaker.source_watch import TOLD_AFTER_MS, TOLD_AGAIN_MS, SourceWatch
from kmirror.runtime.api import Runtime

PAUSE_MS: Final = 2_000
_log = logging.getLogger(__name__)


class TargetWatch:
    """`fault` is what was told, until it is over."""

    def __init__(self, clock: Clock, producer: MirrorMakerProducer) -> None:
        self.fault: str | None = None
        self._clock = clock
        self._producer = producer
        self._acknowledged = 0
        self._well_ms = clock.monotonic_ms()
        self._told_ms = 0

    def look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        trouble, acknowledged = self._producer.trouble(), self._producer.num_acknowledged_messages
        if trouble is None or acknowledged != self._acknowledged:
            if self.fault is not None:
                _log.info("the target cluster takes records again, after %d s", (now_ms - self._well_ms) // 1000)
            self._acknowledged, self._well_ms, self.fault = acknowledged, now_ms, None
        elif now_ms - self._well_ms >= TOLD_AFTER_MS and (self.fault is None or now_ms - self._told_ms >= TOLD_AGAIN_MS):
            self._told_ms = now_ms
            self.fault = f"the target cluster has taken no record for {(now_ms - self._well_ms) // 1000} s: {trouble}"
            _log.warning("%s", self.fault)


class StallWatch:
    """Looks at all streams and at their producer from time to time."""

    def __init__(self, runtime: Runtime, threads: Sequence[MirrorMakerThread], producer: MirrorMakerProducer) -> None:
        self._runtime = runtime
        self._sources = [SourceWatch(runtime.clock, one.wrapper.consumer, one.name, "the source cluster") for one in threads]
        self._target = TargetWatch(runtime.clock, producer)

    def not_ready(self) -> list[str]:
        return [] if self._target.fault is None else [self._target.fault]

    async def run(self) -> None:
        while True:
            await self._runtime.sleep_ms(PAUSE_MS)
            for source in self._sources:
                source.polled(lambda: None)
            self._target.look()
