"""Questions about groups and their deletion: ListGroups (0-5), DescribeGroups (0-6), DeleteGroups (0-2).

ListGroups filters by state (KIP-518) and type (KIP-848). `HANDLERS` holds the APIs of all files of groups: the rebalance protocols in
`classic_groups` and `consumer_groups`, offsets in `group_offsets`. Share and streams groups are not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException
from kmirror.server.apis import classic_groups, group_offsets
from kmirror.server.apis.group_coordinators import coordinator_of
from kmirror.server.request_context import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kmirror.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kmirror.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_list_groups(apis: KafkaApis, request: Request) -> ListGroupsResponse:
    message: ListGroupsRequest = request.message
    try:
        return ListGroupsResponse(groups=await coordinator_of(apis).list_groups(message.states_filter, message.types_filter))
    except ApiException as error:
        return ListGroupsResponse(error_code=error.error)


async def handle_describe_groups(apis: KafkaApis, request: Request) -> DescribeGroupsResponse:
    message: DescribeGroupsRequest = request.message
    groups = []
    for group_id in message.groups:
        try:
            groups.append(await coordinator_of(apis).describe_group(group_id, request.api_version))
        except ApiException as error:
            groups.append(DescribedGroup(group_id=group_id, error_code=error.error))
    return DescribeGroupsResponse(groups=groups)


async def handle_delete_groups(apis: KafkaApis, request: Request) -> DeleteGroupsResponse:
    message: DeleteGroupsRequest = request.message
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        try:
            results.append(await coordinator_of(apis).delete_group(group_id))
        except ApiException as error:
            results.append(DeletableGroupResult(group_id=group_id, error_code=error.error))
    return DeleteGroupsResponse(results=results)


HANDLERS = {
    **classic_groups.HANDLERS,
    **group_offsets.HANDLERS,
    ApiKeys.LIST_GROUPS: handle_list_groups,
    ApiKeys.DESCRIBE_GROUPS: handle_describe_groups,
    ApiKeys.DELETE_GROUPS: handle_delete_groups,
}
