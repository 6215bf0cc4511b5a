"""Topics: partition counts follow the source's, upwards only (SYN5, D3-36).

Missing topics are made when they are added to the mirror (`topic_creation`), for an association cannot outlive its topic. What
becomes of topics that vanish at the source is `mirror_metadata_manager`'s business, for each broker that leads partitions of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kmirror.common.errors import Errors
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.ports import ControllerChannel, MirrorConfig
from kmirror.mirror.sync_cycle import SyncCycle, SyncGauge
from kmirror.wire.messages import create_partitions


class TopicSync:
    """The step."""

    gauge = SyncGauge.METADATA_REFRESH

    def __init__(self, controller: ControllerChannel, image: Callable[[], MetadataImage], config: MirrorConfig) -> None:
        self._controller = controller
        self._image = image
        self._config = config

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        wanted = []
        for name in cycle.topics:
            topic = self._image().topics.topic(name)
            source_count = len(cycle.metadata.topics[name].partitions)
            if topic is not None and source_count > len(topic.partitions):
                wanted.append(create_partitions.CreatePartitionsTopic(name=name, count=source_count, assignments=None))
        if not wanted:
            return []
        request = create_partitions.CreatePartitionsRequest(topics=wanted, timeout_ms=self._config.request_timeout_ms)
        response = await self._controller.send(request)
        return [
            f"partitions of topic {row.name}: {row.error_message or Errors.for_code(row.error_code).message}"
            for row in response.results
            if row.error_code
        ]

    def forget(self, mirror_name: str) -> None:
        """Nothing is remembered."""
