"""The state of share partitions, between brokers (KIP-932).

| API | key | versions | remarks |
|---|---|---|---|
| InitializeShareGroupState | 83 | 0 | |
| ReadShareGroupState | 84 | 0 | stores the leader epoch that it names |
| WriteShareGroupState | 85 | 0-1 | v1 DeliveryCompleteCount |
| DeleteShareGroupState | 86 | 0 | |
| ReadShareGroupStateSummary | 87 | 0-1 | v1 DeliveryCompleteCount |

All need ClusterAction on the cluster (`broker_api_table`); without it each share partition of the
request gets CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.server.request import Request
from kmirror.wire.messages.delete_share_group_state import DeleteShareGroupStateResponse
from kmirror.wire.messages.initialize_share_group_state import InitializeShareGroupStateResponse
from kmirror.wire.messages.read_share_group_state import ReadShareGroupStateResponse
from kmirror.wire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryResponse
from kmirror.wire.messages.write_share_group_state import WriteShareGroupStateResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


def _coordinator(apis: KafkaApis) -> ShareCoordinator:
    """Returns the share coordinator; COORDINATOR_NOT_AVAILABLE on a broker that has none."""
    coordinator = apis.share_coordinator
    if coordinator is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE, "Share coordinator is not available.")
    return coordinator


async def handle_initialize(apis: KafkaApis, request: Request) -> InitializeShareGroupStateResponse:
    return await _coordinator(apis).initialize_state(request.message)


async def handle_read(apis: KafkaApis, request: Request) -> ReadShareGroupStateResponse:
    return await _coordinator(apis).read_state(request.message)


async def handle_write(apis: KafkaApis, request: Request) -> WriteShareGroupStateResponse:
    return await _coordinator(apis).write_state(request.message)


async def handle_delete(apis: KafkaApis, request: Request) -> DeleteShareGroupStateResponse:
    return await _coordinator(apis).delete_state(request.message)


async def handle_read_summary(apis: KafkaApis, request: Request) -> ReadShareGroupStateSummaryResponse:
    return await _coordinator(apis).read_state_summary(request.message)
