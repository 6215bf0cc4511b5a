"""Share groups (KIP-932), as far as their offsets need them.

| API | key | versions | authorised by |
|---|---|---|---|
| ShareGroupDescribe | 77 | 1 | Describe Group, and Describe Topic for what members have |
| DescribeShareGroupOffsets | 90 | 0-1 (v1 lag) | Describe Group, Describe Topic |
| AlterShareGroupOffsets | 91 | 0 | Read Group, Read Topic |
| DeleteShareGroupOffsets | 92 | 0 | Delete Group, Read Topic |

Answers UNSUPPORTED_VERSION while the feature share.version is 0 (the gate SHARE_GROUPS in
`broker_api_table`). A topic that the client may not describe is refused if it is named, and left
out of "all topics". Not served: ShareGroupHeartbeat, ShareFetch, ShareAcknowledge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_OFFSET
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.share_group_offsets import ShareGroupOffsets
from kmirror.server.apis.group_coordinators import authorize_group, coordinator_of
from kmirror.server.request import Request
from kmirror.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kmirror.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kmirror.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kmirror.wire.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def _share_groups(apis: KafkaApis) -> ShareGroupOffsets:
    share = coordinator_of(apis).share
    if share is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    return share


# -- ShareGroupDescribe
# -------------------------------------------------------------------------------------------------


async def handle_share_group_describe(apis: KafkaApis, request: Request) -> ShareGroupDescribeResponse:
    message: ShareGroupDescribeRequest = request.message
    return ShareGroupDescribeResponse(groups=[await _described(apis, request, group_id) for group_id in message.group_ids])


async def _described(apis: KafkaApis, request: Request, group_id: str) -> DescribedGroup:
    try:
        authorize_group(apis, request, AclOperation.DESCRIBE, group_id)
    except ApiException as error:
        return DescribedGroup(group_id=group_id, error_code=error.error)
    try:
        group = await _share_groups(apis).describe_group(group_id)
    except ApiException as error:
        text = error.error.message
        return DescribedGroup(group_id=group_id, error_code=error.error, error_message=text)
    names = sorted({topic.topic_name for member in group.members for topic in member.assignment.topic_partitions})
    if len(set(apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names))) < len(names):
        return DescribedGroup(group_id=group_id, error_code=Errors.TOPIC_AUTHORIZATION_FAILED, error_message=HIDDEN_TOPICS)
    if request.message.include_authorized_operations and group.error_code == Errors.NONE:
        group.authorized_operations = apis.auth.authorized_operations(request, ResourceType.GROUP, group_id)
    return group


# -- DescribeShareGroupOffsets
# ------------------------------------------------------------------------------------------


async def handle_describe_share_group_offsets(apis: KafkaApis, request: Request) -> DescribeShareGroupOffsetsResponse:
    message: DescribeShareGroupOffsetsRequest = request.message
    return DescribeShareGroupOffsetsResponse(groups=[await _describe_offsets(apis, request, group) for group in message.groups])


async def _describe_offsets(
    apis: KafkaApis, request: Request, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        authorize_group(apis, request, AclOperation.DESCRIBE, group.group_id)
    except ApiException as error:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=error.error)
    try:
        if group.topics is None:
            return await _describe_all_offsets(apis, request, group.group_id)
        return await _describe_named_offsets(apis, request, group)
    except ApiException as error:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=error.error, error_message=error.error.message)


async def _describe_all_offsets(apis: KafkaApis, request: Request, group_id: str) -> DescribeShareGroupOffsetsResponseGroup:
    described = await _share_groups(apis).describe_all(group_id)
    names = [topic.topic_name for topic in described.topics]
    seen = apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    described.topics = [topic for topic in described.topics if topic.topic_name in seen]
    return described


async def _describe_named_offsets(
    apis: KafkaApis, request: Request, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    topics = group.topics or []
    if not topics:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
    names = [topic.topic_name for topic in topics]
    seen = apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    allowed = DescribeShareGroupOffsetsRequestGroup(group.group_id, [topic for topic in topics if topic.topic_name in seen])
    described = await _share_groups(apis).describe(allowed)
    described.topics += [_hidden(topic) for topic in topics if topic.topic_name not in seen]
    return described


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    error = Errors.TOPIC_AUTHORIZATION_FAILED
    rows = [
        DescribeShareGroupOffsetsResponsePartition(
            partition_index=number, start_offset=NO_OFFSET, error_code=error, error_message=error.message
        )
        for number in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=rows)


# -- AlterShareGroupOffsets
# ---------------------------------------------------------------------------------------------


async def handle_alter_share_group_offsets(apis: KafkaApis, request: Request) -> AlterShareGroupOffsetsResponse:
    message: AlterShareGroupOffsetsRequest = request.message
    authorize_group(apis, request, AclOperation.READ, message.group_id)
    refused: list[AlterShareGroupOffsetsResponseTopic] = []
    accepted: list[AlterShareGroupOffsetsRequestTopic] = []
    for topic in message.topics:
        image = apis.metadata_cache.image.topics.topic(topic.topic_name)
        if not apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic.topic_name):
            refused.append(_alter_refused(topic, Uuid.ZERO if image is None else image.id, Errors.TOPIC_AUTHORIZATION_FAILED))
        elif image is None:
            refused.append(_alter_refused(topic, Uuid.ZERO, Errors.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            accepted.append(topic)
    response = await _share_groups(apis).alter(AlterShareGroupOffsetsRequest(group_id=message.group_id, topics=accepted))
    response.responses[:0] = refused
    return response


def _alter_refused(topic: AlterShareGroupOffsetsRequestTopic, topic_id: Uuid, error: Errors) -> AlterShareGroupOffsetsResponseTopic:
    rows = [AlterShareGroupOffsetsResponsePartition(partition.partition_index, error, error.message) for partition in topic.partitions]
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=rows)


# -- DeleteShareGroupOffsets
# --------------------------------------------------------------------------------------------


async def handle_delete_share_group_offsets(apis: KafkaApis, request: Request) -> DeleteShareGroupOffsetsResponse:
    message: DeleteShareGroupOffsetsRequest = request.message
    authorize_group(apis, request, AclOperation.DELETE, message.group_id)
    error = Errors.TOPIC_AUTHORIZATION_FAILED
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    accepted = []
    for topic in message.topics:
        if apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic.topic_name):
            accepted.append(topic)
        else:
            refused.append(DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, error_code=error, error_message=error.message))
    response = await _share_groups(apis).delete(DeleteShareGroupOffsetsRequest(group_id=message.group_id, topics=accepted))
    response.responses[:0] = refused
    return response
