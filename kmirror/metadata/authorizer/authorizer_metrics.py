"""Metrics of an authorizer, like those of Kafka's plugins (KIP-877): requests, allowed and denied
requests per minute, and the number of rules.

    kafka.server:type=plugins,config=authorizer.class.name,class=StandardAuthorizer,role=broker
    (or role=controller)
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.sensors import Rate, Sensor, WindowedCount

MINUTE_MS = 60_000


class AuthorizerMetrics:
    def __init__(self, registry: MetricsRegistry, role: str, acl_count: Callable[[], int]) -> None:
        self._registry = registry
        self._tags = (("config", "authorizer.class.name"), ("class", "StandardAuthorizer"), ("role", role))
        self._requests = self._per_minute("request")
        self._outcomes = {True: self._per_minute("allowed"), False: self._per_minute("denied")}
        registry.gauge(sensor_metric("plugins", "acls-total-count", self._tags), acl_count)

    def _per_minute(self, what: str) -> Sensor:
        sensor = Sensor(self._registry, self._registry.clock)
        sensor.add(sensor_metric("plugins", f"authorization-{what}-rate-per-minute", self._tags), Rate(WindowedCount(), unit_ms=MINUTE_MS))
        return sensor

    def judged(self, *, allowed: bool) -> None:
        self._requests.record()
        self._outcomes[allowed].record()
