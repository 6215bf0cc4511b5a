"""AdminClient calls about access rules (ACLs)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_for
from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException
from kmirror.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kmirror.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kmirror.wire.messages.describe_acls import DescribeAclsRequest


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One rule: who may, or may not, do what with which resources."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Selects rules: None, ANY and (for patterns) MATCH widen the selection."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def fields(self) -> dict[str, Any]:
        """Returns the filter's fields as describe and delete requests have them."""
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.name,
            "pattern_type_filter": self.pattern_type,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission_type,
        }


async def describe_acls(cluster: AdminRequests, binding_filter: AclBindingFilter | None = None) -> list[AclBinding]:
    """Returns every rule that the filter matches."""
    request = DescribeAclsRequest(**(binding_filter or AclBindingFilter()).fields())
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    return [
        _binding(row, resource.resource_type, resource.resource_name, resource.pattern_type)
        for resource in response.resources
        for row in resource.acls
    ]


async def create_acls(cluster: AdminRequests, bindings: Iterable[AclBinding]) -> dict[AclBinding, ApiException | None]:
    """Adds rules (adding an existing rule is no error); returns the outcome of each."""
    wanted = list(bindings)
    creations = [
        AclCreation(
            resource_type=row.resource_type,
            resource_name=row.name,
            resource_pattern_type=row.pattern_type,
            principal=row.principal,
            host=row.host,
            operation=row.operation,
            permission_type=row.permission_type,
        )
        for row in wanted
    ]
    response = await cluster.ask_any(CreateAclsRequest(creations=creations))
    return {row: error_of(answer.error_code, answer.error_message) for row, answer in zip(wanted, response.results, strict=True)}


async def delete_acls(cluster: AdminRequests, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, list[AclBinding]]:
    """Deletes every rule that a filter matches; returns the deleted rules by filter.

    Raises the first failure.
    """
    wanted = list(filters)
    rows = [DeleteAclsFilter(**row.fields()) for row in wanted]
    response = await cluster.ask_any(DeleteAclsRequest(filters=rows))
    result = {}
    for row, answer in zip(wanted, response.filter_results, strict=True):
        raise_for(answer.error_code, answer.error_message)
        deleted = []
        for acl in answer.matching_acls:
            raise_for(acl.error_code, acl.error_message)
            deleted.append(_binding(acl, acl.resource_type, acl.resource_name, acl.pattern_type))
        result[row] = deleted
    return result


def _binding(row: Any, resource_type: int, name: str, pattern_type: int) -> AclBinding:
    """Returns the rule; `row` has its half that says who and what."""
    return AclBinding(
        ResourceType(resource_type),
        name,
        PatternType(pattern_type),
        row.principal,
        row.host,
        AclOperation(row.operation),
        AclPermissionType(row.permission_type),
    )
