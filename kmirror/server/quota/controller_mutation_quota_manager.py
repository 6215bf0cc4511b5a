"""Quota on changes of topics: partitions created or deleted per second, as a token bucket (Kafka's
`ControllerMutationQuotaManager`, KIP-599).

The bucket holds `controller.quota.window.num` windows' worth of the rate, so an idle client may
create many partitions at once. A strict quota (newer clients) refuses every change while the bucket
is in debt, but never refuses a change because it is large. A permissive quota accepts every change
and throttles while in debt. The throttle time is what is left of it when the response leaves.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sensors import Rate, Sensor, TokenBucket, throttle_time_ms
from kmirror.controller.mutation_quota import UNBOUNDED, ControllerMutationQuota
from kmirror.server.quota.client_quota_manager import ClientQuotaManager, QuotaType, QuotaWindow


class _RequestMutationQuota:
    """The quota of one request."""

    def __init__(self, sensor: Sensor, clock: Clock, *, is_strict: bool) -> None:
        self._sensor = sensor
        self._clock = clock
        self._is_strict = is_strict
        self._throttled_ms = 0
        self._recorded_ms = 0

    @property
    def throttle_time_ms(self) -> int:
        return max(0, self._throttled_ms - (self._clock.monotonic_ms() - self._recorded_ms))

    def record(self, permits: int) -> None:
        now_ms = self._clock.monotonic_ms()
        if not self._is_strict:
            self._sensor.record(permits, now_ms)
        violation = self._sensor.check_quotas(now_ms)
        if violation is not None:
            self._throttled_ms, self._recorded_ms = throttle_time_ms(violation, now_ms), now_ms
            if self._is_strict:
                raise ApiException(Errors.THROTTLING_QUOTA_EXCEEDED, Errors.THROTTLING_QUOTA_EXCEEDED.message)
        elif self._is_strict:
            self._sensor.record(permits, now_ms)


class ControllerMutationQuotaManager(ClientQuotaManager):
    """The controller's `MutationQuotas`."""

    def __init__(self, window: QuotaWindow, metrics: MetricsRegistry, clock: Clock) -> None:
        super().__init__(QuotaType.CONTROLLER_MUTATION, window, metrics, clock)

    def new_quota_for(self, principal: KafkaPrincipal, client_id: str, *, is_strict: bool) -> ControllerMutationQuota:
        if not self.enabled:
            return UNBOUNDED
        return _RequestMutationQuota(self.sensors(principal, client_id).quota, self._clock, is_strict=is_strict)

    def _register(self, sensor: Sensor, tags: tuple[str, str], metric_tags: tuple[tuple[str, str], ...]) -> None:
        sensor.add(sensor_metric(self.quota_type.value, "mutation-rate", metric_tags), Rate())
        sensor.add(sensor_metric(self.quota_type.value, "tokens", metric_tags), TokenBucket(), self._metric_config(tags))

    def _is_bounded(self, stat: object) -> bool:
        return isinstance(stat, TokenBucket)
