"""Helpers with which the handlers for groups reach the broker's group coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.consumer_group_patterns import Requester
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.server.request import Request

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


def authorize_group(apis: KafkaApis, request: Request, operation: AclOperation, group_id: str) -> None:
    """ApiException GROUP_AUTHORIZATION_FAILED unless the client may do `operation` with the group."""
    if not apis.authorize(request, operation, ResourceType.GROUP, group_id):
        raise ApiException(Errors.GROUP_AUTHORIZATION_FAILED)


def coordinator_of(apis: KafkaApis) -> GroupCoordinator:
    """Returns the group coordinator; COORDINATOR_NOT_AVAILABLE on a broker that has none."""
    coordinator = apis.group_coordinator
    if coordinator is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    return coordinator


def requester_of(apis: KafkaApis, request: Request) -> Requester:
    """Returns who asks, as groups remember it, and which topics the client may describe.

    The topics are needed for patterns that are resolved after the request.
    """

    def describable_topics(names: Iterable[str]) -> Iterable[str]:
        return apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names, log_if_denied=False)

    return Requester(request.client_id or "", f"/{request.client_address}", describable_topics)
