"""The classic rebalance protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

| API | versions | remarks |
|---|---|---|
| JoinGroup | 0-9 | v4 MEMBER_ID_REQUIRED (KIP-394), v5 static members (KIP-345), v8 reason (KIP-800), v9 skipAssignment (KIP-814) |
| SyncGroup, Heartbeat, LeaveGroup | 0-5, 0-4, 0-5 | LeaveGroup v3 several members |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation
from kmirror.common.errors import ApiException, Errors
from kmirror.server.apis.group_coordinators import authorize_group, coordinator_of, requester_of
from kmirror.server.request import Request
from kmirror.wire.messages.heartbeat import HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kmirror.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

NULLABLE_PROTOCOL_VERSION = 7
SYNC_PROTOCOL_REQUIRED_VERSION = 5
LEAVE_SEVERAL_VERSION = 3


async def handle_join_group(apis: KafkaApis, request: Request) -> JoinGroupResponse:
    try:
        authorize_group(apis, request, AclOperation.READ, request.message.group_id)
        response = await coordinator_of(apis).join_group(request.message, request.api_version, requester_of(apis, request))
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
        authorize_group(apis, request, AclOperation.READ, message.group_id)
        return await coordinator_of(apis).sync_group(message)
    except ApiException as error:
        return SyncGroupResponse(error_code=error.error)


async def handle_heartbeat(apis: KafkaApis, request: Request) -> HeartbeatResponse:
    try:
        authorize_group(apis, request, AclOperation.READ, request.message.group_id)
        return await coordinator_of(apis).heartbeat(request.message)
    except ApiException as error:
        # A member keeps its session while the group is loading (Kafka's
        # GroupCoordinatorService.heartbeat).
        loading = error.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=Errors.NONE if loading else error.error)


async def handle_leave_group(apis: KafkaApis, request: Request) -> LeaveGroupResponse:
    message: LeaveGroupRequest = request.message
    if request.api_version < LEAVE_SEVERAL_VERSION:
        message = LeaveGroupRequest(group_id=message.group_id, members=[MemberIdentity(member_id=message.member_id)])
    try:
        authorize_group(apis, request, AclOperation.READ, message.group_id)
        response = await coordinator_of(apis).leave_group(message)
    except ApiException as error:
        response = LeaveGroupResponse(error_code=error.error)
        if error.error is Errors.UNKNOWN_MEMBER_ID:  # there is no such group: each member gets the error, as in Kafka
            unknown = [MemberResponse(member.member_id, member.group_instance_id, error.error) for member in message.members]
            response = LeaveGroupResponse(members=unknown)
    if request.api_version < LEAVE_SEVERAL_VERSION:
        error_code = response.error_code or next((member.error_code for member in response.members), 0)
        response = LeaveGroupResponse(error_code=error_code)
    return response
