"""One kind of client quota on one broker: who exceeds it, and for how long the client must wait
(Kafka's `ClientQuotaManager`, KIP-13, KIP-124).

A quota belongs to a user, a client id, both, or the default of either. A request counts against the
first of these that exists:

    user + client id · user + default client · user · default user + client id · default user + default client · default user ·
    client id · default client

The level at which it is found says what is shared: a user's quota is one rate for all its client
ids, a default user's quota is one rate for each user. So the rate is kept by the tags (user,
client-id), one of which may be empty; they are also the tags of the metrics. As long as only one
level has been used, the tags follow from that level without a search.

A value is recorded first and judged afterwards, so a request that is too large is served and the
next one waits. The time to wait brings the rate back to its bound if nothing else comes. Once a
quota has been set for a kind, rates are kept until the node restarts, as in Kafka; before that
nothing is recorded, and a check costs one comparison. Rates that nobody has used for an hour are
forgotten.

`quota.window.num` samples of `quota.window.size.seconds` each make the window.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final, NamedTuple
from urllib.parse import quote

from kmirror.common.kafka_principal import KafkaPrincipal
from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sensors import Avg, MetricConfig, QuotaViolation, Rate, Sensor, throttle_time_ms

INACTIVE_SENSOR_EXPIRATION_MS = 3_600_000
SWEEP_INTERVAL_MS = 30_000
MAX_REMEMBERED_CLIENTS = 10_000
"""Clients choose their ids freely, so what is remembered only to save a search is dropped from time
to time.
"""


class QuotaType(enum.Enum):
    """What is limited; the value is the MBean type of the metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class QuotaWindow(NamedTuple):
    samples: int = 11
    size_seconds: int = 1


class _Default(enum.Enum):
    DEFAULT = "<default>"


DEFAULT: Final = _Default.DEFAULT
EntityName = str | _Default | None
"""A user or client id; DEFAULT; or None if the quota does not name one."""

_USERS, _CLIENT_IDS, _USERS_WITH_CLIENT_IDS = 2, 1, 4


class ClientSensors(NamedTuple):
    """What is kept for one pair of tags."""

    quota: Sensor
    throttle_time: Sensor


