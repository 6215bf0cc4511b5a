"""The consumer rebalance protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

| API | versions | remarks |
|---|---|---|
| ConsumerGroupHeartbeat | 0-1 | v1 SubscribedTopicRegex, and the member makes its own id (KIP-1082) |
| ConsumerGroupDescribe | 0-1 | v1 MemberType (KIP-1099) |

Answers UNSUPPORTED_VERSION while the feature group.version is 0, or when
`group.coordinator.rebalance.protocols` does not contain "consumer": the gate CONSUMER_GROUPS in
`broker_api_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.runtime.api import run_together
from kmirror.server.apis.group_coordinators import authorize_group, coordinator_of, requester_of
from kmirror.server.request import Request
from kmirror.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_consumer_group_heartbeat(apis: KafkaApis, request: Request) -> ConsumerGroupHeartbeatResponse:
    message: ConsumerGroupHeartbeatRequest = request.message
    try:
        authorize_group(apis, request, AclOperation.READ, message.group_id)
        names = message.subscribed_topic_names or []
        if len(set(apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names))) < len(set(names)):
            raise ApiException(Errors.TOPIC_AUTHORIZATION_FAILED)
        return await coordinator_of(apis).consumer_group_heartbeat(message, request.api_version, requester_of(apis, request))
    except ApiException as error:
        text = None if error.message == error.error.message else error.message
        return ConsumerGroupHeartbeatResponse(error_code=error.error, error_message=text)


async def handle_consumer_group_describe(apis: KafkaApis, request: Request) -> ConsumerGroupDescribeResponse:
    message: ConsumerGroupDescribeRequest = request.message
    groups = [_described(apis, request, group_id, with_operations=message.include_authorized_operations) for group_id in message.group_ids]
    return ConsumerGroupDescribeResponse(groups=await run_together(apis.runtime, "describe-groups", groups))


async def _described(apis: KafkaApis, request: Request, group_id: str, *, with_operations: bool) -> DescribedGroup:
    try:
        authorize_group(apis, request, AclOperation.DESCRIBE, group_id)
        group = await coordinator_of(apis).describe_consumer_group(group_id)
    except ApiException as error:
        return DescribedGroup(group_id=group_id, error_code=error.error)
    if with_operations and group.error_code == Errors.NONE:
        group.authorized_operations = apis.auth.authorized_operations(request, ResourceType.GROUP, group_id)
    return group if _may_see_topics(apis, request, group) else _without_topics(group)


def _may_see_topics(apis: KafkaApis, request: Request, group: DescribedGroup) -> bool:
    names = sorted(
        {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
    )
    return len(set(apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names))) == len(names)


def _without_topics(group: DescribedGroup) -> DescribedGroup:
    text = "The group has described topic(s) that the client is not authorized to describe."
    return DescribedGroup(group_id=group.group_id, error_code=Errors.TOPIC_AUTHORIZATION_FAILED, error_message=text)
