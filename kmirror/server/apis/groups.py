"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, OffsetDelete, List/Describe/DeleteGroups.

| API | versions | remarks |
|---|---|---|
| JoinGroup | 0-9 | v4 MEMBER_ID_REQUIRED (KIP-394), v5 static members (KIP-345), v8 reason (KIP-800), v9 skipAssignment (KIP-814) |
| SyncGroup, Heartbeat, LeaveGroup | 0-5, 0-4, 0-5 | LeaveGroup v3 several members |
| OffsetCommit | 2-10 | v10 topic ids (KIP-848); v2-4 retention time |
| OffsetFetch | 1-10 | v2 all topics, v7 require_stable (no open transactions here: always stable), v8 several groups, v10 topic ids |
| OffsetDelete | 0 | KIP-496 |
| ListGroups, DescribeGroups, DeleteGroups | 0-5, 0-6, 0-2 | filters by state (KIP-518) and type (KIP-848) |

Not served: consumer, share and streams groups; so `group.version` groups in ListGroups are never there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.coordinator.group.group_records import OffsetAndMetadata
from kmirror.metadata.image import TopicsImage
from kmirror.server.request_context import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kmirror.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kmirror.wire.messages.heartbeat import HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kmirror.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kmirror.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kmirror.wire.messages.offset_delete import OffsetDeleteResponse
from kmirror.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kmirror.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

INVALID_OFFSET = -1
NULLABLE_PROTOCOL_VERSION = 7
SYNC_PROTOCOL_REQUIRED_VERSION = 5
LEAVE_SEVERAL_VERSION = 3
OFFSET_TOPIC_ID_VERSION = 10
OFFSET_FETCH_GROUPS_VERSION = 8
OFFSET_FETCH_TOP_ERROR_VERSION = 2


def _coordinator(apis: KafkaApis) -> GroupCoordinator:
    coordinator: GroupCoordinator | None = apis.group_coordinator
    if coordinator is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    return coordinator


def _topics(apis: KafkaApis) -> TopicsImage:
    return apis.metadata_cache.image.topics


# -- the rebalance protocol -----------------------------------------------------------------------------------------


async def handle_join_group(apis: KafkaApis, request: Request) -> JoinGroupResponse:
    try:
        response = await _coordinator(apis).join_group(
            request.message, request.api_version, request.client_id or "", f"/{request.client_address}"
        )
    except ApiException as error:
        response = JoinGroupResponse(member_id=request.message.member_id, error_code=error.error)
    if response.error_code != Errors.NONE and not response.protocol_name:
        response.protocol_name = None
    if request.api_version < NULLABLE_PROTOCOL_VERSION and response.protocol_name is None:
        response.protocol_name = ""
    return response


async def handle_sync_group(apis: KafkaApis, request: Request) -> SyncGroupResponse:
    message = request.message
    if request.api_version >= SYNC_PROTOCOL_REQUIRED_VERSION and (message.protocol_type is None or message.protocol_name is None):
        return SyncGroupResponse(error_code=Errors.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return await _coordinator(apis).sync_group(message)
    except ApiException as error:
        return SyncGroupResponse(error_code=error.error)


async def handle_heartbeat(apis: KafkaApis, request: Request) -> HeartbeatResponse:
    try:
        return await _coordinator(apis).heartbeat(request.message)
    except ApiException as error:
        # A member keeps its session while the group is loading (Kafka's GroupCoordinatorService.heartbeat).
        loading = error.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=Errors.NONE if loading else error.error)


async def handle_leave_group(apis: KafkaApis, request: Request) -> LeaveGroupResponse:
    message: LeaveGroupRequest = request.message
    if request.api_version < LEAVE_SEVERAL_VERSION:
        message = LeaveGroupRequest(group_id=message.group_id, members=[MemberIdentity(member_id=message.member_id)])
    try:
        response = await _coordinator(apis).leave_group(message)
    except ApiException as error:
        response = LeaveGroupResponse(error_code=error.error)
        if error.error is Errors.UNKNOWN_MEMBER_ID:  # no such group: said of each member, as Kafka does
            unknown = [MemberResponse(member.member_id, member.group_instance_id, error.error) for member in message.members]
            response = LeaveGroupResponse(members=unknown)
    if request.api_version < LEAVE_SEVERAL_VERSION:
        error_code = response.error_code or next((member.error_code for member in response.members), 0)
        response = LeaveGroupResponse(error_code=error_code)
    return response


# -- offsets --------------------------------------------------------------------------------------------------------


async def handle_offset_commit(apis: KafkaApis, request: Request) -> OffsetCommitResponse:
    """Unknown topics and partitions get their error here; what is left goes to the coordinator."""
    message: OffsetCommitRequest = request.message
    topics = _topics(apis)
    refused: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    for topic in message.topics:
        by_id = request.api_version >= OFFSET_TOPIC_ID_VERSION
        image = topics.topic_by_id(topic.topic_id) if by_id else topics.topic(topic.name)
        known = [p for p in topic.partitions if image is not None and p.partition_index in image.partitions]
        error = Errors.UNKNOWN_TOPIC_ID if by_id and image is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
        if len(known) < len(topic.partitions):
            unknown = [p for p in topic.partitions if p not in known]
            partitions = [OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in unknown]
            refused.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        if image is not None and known:
            accepted.append(OffsetCommitRequestTopic(name=image.name, topic_id=image.id, partitions=known))
    message.topics = accepted
    try:
        response = await _coordinator(apis).commit_offsets(message) if accepted else OffsetCommitResponse()
    except ApiException as error_of_all:
        response = _commit_error(accepted, error_of_all.error)
    for answered in response.topics:
        if request.api_version >= OFFSET_TOPIC_ID_VERSION:
            answered.name = ""
        else:
            answered.topic_id = Uuid.ZERO
    response.topics += refused
    return response


