"""Access rules judged the obvious way: every rule is looked at, one after the other, for every
question.

Written from Kafka's documentation of ACLs, to be compared with `StandardAuthorizer`. Numbers are
Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.metadata.image import StandardAcl

LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11


def is_about(acl: StandardAcl, resource_type: int, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name == name or acl.resource_name == "*"


def is_for(acl: StandardAcl, principal: str, host: str) -> bool:
    return (acl.principal == principal or acl.principal == "User:*") and (acl.host == host or acl.host == "*")


def says_something_of(acl: StandardAcl, operation: int) -> bool:
    if acl.operation == ALL or acl.operation == operation:
        return True
    if acl.permission_type == DENY:
        return False
    if operation == DESCRIBE:
        return acl.operation in (READ, WRITE, DELETE, ALTER)
    return operation == DESCRIBE_CONFIGS and acl.operation == ALTER_CONFIGS


def is_allowed(
    acls: Iterable[StandardAcl],
    *,
    principal: str,
    host: str,
    operation: int,
    resource_type: int,
    name: str,
    super_users: Iterable[str] = (),
    allow_if_none: bool = False,
) -> bool:
    if principal in super_users:
        return True
    about = [acl for acl in acls if is_about(acl, resource_type, name)]
    if not about:
        return allow_if_none
    heard = [acl for acl in about if is_for(acl, principal, host) and says_something_of(acl, operation)]
    return bool(heard) and all(acl.permission_type == ALLOW for acl in heard)


def is_allowed_somewhere(
    acls: Iterable[StandardAcl], names: Iterable[str], *, principal: str, host: str, operation: int, resource_type: int
) -> bool:
    """Whether one of `names` (all that the rules can tell apart) may be used; rules that imply the
    operation do not count.
    """
    acls = [acl for acl in acls if acl.operation in (ALL, operation)]
    return any(
        is_allowed(acls, principal=principal, host=host, operation=operation, resource_type=resource_type, name=name) for name in names
    )
