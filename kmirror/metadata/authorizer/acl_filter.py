"""Which rules match a filter (Kafka's `AclBindingFilter`): DescribeAcls lists them, DeleteAcls
removes them.

A null name, principal or host matches every one, and so does ANY as a type, an operation or a
permission. Pattern type ANY compares the name with a pattern's own name; MATCH matches the patterns
that cover the name; LITERAL and PREFIXED match patterns of that type and name. A number that Kafka
does not know counts as UNKNOWN, which matches nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.acl import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.metadata.image import StandardAcl


class AclBindingFilter(NamedTuple):
    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, acl: StandardAcl) -> bool:
        return self._matches_pattern(acl) and self._matches_entry(acl)

    def _matches_entry(self, acl: StandardAcl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermissionType.ANY, acl.permission_type)
        )

    def _matches_pattern(self, acl: StandardAcl) -> bool:
        if self.resource_type not in (ResourceType.ANY, acl.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        name = self.resource_name
        if name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)
