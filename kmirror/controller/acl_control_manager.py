"""Creates and deletes ACL rules (Kafka's `AclControlManager`), with one result per rule or filter,
independent of the others.

Creating a rule that exists succeeds without a record. The records of one request are written
together, so a request that would write more than MAX_RECORDS_PER_USER_OP records is refused as a
whole.
"""

from __future__ import annotations

from typing import NoReturn

from kmirror.common.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType, known
from kmirror.common.errors import ApiException, Errors, IllegalArgumentException
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.authorizer.acl_filter import AclBindingFilter
from kmirror.metadata.image import StandardAcl
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.wire.messages.access_control_entry_record import AccessControlEntryRecord
from kmirror.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kmirror.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kmirror.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

MAX_RECORDS_PER_USER_OP = 10_000


class AclControlManager:
    """Decides about ACL rules."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def create_acls(self, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
        if any(map(_is_for_filters, request.creations)):
            raise IllegalArgumentException("A rule cannot be for ANY type, operation or permission")
        created: set[StandardAcl] = set()
        records: list[ApiMessageAndVersion] = []
        results: list[AclCreationResult] = []
        for creation in request.creations:
            try:
                acl = _validated(creation)
            except ApiException as error:
                results.append(AclCreationResult(error_code=error.error, error_message=error.message))
                continue
            if acl not in created and not self._state.lookups.has_acl(acl):
                created.add(acl)
                records.append(ApiMessageAndVersion(AccessControlEntryRecord(id=self._new_id(), **acl._asdict()), 0))
                if len(records) > MAX_RECORDS_PER_USER_OP:
                    _refuse_batch()
            results.append(AclCreationResult(error_message=""))
        return ControllerResult(records, CreateAclsResponse(results=results))

    def delete_acls(self, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
        """A rule that several filters match is in the result of each, and is removed once."""
        removed: dict[Uuid, None] = {}
        results: list[DeleteAclsFilterResult] = []
        for entry in request.filters:
            wanted = _filter(entry)
            unknown = _unknown_half(wanted)
            if unknown is not None:
                results.append(DeleteAclsFilterResult(error_code=Errors.INVALID_REQUEST, error_message=f"Unknown {unknown}."))
                continue
            matching = [(acl_id, acl) for acl_id, acl in self._state.image.acls.items() if wanted.matches(acl)]
            removed.update(dict.fromkeys(acl_id for acl_id, _ in matching))
            if len(removed) > MAX_RECORDS_PER_USER_OP:
                _refuse_batch()
            rows = [DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for _, acl in matching]
            results.append(DeleteAclsFilterResult(error_message=None, matching_acls=rows))
        records = [ApiMessageAndVersion(RemoveAccessControlEntryRecord(id=acl_id), 0) for acl_id in removed]
        return ControllerResult(records, DeleteAclsResponse(filter_results=results))

    def _new_id(self) -> Uuid:
        while True:
            acl_id = Uuid.random(self._state.random)
            if acl_id not in self._state.image.acls:
                return acl_id


def _is_for_filters(creation: AclCreation) -> bool:
    """Whether a rule has a value that only filters may have; Kafka's AccessControlEntry and
    ResourcePattern refuse it, for the whole request."""
    return (
        creation.resource_type == ResourceType.ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.operation == AclOperation.ANY
        or creation.permission_type == AclPermissionType.ANY
    )


def _validated(creation: AclCreation) -> StandardAcl:
    """Returns the rule; raises ApiException INVALID_REQUEST if it cannot be one."""
    resource_type, pattern_type = known(ResourceType, creation.resource_type), known(PatternType, creation.resource_pattern_type)
    operation, permission = known(AclOperation, creation.operation), known(AclPermissionType, creation.permission_type)
    if resource_type is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        _refuse(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        _refuse("Invalid empty resource name")
    if resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        _refuse(f"Invalid resourceType {resource_type.name}")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        _refuse(f"Invalid patternType {pattern_type.name}")
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        _refuse(f"Invalid operation {operation.name}")
    if permission not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        _refuse(f"Invalid permissionType {permission.name}")
    if ":" not in creation.principal:
        _refuse(
            f"Could not parse principal from `{creation.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return StandardAcl(resource_type, creation.resource_name, pattern_type, creation.principal, creation.host, operation, permission)


def _filter(entry: DeleteAclsFilter) -> AclBindingFilter:
    return AclBindingFilter(
        resource_type=known(ResourceType, entry.resource_type_filter),
        resource_name=entry.resource_name_filter,
        pattern_type=known(PatternType, entry.pattern_type_filter),
        principal=entry.principal_filter,
        host=entry.host_filter,
        operation=known(AclOperation, entry.operation),
        permission_type=known(AclPermissionType, entry.permission_type),
    )


def _unknown_half(wanted: AclBindingFilter) -> str | None:
    """Returns the half of a filter that has a number unknown to Kafka, or None."""
    if 0 in (wanted.resource_type, wanted.pattern_type):
        return "patternFilter"
    return "entryFilter" if 0 in (wanted.operation, wanted.permission_type) else None


def _refuse(message: str) -> NoReturn:
    raise ApiException(Errors.INVALID_REQUEST, message)


def _refuse_batch() -> NoReturn:
    raise ApiException(Errors.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
