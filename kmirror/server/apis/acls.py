"""DescribeAcls (key 29), CreateAcls (30), DeleteAcls (31).

Served: v1-v3 each (v1 pattern types, v2 flexible, v3 resource type USER).

Every broker answers DescribeAcls from its metadata; it needs DESCRIBE on the cluster. The other two
are forwarded: the controller checks ALTER on the cluster and writes. Without
`authorizer.class.name` all three answer SECURITY_DISABLED. UNKNOWN (0) as a type, an operation or a
permission closes the connection, as in Kafka, which cannot read such a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kmirror.common.acl import AclOperation
from kmirror.common.errors import Errors
from kmirror.metadata.authorizer.acl_descriptions import NO_AUTHORIZER, describe_acls
from kmirror.server.request import CLOSE_CONNECTION, Request
from kmirror.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

UNKNOWN = 0


async def handle_describe_acls(apis: KafkaApis, request: Request) -> Any:
    message: DescribeAclsRequest = request.message
    if UNKNOWN in (message.pattern_type_filter, message.resource_type_filter, message.operation, message.permission_type):
        return CLOSE_CONNECTION
    apis.auth.authorize_cluster_operation(request, AclOperation.DESCRIBE)
    if apis.auth.authorizer is None:
        return DescribeAclsResponse(error_code=Errors.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return describe_acls(message, apis.metadata_cache.image.acls.values())


async def handle_create_acls(apis: KafkaApis, request: Request) -> Any:
    for creation in request.message.creations:
        if UNKNOWN in (creation.resource_pattern_type, creation.resource_type, creation.permission_type, creation.operation):
            return CLOSE_CONNECTION
    return await apis.controller.forward(request)


async def handle_delete_acls(apis: KafkaApis, request: Request) -> Any:
    for entry in request.message.filters:
        if UNKNOWN in (entry.pattern_type_filter, entry.resource_type_filter, entry.operation, entry.permission_type):
            return CLOSE_CONNECTION
    return await apis.controller.forward(request)
