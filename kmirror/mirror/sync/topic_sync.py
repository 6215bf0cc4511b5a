"""Topics: partition counts follow the source's, upwards only (SYN5, D3-36).

Missing topics are created when they are added to the mirror (`topic_creation`), because an
association cannot outlive its topic. `mirror_metadata_manager` handles topics that vanish at the
source, on each broker that leads partitions of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kmirror.common.errors import Errors
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncGauge
from kmirror.network.node_channels import ControllerChannel
from kmirror.wire.messages import create_partitions

T = TypeVar("T")
PARTITIONS_PER_REQUEST = 1_000


class TopicSync:
    """The step that adds partitions. It owns no state."""

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
        failures = []
        for part in in_requests(wanted, lambda topic: topic.count):
            request = create_partitions.CreatePartitionsRequest(topics=part, timeout_ms=self._config.request_timeout_ms)
            response = await self._controller.send(request)
            failures += [
                f"cannot add partitions to topic {row.name}: {row.error_message or Errors.for_code(row.error_code).message}"
                for row in response.results
                if row.error_code
            ]
        return failures

    def forget(self, mirror_name: str) -> None:
        """Nothing is remembered."""


def in_requests(topics: Sequence[T], partitions: Callable[[T], int]) -> list[list[T]]:
    """Splits `topics` into requests of a limited number of partitions: controllers refuse more than
    10,000, and large requests block them.
    """
    parts: list[list[T]] = []
    room = 0
    for topic in topics:
        if not parts or partitions(topic) > room:
            parts.append([])
            room = PARTITIONS_PER_REQUEST
        parts[-1].append(topic)
        room -= partitions(topic)
    return parts
