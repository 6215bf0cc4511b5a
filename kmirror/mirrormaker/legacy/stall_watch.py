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

from collections.abc import Sequence
from typing import Final

from kmirror.mirrormaker.legacy.mirror_maker_producer import MirrorMakerProducer
from kmirror.mirrormaker.legacy.mirror_maker_thread import MirrorMakerThread
from kmirror.mirrormaker.source_watch import SourceWatch
from kmirror.mirrormaker.target_watch import TargetWatch
from kmirror.runtime.api import Runtime

PAUSE_MS: Final = 2_000


class StallWatch:
    """Looks at all streams and at their producer from time to time."""

    def __init__(self, runtime: Runtime, threads: Sequence[MirrorMakerThread], producer: MirrorMakerProducer) -> None:
        self._runtime = runtime
        self._sources = {one.name: SourceWatch(runtime.clock, one.wrapper.consumer, one.name, "the source cluster") for one in threads}
        self._target = TargetWatch(runtime.clock, "the target cluster", producer.trouble, lambda: producer.num_acknowledged_messages)

    def not_ready(self) -> list[str]:
        faults = (self._target.fault, *(f"{name}: {source.fault}" for name, source in self._sources.items() if source.fault is not None))
        return [fault for fault in faults if fault is not None]

    async def run(self) -> None:
        while True:
            await self._runtime.sleep_ms(PAUSE_MS)
            for source in self._sources.values():
                source.polled(lambda: None)
            self._target.look()
