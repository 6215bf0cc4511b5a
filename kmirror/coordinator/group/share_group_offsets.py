"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets and the deletion of
share groups: the exchange between the group's shard and the share coordinator (Kafka's share side
of `GroupCoordinatorService`).

The group's shard knows which states exist and which changes were begun (`share_group_manager`). The
`Persister` makes the changes at the share coordinators, which may be other brokers. Nothing is
locked meanwhile: the share coordinator's state epoch (the group's epoch) decides between two
writers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from kmirror.coordinator.group.share_group_manager import Partitions
from kmirror.coordinator.share.persister import InitialState, PartitionError, Persister
from kmirror.coordinator.share.share_group_offset import UNINITIALIZED_DELIVERY_COMPLETE_COUNT, UNINITIALIZED_START_OFFSET
from kmirror.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kmirror.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kmirror.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kmirror.wire.messages.read_share_group_state_summary import PartitionResult as StateSummary
from kmirror.wire.messages.share_group_describe import DescribedGroup

R = TypeVar("R")
UNKNOWN_LAG = -1


class EndOffset(NamedTuple):
    """The end of a partition as consumers see it, or the reason why it is unknown."""

    offset: int
    error: Errors = Errors.NONE


ListEndOffsets = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, EndOffset]]]


class Shards(Protocol):
    """Access to the group coordinator's shards, by a group's id."""

    async def write_group(self, group_id: str, operation: Callable[[GroupCoordinatorShard], CoordinatorResult[R]]) -> R: ...

    async def read_group(self, group_id: str, operation: Callable[[GroupCoordinatorShard], R]) -> R: ...

    @property
    def image(self) -> CoordinatorMetadataImage: ...


