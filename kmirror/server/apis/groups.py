"""Questions about groups, ListGroups (0-5) and DescribeGroups (0-6), and DeleteGroups (0-2).

ListGroups filters by state (KIP-518) and type (KIP-848). The other APIs for groups are elsewhere:
the rebalance protocols in `classic_groups` and `consumer_groups`, offsets in `group_offsets`, share
groups in `share_groups`. Streams groups are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException
from kmirror.runtime.api import run_together
from kmirror.server.apis.group_coordinators import authorize_group, coordinator_of
from kmirror.server.request import Request
from kmirror.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kmirror.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kmirror.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_list_groups(apis: KafkaApis, request: Request) -> ListGroupsResponse:
    message: ListGroupsRequest = request.message
    try:
        groups = await coordinator_of(apis).list_groups(message.states_filter, message.types_filter)
    except ApiException as error:
        return ListGroupsResponse(error_code=error.error)
    if not apis.auth.may_on_cluster(request, AclOperation.DESCRIBE, log_if_denied=False):
        names = [group.group_id for group in groups]
        seen = apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.GROUP, names, log_if_denied=False)
        groups = [group for group in groups if group.group_id in seen]
    return ListGroupsResponse(groups=groups)


async def handle_describe_groups(apis: KafkaApis, request: Request) -> DescribeGroupsResponse:
    message: DescribeGroupsRequest = request.message
    groups = [_described(apis, request, group_id, with_operations=message.include_authorized_operations) for group_id in message.groups]
    return DescribeGroupsResponse(groups=await run_together(apis.runtime, "describe-groups", groups))


async def _described(apis: KafkaApis, request: Request, group_id: str, *, with_operations: bool) -> DescribedGroup:
    try:
        authorize_group(apis, request, AclOperation.DESCRIBE, group_id)
        group = await coordinator_of(apis).describe_group(group_id, request.api_version)
    except ApiException as error:
        return DescribedGroup(group_id=group_id, error_code=error.error)
    if with_operations and not group.error_code:
        group.authorized_operations = apis.auth.authorized_operations(request, ResourceType.GROUP, group_id)
    return group


async def handle_delete_groups(apis: KafkaApis, request: Request) -> DeleteGroupsResponse:
    message: DeleteGroupsRequest = request.message
    deletions = [_deleted(apis, request, group_id) for group_id in dict.fromkeys(message.groups_names)]
    return DeleteGroupsResponse(results=await run_together(apis.runtime, "delete-groups", deletions))


async def _deleted(apis: KafkaApis, request: Request, group_id: str) -> DeletableGroupResult:
    try:
        authorize_group(apis, request, AclOperation.DELETE, group_id)
        return await coordinator_of(apis).delete_group(group_id)
    except ApiException as error:
        return DeletableGroupResult(group_id=group_id, error_code=error.error)
