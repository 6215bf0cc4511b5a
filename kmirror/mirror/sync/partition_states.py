"""Which partitions of a mirror are in which state now, as their coordinator has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import MetadataImage
from kmirror.mirror.coordination.mirror_coordinator_shard import PartitionKey, StoredState
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.mirror_state_machine import MirrorPartitionState


class PartitionStates(Protocol):
    """The part of `MirrorStateClient` that is needed here."""

    async def read(self, partitions: Sequence[MirrorPartitionId]) -> Mapping[PartitionKey, StoredState | Errors]: ...


async def mirroring_partitions(
    states: PartitionStates, image: MetadataImage, mirror_name: str, partitions: set[TopicPartition], failures: list[str]
) -> set[TopicPartition]:
    """The `partitions` that are in MIRRORING; errors in asking are added to `failures`."""
    stored = await _stored_states(states, image, mirror_name, partitions, failures)
    return {tp for tp, state in stored.items() if state is MirrorPartitionState.MIRRORING}


async def topics_that_failed(
    states: PartitionStates, image: MetadataImage, mirror_name: str, topics: Iterable[str], failures: list[str]
) -> set[str]:
    """The `topics` with a FAILED partition, or one whose state could not be asked; such errors are
    added to `failures`.
    """
    found = {name: image.topics.topic(name) for name in topics}
    partitions = {TopicPartition(name, number) for name, topic in found.items() if topic is not None for number in topic.partitions}
    stored = await _stored_states(states, image, mirror_name, partitions, failures)
    going_on = {tp for tp, state in stored.items() if state is not MirrorPartitionState.FAILED}
    return {tp.topic for tp in partitions - going_on}


async def _stored_states(
    states: PartitionStates, image: MetadataImage, mirror_name: str, partitions: set[TopicPartition], failures: list[str]
) -> dict[TopicPartition, MirrorPartitionState]:
    ids = []
    for tp in sorted(partitions):
        topic = image.topics.topic(tp.topic)
        if topic is not None:
            ids.append(MirrorPartitionId(mirror_name, tp.topic, topic.id, tp.partition))
    stored = await states.read(ids) if ids else {}
    failures += [f"state of {topic}-{number}: {state.name}" for (topic, number), state in stored.items() if isinstance(state, Errors)]
    return {TopicPartition(*key): found.state for key, found in stored.items() if isinstance(found, StoredState)}
