"""Decides by the ACLs of the metadata log who may do what (Kafka's `StandardAuthorizer`).

    super user                                        allowed
    a DENY rule covers the action                     denied
    an ALLOW rule covers it                           allowed
    rules cover the resource, none the action         denied
    no rule covers the resource                       `allow.everyone.if.no.acl.found`, by default denied

A rule covers an action when its pattern covers the resource's name (`acl_index`), its principal is
the client's or `User:*`, its host is the client's address or `*`, and its operation is the action's
or ALL. ALLOW rules imply more: READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS allows
DESCRIBE_CONFIGS. DENY rules imply nothing.

Every node has its own authorizer, which a publisher (`acl_publisher`) feeds. Before it has seen the
metadata for the first time, it answers only for super users: for anybody else the rules would be
incomplete.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from kmirror.common.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    known,
    parse_kafka_principal,
)
from kmirror.common.acl import resource_type_name as type_name
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.uuid import Uuid
from kmirror.metadata.authorizer.acl_index import AclIndex
from kmirror.metadata.authorizer.authorizer import Action, AuthorizableRequestContext
from kmirror.metadata.authorizer.authorizer_metrics import AuthorizerMetrics
from kmirror.metadata.image import StandardAcl
from kmirror.wire.api_keys import API_TABLE

SUPER_USERS_CONFIG = "super.users"
ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG = "allow.everyone.if.no.acl.found"
AUTHORIZER_CONFIGS = (SUPER_USERS_CONFIG, ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG)

TRACE = 5
"""The level below DEBUG of Kafka's authorizer log, for checks whose outcome gave or refused no
access."""

_HARD_CODED_NAME = "hardcode"
_IMPLIES = {
    AclOperation.DESCRIBE: (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
}
_log = logging.getLogger(__name__)
_audit_log = logging.getLogger("kafka.authorizer.logger")


class StandardAuthorizer:
    """Decides by the rules that `load_snapshot`, `add_acl` and `remove_acl` have brought."""

    def __init__(self, *, super_users: Iterable[str] = (), allow_everyone_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._default = allow_everyone_if_no_acl_found
        self._loaded = False
        self._acls: dict[Uuid, StandardAcl] = {}
        self._index = AclIndex()
        self._metrics: AuthorizerMetrics | None = None

    def with_metrics(self, registry: MetricsRegistry, role: str) -> StandardAuthorizer:
        """Counts its decisions from now on, under the metrics of a node's `role` (broker or
        controller)."""
        self._metrics = AuthorizerMetrics(registry, role, lambda: self.acl_count)
        return self

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> StandardAuthorizer:
        """Raises ConfigError if a super user is not `type:name`."""
        users = [user.strip() for user in props.get(SUPER_USERS_CONFIG, "").split(";") if user.strip()]
        for user in users:
            try:
                parse_kafka_principal(user)
            except ApiException as error:
                raise ConfigError(f"Invalid value {user} for configuration {SUPER_USERS_CONFIG}: {error.message}") from error
        allow = props.get(ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, "").strip().lower() == "true"
        return cls(super_users=users, allow_everyone_if_no_acl_found=allow)

    # --- the rules --------------------------------------------------------------------------------

    def load_snapshot(self, acls: Mapping[Uuid, StandardAcl]) -> None:
        """Replaces all rules."""
        self._acls, self._index = {}, AclIndex()
        for acl_id, acl in acls.items():
            self.add_acl(acl_id, acl)
        _log.info("Initialized with %d acl(s).", len(acls))

    def add_acl(self, acl_id: Uuid, acl: StandardAcl) -> None:
        self.remove_acl(acl_id)
        self._acls[acl_id] = acl
        self._index.add(acl)

    def remove_acl(self, acl_id: Uuid) -> None:
        """Removes a rule; does nothing if there is no such rule."""
        acl = self._acls.pop(acl_id, None)
        if acl is not None:
            self._index.remove(acl)

    def complete_initial_load(self) -> None:
        """Answers for everybody from now on."""
        if not self._loaded:
            _log.info("Completed initial ACL load process.")
        self._loaded = True

    @property
    def acl_count(self) -> int:
        return len(self._acls)

    # --- decisions --------------------------------------------------------------------------------

    def authorize(self, context: AuthorizableRequestContext, action: Action) -> bool:
        """Raises ApiException if the rules are not loaded yet."""
        allowed, rule = self._judge(context, action)
        if self._metrics is not None:
            self._metrics.judged(allowed=allowed)
        level = _log_level(action, allowed=allowed)
        if _audit_log.isEnabledFor(level):
            _audit_log.log(level, "%s", _audit_message(context, action, rule, allowed=allowed))
        return allowed

    def authorize_by_resource_type(self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether some resource of this type exists, or could exist, on which the operation is
        allowed.

        Here no operation implies another, and an ALLOW rule counts unless a DENY rule of the same
        operation covers its whole pattern.
        """
        if self.authorize(context, Action(operation, resource_type, _HARD_CODED_NAME, 0, log_if_denied=False)):
            return True
        denied: set[tuple[int, str]] = set()
        allowed: set[tuple[int, str]] = set()
        for principal in dict.fromkeys((str(context.principal), WILDCARD_PRINCIPAL)):
            for acl in self._index.of_principal(resource_type, principal):
                if acl.host in (context.client_address, WILDCARD) and acl.operation in (operation, AclOperation.ALL):
                    patterns = denied if acl.permission_type == AclPermissionType.DENY else allowed
                    patterns.add((acl.pattern_type, acl.resource_name))
        any_name = (int(PatternType.LITERAL), WILDCARD)
        if any_name in denied:
            return False
        return any_name in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)

    def _judge(self, context: AuthorizableRequestContext, action: Action) -> tuple[bool, StandardAcl | str]:
        """Returns the decision, and the rule or the reason that it comes from."""
        principal = str(context.principal)
        if principal in self._super_users:
            return True, "SuperUser"
        if not self._loaded:
            raise ApiException(Errors.UNKNOWN_SERVER_ERROR, "The authorizer is not ready.")
        covering = self._index.covering(action.resource_type, action.resource_name)
        if not covering:
            return self._default, "DefaultAllow" if self._default else "DefaultDeny"
        found: StandardAcl | None = None
        for pattern in covering:
            for name in dict.fromkeys((principal, WILDCARD_PRINCIPAL)):
                for acl in self._index.rules(action.resource_type, name, pattern):
                    if not _covers(acl, context.client_address, action.operation):
                        continue
                    if acl.permission_type != AclPermissionType.ALLOW:
                        return False, acl
                    found = acl
        return (False, "DefaultDeny") if found is None else (True, found)


