"""Which partitions of a mirror are in MIRRORING now: only their groups' offsets are written here (C18, SYN18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.mirror_coordinator import MirrorPartitionId
from kmirror.mirror.mirror_coordinator_shard import PartitionKey, StoredState
from kmirror.mirror.mirror_state_machine import MirrorPartitionState


class PartitionStates(Protocol):
    """Of `MirrorStateClient`, what is needed here."""

    async def read(self, partitions: Sequence[MirrorPartitionId]) -> Mapping[PartitionKey, StoredState | Errors]: ...


async def mirroring_partitions(
    states: PartitionStates, image: MetadataImage, mirror_name: str, partitions: set[TopicPartition], failures: list[str]
) -> set[TopicPartition]:
    """Those of `partitions` that are in MIRRORING; what could not be asked is added to `failures`."""
    ids = []
    for tp in sorted(partitions):
        topic = image.topics.topic(tp.topic)
        if topic is not None:
            ids.append(MirrorPartitionId(mirror_name, tp.topic, topic.id, tp.partition))
    stored = await states.read(ids) if ids else {}
    failures += [f"state of {topic}-{number}: {state.name}" for (topic, number), state in stored.items() if isinstance(state, Errors)]
    return {
        TopicPartition(*key)
        for key, found in stored.items()
        if isinstance(found, StoredState) and found.state is MirrorPartitionState.MIRRORING
    }
