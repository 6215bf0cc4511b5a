"""GetTelemetrySubscriptions (key 71) and PushTelemetry (key 72), KIP-714. Served: v0 of both.

Served and advertised only where a receiver takes what clients push (the gate TELEMETRY in
`broker_api_table`), as Kafka does with its reporters. They need no permission: the subscriptions
decide what a client may push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.server.client_metrics_manager import ClientMetricsManager
from kmirror.server.request import Request
from kmirror.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from kmirror.wire.messages.push_telemetry import PushTelemetryResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_get_telemetry_subscriptions(apis: KafkaApis, request: Request) -> GetTelemetrySubscriptionsResponse:
    return _manager(apis).get_subscriptions(request)


async def handle_push_telemetry(apis: KafkaApis, request: Request) -> PushTelemetryResponse:
    return _manager(apis).push(request)


def _manager(apis: KafkaApis) -> ClientMetricsManager:
    if apis.client_metrics is None:
        raise ApiException(Errors.UNSUPPORTED_VERSION, "This broker does not accept client telemetry.")
    return apis.client_metrics