class ClientQuotaManager:
    """Owns the quotas of one `QuotaType` and the rates of its clients.

    Users and client ids are passed as requests have them.
    """

    def __init__(self, quota_type: QuotaType, window: QuotaWindow, metrics: MetricsRegistry, clock: Clock) -> None:
        self.quota_type = quota_type
        self.window = window
        self._metrics = metrics
        self._clock = clock
        self._levels_used = 0
        self._quotas: dict[tuple[EntityName, EntityName], float] = {}
        self._sensors: dict[tuple[str, str], ClientSensors] = {}
        self._by_client: dict[tuple[str, str], ClientSensors] = {}
        self._next_sweep_ms = 0
        self._throttled_until_ms: deque[int] = deque()
        metrics.gauge(sensor_metric(quota_type.value, "queue-size"), self._queue_size)

    @property
    def enabled(self) -> bool:
        """Whether a quota of this kind has been set since the node started."""
        return self._levels_used != 0

    # --- quotas
    # -----------------------------------------------------------------------------------------------------

    def update_quota(self, user: EntityName, client_id: EntityName, bound: float | None) -> None:
        """Sets the quota of an entity; None removes it.

        Existing rates get their new bound at once.
        """
        if user is None and client_id is None:
            raise ValueError("a quota belongs to a user, a client id, or both")
        self._levels_used |= _CLIENT_IDS if user is None else _USERS if client_id is None else _USERS_WITH_CLIENT_IDS
        if bound is None:
            self._quotas.pop((user, client_id), None)
        else:
            self._quotas[user, client_id] = bound
        self._by_client.clear()
        for tags, sensors in self._sensors.items():
            for metric in sensors.quota.metrics.values():
                if self._is_bounded(metric.stat):
                    metric.config.quota = self._limit(tags)

    def quota(self, user: str, client_id: str) -> float | None:
        """Returns the bound that applies to a client; None means no bound."""
        return self._limit(self._tags(user, client_id))

    def _tags(self, user: str, client_id: str) -> tuple[str, str]:
        if self._levels_used in (0, _CLIENT_IDS):
            return "", client_id
        if self._levels_used == _USERS:
            return user, ""
        if self._levels_used == _USERS_WITH_CLIENT_IDS:
            return user, client_id
        quotas = self._quotas
        if (user, client_id) in quotas or (user, DEFAULT) in quotas:
            return user, client_id
        if (user, None) in quotas:
            return user, ""
        if (DEFAULT, client_id) in quotas or (DEFAULT, DEFAULT) in quotas:
            return user, client_id
        return (user, "") if (DEFAULT, None) in quotas else ("", client_id)

    def _limit(self, tags: tuple[str, str]) -> float | None:
        user, client_id = tags
        candidates: tuple[tuple[EntityName, EntityName], ...]
        if user and client_id:
            candidates = ((user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT))
        elif user:
            candidates = ((user, None), (DEFAULT, None))
        else:
            candidates = ((None, client_id), (None, DEFAULT)) if client_id else ()
        return next((self._quotas[entity] for entity in candidates if entity in self._quotas), None)

    # --- recording
    # --------------------------------------------------------------------------------------------------

    def maybe_record_and_get_throttle_time_ms(self, principal: KafkaPrincipal, client_id: str, value: float, now_ms: int) -> int:
        """Counts `value`; returns the ms to wait until the rate is within its bound again, or 0."""
        if not self._levels_used:
            return 0
        sensor = self.sensors(principal, client_id).quota
        sensor.record(value, now_ms)
        violation = sensor.check_quotas(now_ms)
        return 0 if violation is None else self._throttle_time_ms(violation, now_ms)

    def record_no_throttle(self, principal: KafkaPrincipal, client_id: str, value: float, now_ms: int) -> None:
        """Counts `value` for the next judgement.

        A negative value takes back what was counted (a throttled fetch is not sent).
        """
        if self._levels_used:
            self.sensors(principal, client_id).quota.record(value, now_ms)

    def max_value_in_quota_window(self, principal: KafkaPrincipal, client_id: str) -> float | None:
        """Returns what can be recorded at once without certain throttling; None means anything."""
        if not self._levels_used:
            return None
        bound = self.quota(principal.name, client_id)
        return None if bound is None else bound * (self.window.samples - 1) * self.window.size_seconds

    def throttle(self, principal: KafkaPrincipal, client_id: str, throttle_time_ms: int, now_ms: int) -> None:
        """Records that a client's connection is muted."""
        self.sensors(principal, client_id).throttle_time.record(throttle_time_ms, now_ms)
        self._queue_size()
        self._throttled_until_ms.append(now_ms + throttle_time_ms)

    def sensors(self, principal: KafkaPrincipal, client_id: str) -> ClientSensors:
        key = (principal.name, client_id)
        sensors = self._by_client.get(key)
        if sensors is None or sensors.quota.last_record_ms < self._clock.monotonic_ms() - INACTIVE_SENSOR_EXPIRATION_MS:
            if len(self._by_client) >= MAX_REMEMBERED_CLIENTS:
                self._by_client.clear()
            sensors = self._by_client[key] = self._get_or_create(self._tags(*key))
        return sensors

    def _get_or_create(self, tags: tuple[str, str]) -> ClientSensors:
        sensors = self._sensors.get(tags)
        if sensors is None:
            self._forget_inactive()
            sensors = self._sensors[tags] = ClientSensors(
                Sensor(self._metrics, self._clock),
                Sensor(self._metrics, self._clock),
            )
            metric_tags = (("user", sanitize(tags[0])), ("client-id", tags[1]))
            self._register(sensors.quota, tags, metric_tags)
            sensors.throttle_time.add(sensor_metric(self.quota_type.value, "throttle-time", metric_tags), Avg())
        return sensors

    def _forget_inactive(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_sweep_ms:
            return
        self._next_sweep_ms = now_ms + SWEEP_INTERVAL_MS
        oldest_ms = now_ms - INACTIVE_SENSOR_EXPIRATION_MS
        for tags in [tags for tags, sensors in self._sensors.items() if sensors.quota.last_record_ms < oldest_ms]:
            for sensor in self._sensors.pop(tags):
                sensor.close()
            self._by_client.clear()

    def _queue_size(self) -> int:
        """Returns the number of connections that are muted now."""
        now_ms = self._clock.monotonic_ms()
        self._throttled_until_ms = deque(until_ms for until_ms in self._throttled_until_ms if until_ms > now_ms)
        return len(self._throttled_until_ms)

    # --- what other kinds do differently
    # ----------------------------------------------------------------------------

    def _register(self, sensor: Sensor, tags: tuple[str, str], metric_tags: tuple[tuple[str, str], ...]) -> None:
        sensor.add(sensor_metric(self.quota_type.value, "byte-rate", metric_tags), Rate(), self._metric_config(tags))

    def _metric_config(self, tags: tuple[str, str]) -> MetricConfig:
        return MetricConfig(self.window.size_seconds * 1_000, self.window.samples, self._limit(tags))

    def _is_bounded(self, stat: object) -> bool:
        return isinstance(stat, Rate)

    def _throttle_time_ms(self, violation: QuotaViolation, now_ms: int) -> int:
        return throttle_time_ms(violation, now_ms)


def sanitize(user: str) -> str:
    """Returns a user for the tags of metrics: percent-encoded as in Kafka, so that any name fits a
    JMX name.
    """
    return quote(user, safe="").replace("~", "%7E")
