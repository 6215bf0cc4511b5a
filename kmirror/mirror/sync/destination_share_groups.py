"""Start offsets of share groups at this cluster, read and set at their coordinators, whichever
brokers those are.

Like `destination_groups`: this broker's own group coordinator is asked directly, another one over
the inter-broker listener.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.sync.destination_groups import DestinationGroups, answer_or_error
from kmirror.network.node_channels import BrokerChannel
from kmirror.wire.messages import alter_share_group_offsets, describe_share_group_offsets
from kmirror.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from kmirror.wire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponseGroup

StartOffsets = dict[TopicPartition, int]
KnownOffsets = dict[TopicPartition, int | None]
"""Where a group begins; None if the coordinator did not say (the partition has no leader, so its
lag is not known).
"""


class LocalShareGroups(Protocol):
    """The part of `coordinator.group.ShareGroupOffsets` that is needed here."""

    async def describe_all(self, group_id: str) -> DescribeShareGroupOffsetsResponseGroup: ...

    async def alter(self, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse: ...


class DestinationShareGroups:
    """Asks the coordinators of share groups; owns no offsets. `groups` knows which broker
    coordinates a group.
    """

    def __init__(
        self,
        groups: DestinationGroups,
        local: LocalShareGroups,
        brokers: BrokerChannel,
        *,
        broker_id: int,
    ) -> None:
        self.timeout_ms = groups.timeout_ms
        self._groups = groups
        self._local = local
        self._brokers = brokers
        self._broker_id = broker_id

    async def prepare(self) -> None:
        """Waits until `__consumer_offsets` exists; ApiException COORDINATOR_NOT_AVAILABLE if it
        does not in time.
        """
        await self._groups.prepare()

    async def offsets(self, groups: Iterable[str]) -> dict[str, KnownOffsets | Errors]:
        """Where each group begins here: nothing for a group that does not exist, its error if the
        coordinator did not say.
        """
        return await self._groups.ask_coordinators(groups, self._offsets_at)

    async def _offsets_at(self, broker_id: int, groups: list[str]) -> dict[str, KnownOffsets | Errors]:
        if broker_id == self._broker_id:
            return {group: await self._local_offsets(group) for group in groups}
        module = describe_share_group_offsets
        wanted = [module.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups]
        response = await answer_or_error(self._brokers.send(broker_id, module.DescribeShareGroupOffsetsRequest(groups=wanted)))
        if isinstance(response, Errors):
            return dict.fromkeys(groups, response)
        return {row.group_id: start_offsets(row) for row in response.groups}

    async def _local_offsets(self, group: str) -> KnownOffsets | Errors:
        row = await answer_or_error(self._local.describe_all(group))
        return row if isinstance(row, Errors) else start_offsets(row)

    async def alter(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Errors]:
        """Sets the group's start offsets; the group is created if needed."""
        coordinator = self._groups.coordinator_of(group)
        if coordinator < 0:
            return dict.fromkeys(offsets, Errors.COORDINATOR_NOT_AVAILABLE)
        request = _alter_request(group, offsets)
        is_local = coordinator == self._broker_id
        response = await answer_or_error(self._local.alter(request) if is_local else self._brokers.send(coordinator, request))
        if isinstance(response, Errors):
            return dict.fromkeys(offsets, response)
        if response.error_code:
            return dict.fromkeys(offsets, Errors.for_code(response.error_code))
        return {
            TopicPartition(topic.topic_name, row.partition_index): Errors.for_code(row.error_code)
            for topic in response.responses
            for row in topic.partitions
        }


def start_offsets(row: DescribeShareGroupOffsetsResponseGroup) -> KnownOffsets | Errors:
    """The start offsets of partitions that have one, or the group's error."""
    if row.error_code:
        return Errors.for_code(row.error_code)
    return {
        TopicPartition(topic.topic_name, partition.partition_index): None if partition.error_code else partition.start_offset
        for topic in row.topics
        for partition in topic.partitions
        if partition.error_code or partition.start_offset >= 0
    }


def _alter_request(group: str, offsets: Mapping[TopicPartition, int]) -> AlterShareGroupOffsetsRequest:
    module = alter_share_group_offsets
    topics: dict[str, module.AlterShareGroupOffsetsRequestTopic] = {}
    for topic_partition, offset in sorted(offsets.items()):
        topic = topics.setdefault(topic_partition.topic, module.AlterShareGroupOffsetsRequestTopic(topic_name=topic_partition.topic))
        topic.partitions.append(module.AlterShareGroupOffsetsRequestPartition(topic_partition.partition, offset))
    return AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))
