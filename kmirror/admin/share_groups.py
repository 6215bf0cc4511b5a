"""AdminClient calls about share groups (KIP-932): describe, start offsets, delete.

`list_groups(types=["share"])` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kmirror.admin.admin_requests import GROUP_COORDINATOR, AdminRequests, by_topic, error_of, raise_for
from kmirror.admin.results import Node
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kmirror.wire.messages.delete_groups import DeleteGroupsRequest
from kmirror.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from kmirror.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kmirror.wire.messages.share_group_describe import ShareGroupDescribeRequest

_ELSEWHERE = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """One member and the partitions that it works on."""

    member_id: str
    client_id: str
    host: str
    member_epoch: int
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """One group: `state` is Kafka's word."""

    group_id: str
    state: str
    coordinator: Node
    group_epoch: int
    assignment_epoch: int
    members: list[ShareMemberDescription]


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """The offset at which a group begins in a partition.

    `lag` is None if it is not known, or if the broker does not say.
    """

    start_offset: int
    leader_epoch: int
    lag: int | None


async def describe_share_groups(
    cluster: AdminRequests, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, ShareGroupDescription | ApiException]:
    """Returns each group, or why it cannot be described (GROUP_ID_NOT_FOUND when there is none)."""

    async def ask(node: Node, ids: list[str]) -> dict[str, ShareGroupDescription | ApiException]:
        request = ShareGroupDescribeRequest(group_ids=ids)
        found: dict[str, ShareGroupDescription | ApiException] = {}
        for row in (await cluster.send(node, request)).groups:
            error = Errors.for_code(row.error_code)
            if error in _ELSEWHERE:
                raise ApiException(error)
            found[row.group_id] = ApiException(error, row.error_message or None) if error else _description(row, node)
        return found

    return await cluster.by_coordinator(group_ids, GROUP_COORDINATOR, ask, timeout_ms=timeout_ms)


async def list_share_group_offsets(
    cluster: AdminRequests, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, skip_failed: bool = False
) -> dict[TopicPartition, SharePartitionOffset | None]:
    """Returns where a group begins, in all partitions of which it has state or in `partitions`.

    None means that the group has no state there. Raises ApiException for the first partition with
    an error, for example one without a leader; with `skip_failed` such partitions are left out.
    """
    topics = None
    if partitions is not None:
        topics = [DescribeShareGroupOffsetsRequestTopic(name, rows) for name, rows in by_topic(partitions).items()]

    async def ask(node: Node, ids: list[str]) -> dict[str, dict[TopicPartition, SharePartitionOffset | None]]:
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)]
        request = DescribeShareGroupOffsetsRequest(groups=groups)
        group = (await cluster.send(node, request)).groups[0]
        raise_for(group.error_code, group.error_message)
        offsets: dict[TopicPartition, SharePartitionOffset | None] = {}
        for topic in group.topics:
            for row in topic.partitions:
                if row.error_code and skip_failed:
                    continue
                raise_for(row.error_code, row.error_message)
                begins = SharePartitionOffset(row.start_offset, row.leader_epoch, None if row.lag < 0 else row.lag)
                offsets[TopicPartition(topic.topic_name, row.partition_index)] = begins if row.start_offset >= 0 else None
        return {group_id: offsets}

    return (await cluster.by_coordinator([group_id], GROUP_COORDINATOR, ask))[group_id]


async def alter_share_group_offsets(
    cluster: AdminRequests, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, ApiException | None]:
    """Sets where a group without members begins; a group that does not exist is created.

    Returns the outcome of each partition.
    """
    wanted: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
    for name, offset in offsets.items():
        topic = wanted.setdefault(name.topic, AlterShareGroupOffsetsRequestTopic(topic_name=name.topic))
        topic.partitions.append(AlterShareGroupOffsetsRequestPartition(name.partition, offset))
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(wanted.values()))

    async def ask(node: Node, ids: list[str]) -> dict[str, dict[TopicPartition, ApiException | None]]:
        response = await cluster.send(node, request)
        raise_for(response.error_code, response.error_message)
        errors = {
            TopicPartition(topic.topic_name, row.partition_index): error_of(row.error_code, row.error_message)
            for topic in response.responses
            for row in topic.partitions
        }
        return {group_id: errors}

    return (await cluster.by_coordinator([group_id], GROUP_COORDINATOR, ask))[group_id]


async def delete_share_group_offsets(cluster: AdminRequests, group_id: str, topics: Iterable[str]) -> dict[str, ApiException | None]:
    """Deletes where a group without members begins, for whole topics; returns each outcome."""
    rows = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=rows)

    async def ask(node: Node, ids: list[str]) -> dict[str, dict[str, ApiException | None]]:
        response = await cluster.send(node, request)
        raise_for(response.error_code, response.error_message)
        return {group_id: {row.topic_name: error_of(row.error_code, row.error_message) for row in response.responses}}

    return (await cluster.by_coordinator([group_id], GROUP_COORDINATOR, ask))[group_id]


async def delete_share_groups(cluster: AdminRequests, group_ids: Iterable[str]) -> dict[str, ApiException | None]:
    """Deletes groups without members, and their state; returns the outcome of each."""

    async def ask(node: Node, ids: list[str]) -> dict[str, ApiException | None]:
        response = await cluster.send(node, DeleteGroupsRequest(groups_names=ids))
        for row in response.results:
            if Errors.for_code(row.error_code) in _ELSEWHERE:
                raise ApiException(Errors.for_code(row.error_code))
        return {row.group_id: error_of(row.error_code, None) for row in response.results}

    return await cluster.by_coordinator(group_ids, GROUP_COORDINATOR, ask)


def _description(row: Any, node: Node) -> ShareGroupDescription:
    members = [
        ShareMemberDescription(
            member.member_id,
            member.client_id,
            member.client_host,
            member.member_epoch,
            tuple(TopicPartition(topic.topic_name, number) for topic in member.assignment.topic_partitions for number in topic.partitions),
        )
        for member in row.members
    ]
    return ShareGroupDescription(row.group_id, row.group_state, node, row.group_epoch, row.assignment_epoch, members)