class ShareGroupOffsets:
    """Methods raise ApiException with the error of the whole request."""

    def __init__(self, shards: Shards, persister: Persister, list_end_offsets: ListEndOffsets) -> None:
        self._shards = shards
        self._persister = persister
        self._list_end_offsets = list_end_offsets

    async def describe_group(self, group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(group_id="", error_code=Errors.INVALID_GROUP_ID)
        return await self._shards.read_group(group_id, lambda shard: shard.groups.share.describe(group_id))

    # -- describe ----------------------------------------------------------------------------------

    async def describe_all(self, group_id: str) -> DescribeShareGroupOffsetsResponseGroup:
        """Describes every partition that has state; an empty answer for anything but a share
        group."""
        initialized = await self._shards.read_group(group_id, lambda shard: shard.groups.share.initialized_partitions(group_id))
        image = self._shards.image
        present = {topic_id: numbers for topic_id, numbers in initialized.items() if image.topic_name(topic_id) is not None}
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=await self._summaries(group_id, present))

    async def describe(self, group: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
        """Describes the requested partitions, whether the group exists or not; -1 if there is no
        state."""
        image = self._shards.image
        wanted: Partitions = {}
        unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
        for topic in group.topics or ():
            topic_id = image.topic_id(topic.topic_name)
            if topic_id is not None:
                wanted[topic_id] = tuple(topic.partitions)
                continue
            rows = [
                DescribeShareGroupOffsetsResponsePartition(number, start_offset=UNINITIALIZED_START_OFFSET) for number in topic.partitions
            ]
            unknown.append(DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=rows))
        topics = await self._summaries(group.group_id, wanted)
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=[*topics, *unknown])

    async def _summaries(self, group_id: str, partitions: Partitions) -> list[DescribeShareGroupOffsetsResponseTopic]:
        if not partitions:
            return []
        summaries = await self._persister.read_summary(group_id, partitions)
        names = {topic_id: self._shards.image.topic_name(topic_id) or "" for topic_id in summaries}
        with_lag = [
            TopicPartition(names[topic_id], number)
            for topic_id, rows in summaries.items()
            for number, summary in rows.items()
            if _has_lag(summary)
        ]
        ends = await self._list_end_offsets(with_lag) if with_lag else {}
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=names[topic_id],
                topic_id=topic_id,
                partitions=[
                    _described(number, summary, ends.get(TopicPartition(names[topic_id], number))) for number, summary in rows.items()
                ],
            )
            for topic_id, rows in summaries.items()
        ]

    # -- alter -------------------------------------------------------------------------------------

    async def alter(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
        """Sets the offsets from which the group begins; a group that does not exist is created."""
        group_id = request.group_id
        if not group_id:
            raise ApiException(Errors.INVALID_GROUP_ID)
        alteration = await self._shards.write_group(group_id, lambda shard: shard.groups.share.alter(group_id, request.topics))
        states = {
            topic_id: {number: InitialState(alteration.state_epoch, offset) for number, offset in offsets.items()}
            for topic_id, offsets in alteration.start_offsets.items()
        }
        if states:
            failed = await self._persister.initialize_state(group_id, states)
            made = {topic_id: [number for number in rows if number not in failed.get(topic_id, {})] for topic_id, rows in states.items()}
            await self._shards.write_group(group_id, lambda shard: shard.groups.share.end_initializing(group_id, made, failed))
            for topic in alteration.topics:
                for partition in topic.partitions:
                    error = failed.get(topic.topic_id, {}).get(partition.partition_index)
                    if error is not None and not partition.error_code:
                        partition.error_code, partition.error_message = error.error, error.message
        return AlterShareGroupOffsetsResponse(responses=alteration.topics)

    # -- delete ------------------------------------------------------------------------------------

    async def delete(self, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
        """Deletes the state of whole topics."""
        group_id = request.group_id
        if not group_id:
            raise ApiException(Errors.INVALID_GROUP_ID)
        names = [topic.topic_name for topic in request.topics]
        deletion = await self._shards.write_group(group_id, lambda shard: shard.groups.share.begin_deleting_offsets(group_id, names))
        if not deletion.partitions:
            return DeleteShareGroupOffsetsResponse(responses=deletion.refused)
        errors = await self._persister.delete_state(group_id, deletion.partitions)
        deleted = [topic_id for topic_id in deletion.partitions if topic_id not in errors]
        if deleted:
            await self._shards.write_group(group_id, lambda shard: shard.groups.share.end_deleting_offsets(group_id, deleted))
        answers = [self._deleted(topic_id, Errors.NONE) for topic_id in deleted]
        failed = [self._deleted(topic_id, next(iter(rows.values())).error) for topic_id, rows in errors.items()]
        return DeleteShareGroupOffsetsResponse(responses=[*answers, *deletion.refused, *failed])

    def _deleted(self, topic_id: Uuid, error: Errors) -> DeleteShareGroupOffsetsResponseTopic:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=self._shards.image.topic_name(topic_id) or "",
            topic_id=topic_id,
            error_code=error,
            error_message=None if error is Errors.NONE else error.message,
        )

    async def delete_states_of_group(self, group_id: str) -> None:
        """Deletes the states of a group before the group is deleted; does nothing for other groups.
        Raises ApiException if it has members, or if a state cannot be deleted."""
        doomed = await self._shards.write_group(group_id, lambda shard: shard.groups.share.begin_deleting_group(group_id))
        errors = await self._persister.delete_state(group_id, doomed) if doomed else {}
        for rows in errors.values():
            raise ApiException(next(iter(rows.values())).error)


def _has_lag(summary: StateSummary | PartitionError) -> bool:
    return (
        isinstance(summary, StateSummary)
        and summary.start_offset != UNINITIALIZED_START_OFFSET
        and summary.delivery_complete_count != UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    )


def _described(number: int, summary: StateSummary | PartitionError, end: EndOffset | None) -> DescribeShareGroupOffsetsResponsePartition:
    """Returns a partition's description. As in Kafka, an error of the share coordinator looks like
    a partition without state."""
    if not isinstance(summary, StateSummary):
        return DescribeShareGroupOffsetsResponsePartition(number, start_offset=UNINITIALIZED_START_OFFSET)
    if end is None:
        return DescribeShareGroupOffsetsResponsePartition(number, summary.start_offset, summary.leader_epoch, UNKNOWN_LAG)
    if end.error is not Errors.NONE:
        return DescribeShareGroupOffsetsResponsePartition(number, error_code=end.error, error_message=end.error.message)
    lag = end.offset - summary.start_offset - summary.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(number, summary.start_offset, summary.leader_epoch, lag)
