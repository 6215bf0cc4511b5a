"""The interface between request handlers (`AuthHelper`) and an authorizer (`StandardAuthorizer`);
Kafka's `Authorizer` and `Action`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.wire.api_keys import ApiKeys


class AuthorizableRequestContext(Protocol):
    """The parts of a request that a rule can refer to, and those that the log shows."""

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def client_address(self) -> str: ...

    @property
    def api_key(self) -> ApiKeys: ...


class Action(NamedTuple):
    """What a request wants to do with one resource, given by its name, never by a pattern.

    `log_if_allowed` is false if the permission gives no access (bit fields of allowed operations),
    `log_if_denied` if the request did not name the resource (lists that are filtered).
    """

    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    resource_reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


class Authorizer(Protocol):
    def authorize(self, context: AuthorizableRequestContext, action: Action) -> bool:
        """Whether `context` may do `action`."""
        ...

    def authorize_by_resource_type(self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is at least one resource of this type on which `context` may do
        `operation`."""
        ...
