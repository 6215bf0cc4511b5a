"""Quota on request time: the share of a second that is spent on a client's requests (Kafka's
`ClientRequestQuotaManager`, KIP-124).

Kafka counts the time of its network and request threads, so 100% is one thread of `num.io.threads +
num.network.threads`. Here one loop serves everybody, and 100% is the whole loop. What counts is the
time of the steps in which a request is decoded, handled and answered, without the waits between
them. The throttle time is at most one window, because a client must be able to send heartbeats.

Requests between brokers are exempt; their time goes to `exempt-request-time`.
"""

from __future__ import annotations

from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sensors import QuotaViolation, Rate, Sensor, throttle_time_ms
from kmirror.server.quota.client_quota_manager import ClientQuotaManager, QuotaType, QuotaWindow

NANOS_TO_PERCENTAGE_PER_SECOND = 100.0 / 1_000_000_000


class ClientRequestQuotaManager(ClientQuotaManager):
    def __init__(self, window: QuotaWindow, metrics: MetricsRegistry, clock: Clock) -> None:
        super().__init__(QuotaType.REQUEST, window, metrics, clock)
        self._exempt = Sensor(metrics, clock)
        self._exempt.add(sensor_metric(QuotaType.REQUEST.value, "exempt-request-time"), Rate())

    def record_time(self, principal: KafkaPrincipal, client_id: str, time_ns: int, now_ms: int) -> int:
        """Counts the time of a request; returns the time to wait."""
        return self.maybe_record_and_get_throttle_time_ms(principal, client_id, time_ns * NANOS_TO_PERCENTAGE_PER_SECOND, now_ms)

    def record_time_no_throttle(self, principal: KafkaPrincipal, client_id: str, time_ns: int, now_ms: int) -> None:
        """Counts the time spent after the request was judged: writing the response."""
        self.record_no_throttle(principal, client_id, time_ns * NANOS_TO_PERCENTAGE_PER_SECOND, now_ms)

    def record_exempt(self, time_ns: int, now_ms: int) -> None:
        if self.enabled:
            self._exempt.record(time_ns * NANOS_TO_PERCENTAGE_PER_SECOND, now_ms)

    def _register(self, sensor: Sensor, tags: tuple[str, str], metric_tags: tuple[tuple[str, str], ...]) -> None:
        sensor.add(sensor_metric(self.quota_type.value, "request-time", metric_tags), Rate(), self._metric_config(tags))

    def _throttle_time_ms(self, violation: QuotaViolation, now_ms: int) -> int:
        return min(throttle_time_ms(violation, now_ms), self.window.size_seconds * 1_000)
