"""DescribeAcls, as brokers and the controller answer it: the rules that match a filter, grouped by
resource pattern."""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType, known
from kmirror.metadata.authorizer.acl_filter import AclBindingFilter
from kmirror.metadata.image import StandardAcl
from kmirror.wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse

NO_AUTHORIZER = "No Authorizer is configured on the broker"


def describe_acls(message: DescribeAclsRequest, acls: Iterable[StandardAcl]) -> DescribeAclsResponse:
    wanted = AclBindingFilter(
        resource_type=known(ResourceType, message.resource_type_filter),
        resource_name=message.resource_name_filter,
        pattern_type=known(PatternType, message.pattern_type_filter),
        principal=message.principal_filter,
        host=message.host_filter,
        operation=known(AclOperation, message.operation),
        permission_type=known(AclPermissionType, message.permission_type),
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls:
        if wanted.matches(acl):
            pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
            resource = resources.setdefault(pattern, DescribeAclsResource(*pattern))
            description = AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
            resource.acls.append(description)
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))
