"""The address of a mirrored partition, and the key under which its coordinator is found."""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.coordination.mirror_coordinator_shard import PartitionKey


def coordinator_key(mirror_name: str, topic_id: Uuid, partition: int) -> str:
    """The string whose hash places a mirror partition, and FindCoordinator's key of type 3."""
    return f"{mirror_name}:{topic_id}:{partition}"


class MirrorPartitionId(NamedTuple):
    """The full address of a mirrored partition."""

    mirror_name: str
    topic: str
    topic_id: Uuid
    partition: int

    @property
    def key(self) -> PartitionKey:
        return (self.topic, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
