"""AdminClient calls about groups: list, describe, offsets, members.

The questions go to coordinators, and are repeated while these move or load.

Only a group of the KIP-848 protocol answers ConsumerGroupDescribe. Any other answers
GROUP_ID_NOT_FOUND and is then described as a classic group; the assignment of its members is
decoded from the bytes of the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kmirror.admin.admin_requests import GROUP_COORDINATOR, AdminRequests, by_topic, error_of, raise_for
from kmirror.admin.results import Node
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmirror.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kmirror.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kmirror.wire.messages.delete_groups import DeleteGroupsRequest
from kmirror.wire.messages.describe_groups import DescribedGroup as DescribedClassicGroup
from kmirror.wire.messages.describe_groups import DescribeGroupsRequest
from kmirror.wire.messages.list_groups import ListGroupsRequest
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kmirror.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

CLASSIC = "Classic"
CONSUMER = "Consumer"
CONSUMER_PROTOCOL_TYPE = "consumer"
LAST_VERSION_WITH_TOPIC_NAMES = 9
LAST_FETCH_OF_ONE_GROUP = 7
"""An OffsetFetch request of Kafka before 3.0 is about one group."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group: `type` (Classic, Consumer, ...) and `state` are Kafka's words, "" when the broker
    does not say.
    """

    group_id: str
    protocol_type: str
    state: str
    type: str

    @property
    def is_simple(self) -> bool:
        """Whether the group has only ever committed offsets."""
        return self.protocol_type == ""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member; epochs and the target assignment are None in a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    is_classic: bool | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """One group; epochs are None in a classic group."""

    group_id: str
    protocol_type: str
    partition_assignor: str
    members: list[MemberDescription]
    type: str
    state: str
    coordinator: Node
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset; `leader_epoch` is -1 when it is not known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


async def list_groups(cluster: AdminRequests, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
    """Returns every group of every broker, sorted by id; with `states` or `types` only those."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    async def attempt() -> list[GroupListing]:
        await cluster.metadata([])
        found = {}
        for node_id in sorted(cluster.nodes):
            response = await cluster.ask_node(node_id, request)
            raise_for(response.error_code, None)
            for row in response.groups:
                found[row.group_id] = GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type.capitalize())
        return [found[group_id] for group_id in sorted(found)]

    return await cluster.retry(attempt)


async def list_consumer_groups(cluster: AdminRequests, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
    """Returns consumer groups, and groups that only commit offsets."""
    listed = await list_groups(cluster, states=states, types=types)
    return [row for row in listed if row.protocol_type in ("", CONSUMER_PROTOCOL_TYPE)]


async def describe_consumer_groups(
    cluster: AdminRequests, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, ConsumerGroupDescription | ApiException]:
    """Returns each group, or why it cannot be described (GROUP_ID_NOT_FOUND when there is none)."""

    async def ask(node: Node, ids: list[str]) -> dict[str, ConsumerGroupDescription | ApiException]:
        found: dict[str, ConsumerGroupDescription | ApiException] = {}
        try:
            request = ConsumerGroupDescribeRequest(group_ids=ids)
            for row in (await cluster.send(node, request)).groups:
                error = Errors.for_code(row.error_code)
                if error.retriable:
                    raise ApiException(error, row.error_message)
                if error in (Errors.GROUP_ID_NOT_FOUND, Errors.UNSUPPORTED_VERSION):
                    continue
                found[row.group_id] = ApiException(error, row.error_message or None) if error else _consumer_group(row, node)
        except ApiException as error:
            if error.error is not Errors.UNSUPPORTED_VERSION:
                raise
        rest = [group_id for group_id in ids if group_id not in found]
        return found | (await _describe_classic(cluster, node, rest) if rest else {})

    return await cluster.by_coordinator(group_ids, GROUP_COORDINATOR, ask, timeout_ms=timeout_ms)


async def _describe_classic(cluster: AdminRequests, node: Node, ids: list[str]) -> dict[str, ConsumerGroupDescription | ApiException]:
    response = await cluster.send(node, DescribeGroupsRequest(groups=ids))
    found: dict[str, ConsumerGroupDescription | ApiException] = {}
    for row in response.groups:
        error = Errors.for_code(row.error_code)
        if error.retriable:
            raise ApiException(error)
        if error:
            found[row.group_id] = ApiException(error, row.error_message or None)
        elif row.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            text = f"GroupId {row.group_id} is not a consumer group ({row.protocol_type})."
            found[row.group_id] = ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, text)
        else:
            found[row.group_id] = _classic_group(row, node)
    return found


async def delete_consumer_groups(cluster: AdminRequests, group_ids: Iterable[str]) -> dict[str, ApiException | None]:
    """Deletes groups without members; returns the outcome of each."""

    async def ask(node: Node, ids: list[str]) -> dict[str, ApiException | None]:
        response = await cluster.send(node, DeleteGroupsRequest(groups_names=ids))
        return {row.group_id: _unless_retriable(row.error_code) for row in response.results}

    return await cluster.by_coordinator(group_ids, GROUP_COORDINATOR, ask)