def _commit_error(topics: list[OffsetCommitRequestTopic], error: Errors) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in topic.partitions],
            )
            for topic in topics
        ]
    )


async def handle_offset_fetch(apis: KafkaApis, request: Request) -> OffsetFetchResponse:
    message: OffsetFetchRequest = request.message
    if request.api_version < OFFSET_FETCH_GROUPS_VERSION:
        topics = (
            None
            if message.topics is None
            else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in message.topics]
        )
        group = await _fetch_group(apis, OffsetFetchRequestGroup(group_id=message.group_id, topics=topics), request.api_version)
        return _as_single_group(group, request.api_version, topics)
    return OffsetFetchResponse(groups=[await _fetch_group(apis, group, request.api_version) for group in message.groups])


async def _fetch_group(apis: KafkaApis, group: OffsetFetchRequestGroup, api_version: int) -> OffsetFetchResponseGroup:
    by_id = api_version >= OFFSET_TOPIC_ID_VERSION
    topics = _topics(apis)
    wanted: dict[str, list[int]] | None = None
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        wanted = {}
        for topic in group.topics:
            image = topics.topic_by_id(topic.topic_id) if by_id else None
            if by_id and image is None:
                unknown.append(_unknown_topic(topic))
            else:
                wanted[image.name if image is not None else topic.name] = list(topic.partition_indexes)
    try:
        found = await _coordinator(apis).fetch_offsets(group.group_id, wanted)
    except ApiException as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.error)
    answers = []
    for name, partitions in found.items():
        image = topics.topic(name)
        if by_id and image is None:
            continue
        answers.append(
            OffsetFetchResponseTopics(
                name="" if by_id else name,
                topic_id=image.id if by_id and image is not None else Uuid.ZERO,
                partitions=[_offset(index, committed) for index, committed in partitions.items()],
            )
        )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=answers + unknown)


def _offset(index: int, committed: OffsetAndMetadata | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _unknown_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, error_code=Errors.UNKNOWN_TOPIC_ID)
            for index in topic.partition_indexes
        ],
    )


def _as_single_group(
    group: OffsetFetchResponseGroup, api_version: int, asked: list[OffsetFetchRequestTopics] | None
) -> OffsetFetchResponse:
    """Before v8 there is one group, and before v2 its error stands in every partition."""
    if group.error_code and api_version < OFFSET_FETCH_TOP_ERROR_VERSION:
        group.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, error_code=group.error_code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked or []
        ]
    return OffsetFetchResponse(
        error_code=group.error_code if api_version >= OFFSET_FETCH_TOP_ERROR_VERSION else 0,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


async def handle_offset_delete(apis: KafkaApis, request: Request) -> OffsetDeleteResponse:
    try:
        return await _coordinator(apis).delete_offsets(request.message)
    except ApiException as error:
        return OffsetDeleteResponse(error_code=error.error)


# -- groups ---------------------------------------------------------------------------------------------------------


async def handle_list_groups(apis: KafkaApis, request: Request) -> ListGroupsResponse:
    message: ListGroupsRequest = request.message
    try:
        return ListGroupsResponse(groups=await _coordinator(apis).list_groups(message.states_filter, message.types_filter))
    except ApiException as error:
        return ListGroupsResponse(error_code=error.error)


async def handle_describe_groups(apis: KafkaApis, request: Request) -> DescribeGroupsResponse:
    message: DescribeGroupsRequest = request.message
    groups = []
    for group_id in message.groups:
        try:
            groups.append(await _coordinator(apis).describe_group(group_id, request.api_version))
        except ApiException as error:
            groups.append(DescribedGroup(group_id=group_id, error_code=error.error))
    return DescribeGroupsResponse(groups=groups)


async def handle_delete_groups(apis: KafkaApis, request: Request) -> DeleteGroupsResponse:
    message: DeleteGroupsRequest = request.message
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        try:
            results.append(await _coordinator(apis).delete_group(group_id))
        except ApiException as error:
            results.append(DeletableGroupResult(group_id=group_id, error_code=error.error))
    return DeleteGroupsResponse(results=results)


HANDLERS = {
    ApiKeys.JOIN_GROUP: handle_join_group,
    ApiKeys.SYNC_GROUP: handle_sync_group,
    ApiKeys.HEARTBEAT: handle_heartbeat,
    ApiKeys.LEAVE_GROUP: handle_leave_group,
    ApiKeys.OFFSET_COMMIT: handle_offset_commit,
    ApiKeys.OFFSET_FETCH: handle_offset_fetch,
    ApiKeys.OFFSET_DELETE: handle_offset_delete,
    ApiKeys.LIST_GROUPS: handle_list_groups,
    ApiKeys.DESCRIBE_GROUPS: handle_describe_groups,
    ApiKeys.DELETE_GROUPS: handle_delete_groups,
}