def _covers(acl: StandardAcl, client_address: str, operation: AclOperation) -> bool:
    """Whether host and operation match; the rule was already found by principal and pattern."""
    if acl.host not in (WILDCARD, client_address):
        return False
    if acl.operation in (AclOperation.ALL, operation):
        return True
    return acl.permission_type == AclPermissionType.ALLOW and acl.operation in _IMPLIES.get(operation, ())


def _is_dominated(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether DENY rules cover all that `pattern` allows: with the same literal, or with a prefix
    of its name."""
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any((int(PatternType.PREFIXED), name[:length]) in denied for length in range(1, len(name) + 1))


def _log_level(action: Action, *, allowed: bool) -> int:
    if allowed:
        return logging.DEBUG if action.log_if_allowed else TRACE
    return logging.INFO if action.log_if_denied else TRACE


def _audit_message(context: AuthorizableRequestContext, action: Action, rule: StandardAcl | str, *, allowed: bool) -> str:
    return (
        f"Principal = {context.principal} is {'Allowed' if allowed else 'Denied'} operation = {action.operation.name} "
        f"from host = {context.client_address} on resource = {type_name(action.resource_type)}:LITERAL:{action.resource_name} "
        f"for request = {API_TABLE[context.api_key].name} with resourceRefCount = {action.resource_reference_count} based on rule {_rule_text(rule)}"
    )


def _rule_text(rule: StandardAcl | str) -> str:
    if isinstance(rule, str):
        return rule
    resource_type, name, pattern_type, principal, host, operation, permission = rule
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={known(ResourceType, resource_type).name}, resourceName={name}, "
        f"patternType={known(PatternType, pattern_type).name}, principal={principal}, host={host}, "
        f"operation={known(AclOperation, operation).name}, permissionType={known(AclPermissionType, permission).name}))"
    )