async def list_consumer_group_offsets(
    cluster: AdminRequests, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Returns the offsets that a group has committed, for all its partitions or for `partitions`.

    None means that nothing was committed.
    """
    wanted = None if partitions is None else by_topic(partitions)

    async def ask(node: Node, ids: list[str]) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        group = await _committed(cluster, node, group_id, wanted, require_stable=require_stable)
        raise_for(group.error_code, None)
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for topic in group.topics:
            for row in topic.partitions:
                raise_for(row.error_code, None)
                committed = OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
                offsets[TopicPartition(topic.name, row.partition_index)] = committed if row.committed_offset >= 0 else None
        return {group_id: offsets}

    return (await cluster.by_coordinator([group_id], GROUP_COORDINATOR, ask))[group_id]


async def _committed(
    cluster: AdminRequests, node: Node, group_id: str, wanted: Mapping[str, list[int]] | None, *, require_stable: bool
) -> Any:
    """Returns a coordinator's answer about one group, of whatever age the broker is."""
    topics = None if wanted is None else [OffsetFetchRequestTopics(name=name, partition_indexes=rows) for name, rows in wanted.items()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=require_stable)
    try:
        return (await cluster.send(node, request, max_version=LAST_VERSION_WITH_TOPIC_NAMES)).groups[0]
    except ApiException as error:
        if error.error is not Errors.UNSUPPORTED_VERSION:
            raise
    rows = None if wanted is None else [OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in wanted.items()]
    request = OffsetFetchRequest(group_id=group_id, topics=rows, require_stable=require_stable)
    return await cluster.send(node, request, max_version=LAST_FETCH_OF_ONE_GROUP)


async def alter_consumer_group_offsets(
    cluster: AdminRequests, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, ApiException | None]:
    """Commits offsets on behalf of a group without members; returns the outcome of each."""
    wanted: dict[str, list[OffsetCommitRequestPartition]] = {}
    for name, committed in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=name.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            committed_metadata=committed.metadata,
        )
        wanted.setdefault(name.topic, []).append(row)
    topics = [OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in wanted.items()]
    request = OffsetCommitRequest(group_id=group_id, topics=topics)
    return await _partition_errors(cluster, group_id, request, max_version=LAST_VERSION_WITH_TOPIC_NAMES)


async def delete_consumer_group_offsets(
    cluster: AdminRequests, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ApiException | None]:
    """Deletes a group's offsets of partitions that it is not subscribed to; returns each
    outcome.
    """
    wanted: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for name in partitions:
        wanted.setdefault(name.topic, []).append(OffsetDeleteRequestPartition(partition_index=name.partition))
    topics = [OffsetDeleteRequestTopic(name=name, partitions=rows) for name, rows in wanted.items()]
    return await _partition_errors(cluster, group_id, OffsetDeleteRequest(group_id=group_id, topics=topics))


async def _partition_errors(
    cluster: AdminRequests, group_id: str, request: Any, *, max_version: int | None = None
) -> dict[TopicPartition, ApiException | None]:
    async def ask(node: Node, ids: list[str]) -> dict[str, dict[TopicPartition, ApiException | None]]:
        response = await cluster.send(node, request, max_version=max_version)
        raise_for(getattr(response, "error_code", 0), None)
        errors: dict[TopicPartition, ApiException | None] = {}
        for topic in response.topics:
            for row in topic.partitions:
                error = Errors.for_code(row.error_code)
                if error in (Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE):
                    raise ApiException(error)
                errors[TopicPartition(topic.name, row.partition_index)] = error_of(row.error_code, None)
        return {group_id: errors}

    return (await cluster.by_coordinator([group_id], GROUP_COORDINATOR, ask))[group_id]


def _unless_retriable(code: int) -> ApiException | None:
    error = error_of(code, None)
    if error is not None and error.error.retriable:
        raise error
    return error


def _partitions(topics: Any) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic_name, partition) for topic in topics for partition in topic.partitions)


def _consumer_group(row: DescribedConsumerGroup, node: Node) -> ConsumerGroupDescription:
    members = [
        MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _partitions(member.assignment.topic_partitions),
            _partitions(member.target_assignment.topic_partitions),
            member.member_epoch,
            None if member.member_type == -1 else member.member_type == 0,
        )
        for member in row.members
    ]
    return ConsumerGroupDescription(
        row.group_id,
        CONSUMER_PROTOCOL_TYPE,
        row.assignor_name,
        members,
        CONSUMER,
        row.group_state,
        node,
        row.group_epoch,
        row.assignment_epoch,
    )


def _classic_group(row: DescribedClassicGroup, node: Node) -> ConsumerGroupDescription:
    members = [
        MemberDescription(
            member.member_id, member.group_instance_id, member.client_id, member.client_host, _classic_assignment(member.member_assignment)
        )
        for member in row.members
    ]
    return ConsumerGroupDescription(row.group_id, row.protocol_type, row.protocol_data, members, CLASSIC, row.group_state, node)


def _classic_assignment(data: bytes | memoryview) -> tuple[TopicPartition, ...]:
    """Decodes an assignment of the consumer protocol; its bytes begin with a version of two
    bytes.
    """
    if len(data) < 2:
        return ()
    version = int.from_bytes(data[:2], "big", signed=True)
    assignment, _ = ConsumerProtocolAssignment.read(memoryview(data), 2, min(max(version, 0), 3))
    return tuple(TopicPartition(row.topic, partition) for row in assignment.assigned_partitions for partition in row.partitions)
