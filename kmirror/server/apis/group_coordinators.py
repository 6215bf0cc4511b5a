"""The broker's group coordinator, as the handlers of groups get at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.group_coordinator import GroupCoordinator

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


def coordinator_of(apis: KafkaApis) -> GroupCoordinator:
    """The group coordinator; COORDINATOR_NOT_AVAILABLE on a broker that has none."""
    coordinator: GroupCoordinator | None = apis.group_coordinator
    if coordinator is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    return coordinator
