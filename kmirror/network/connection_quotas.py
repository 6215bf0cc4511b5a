"""How fast new connections may come (Kafka's `ConnectionQuotas`, KIP-402 and KIP-612), limited by
node, by listener and by address.

Every new connection counts towards the rates of the node and of its listener. If a rate is above
its limit, the connection waits unread until the rate is within the limit again (at most one
window), as behind Kafka's blocked acceptor. If there are several listeners, connections of the
inter-broker listener do not count for the node. A connection from an address above its own quota is
taken out of all rates again, and closed after the time that it should have waited, so that a client
that reconnects at once does not spin.

Address quotas come from AlterClientQuotas (`connection_creation_rate`; the default applies to
addresses without their own). With no limit set a connection costs one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sensors import Avg, MetricConfig, Rate, Sensor, throttle_time_ms

UNLIMITED = 2_147_483_647
METRICS_TYPE = "socket-server-metrics"
IDLE_ADDRESS_MS = 3_600_000
SWEEP_INTERVAL_MS = 60_000


class ConnectionVerdict(NamedTuple):
    """What happens to a new connection: it waits `delay_ms` before it is served or, if `refused`,
    before it is closed.
    """

    delay_ms: int = 0
    refused: bool = False


ACCEPTED = ConnectionVerdict()


class ConnectionQuotas:
    """The quotas and rates of a node, shared by all its listeners."""

    def __init__(
        self,
        clock: Clock,
        metrics: MetricsRegistry,
        *,
        samples: int = 11,
        window_ms: int = 1_000,
        broker_rate: int = UNLIMITED,
        listener_rates: Mapping[str, int] | None = None,
        protected_listener: str | None = None,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._samples = samples
        self._window_ms = window_ms
        self._protected_listener = protected_listener
        self._broker = self._rate_sensor("broker-connection-accept-rate", (), broker_rate)
        self._listeners: dict[str, Sensor] = {}
        self._throttles: dict[tuple[str, str], Sensor] = {}
        self._addresses: dict[str, Sensor] = {}
        self._address_rates: dict[str, int] = {}
        self._default_address_rate = UNLIMITED
        self._next_sweep_ms = 0
        for listener, rate in (listener_rates or {}).items():
            self.set_listener_rate(listener, rate)
        self.set_broker_rate(broker_rate)

    # --- limits
    # -----------------------------------------------------------------------------------------------------

    def set_broker_rate(self, rate: int) -> None:
        _bound(self._broker, rate)
        self._refresh()

    def set_listener_rate(self, listener: str, rate: int) -> None:
        sensor = self._listeners.get(listener)
        if sensor is None:
            sensor = self._listeners[listener] = self._rate_sensor("connection-accept-rate", (("listener", listener),), rate)
        _bound(sensor, rate)
        self._refresh()

    def set_address_rate(self, address: str | None, rate: int | None) -> None:
        """Sets the quota of an address, or with None of all addresses without one. A rate of None
        removes the quota.
        """
        if address is None:
            self._default_address_rate = UNLIMITED if rate is None else rate
        elif rate is None:
            self._address_rates.pop(address, None)
        else:
            self._address_rates[address] = rate
        for known, sensor in self._addresses.items():
            _bound(sensor, self.address_rate(known))
        self._refresh()

    def address_rate(self, address: str) -> int:
        return self._address_rates.get(address, self._default_address_rate)

    def _refresh(self) -> None:
        limits: list[float] = [self._default_address_rate, *self._address_rates.values()]
        limits += [_limit(sensor) for sensor in (self._broker, *self._listeners.values())]
        self._is_limited = any(limit != UNLIMITED for limit in limits)

    # --- connections
    # ------------------------------------------------------------------------------------------------

    def admit(self, listener: str, address: str) -> ConnectionVerdict:
        """Counts a new connection and returns how long it waits."""
        if not self._is_limited:
            return ACCEPTED
        now_ms = self._clock.monotonic_ms()
        counted = [self._listeners[listener]] if listener in self._listeners else []
        if listener != self._protected_listener or len(self._listeners) < 2:
            counted.append(self._broker)
        delay_ms: int = max((self._record(sensor, now_ms) for sensor in counted), default=0)
        if delay_ms:
            self._throttle_sensor("", listener).record(delay_ms, now_ms)
        address_delay_ms = self._record_address(address, now_ms)
        if not address_delay_ms:
            return ConnectionVerdict(delay_ms)
        for sensor in (*counted, self._addresses[address]):
            sensor.record(-1.0, now_ms)
        self._throttle_sensor("ip-", listener).record(address_delay_ms, now_ms)
        return ConnectionVerdict(address_delay_ms, refused=True)

    def _record_address(self, address: str, now_ms: int) -> int:
        rate = self.address_rate(address)
        if rate == UNLIMITED:
            return 0
        sensor = self._addresses.get(address)
        if sensor is None:
            if now_ms >= self._next_sweep_ms:
                self._next_sweep_ms = now_ms + SWEEP_INTERVAL_MS
                self._forget_idle(now_ms)
            sensor = self._addresses[address] = self._rate_sensor("connection-accept-rate", (("ip", address),), rate)
        return self._record(sensor, now_ms)

    def _record(self, sensor: Sensor, now_ms: int) -> int:
        sensor.record(1.0, now_ms)
        violation = sensor.check_quotas(now_ms)
        return 0 if violation is None else min(throttle_time_ms(violation, now_ms), self._window_ms)

    def _forget_idle(self, now_ms: int) -> None:
        for address in [key for key, sensor in self._addresses.items() if now_ms - sensor.last_record_ms > IDLE_ADDRESS_MS]:
            self._addresses.pop(address).close()

    def _rate_sensor(self, name: str, tags: tuple[tuple[str, str], ...], rate: int) -> Sensor:
        sensor = Sensor(self._metrics, self._clock)
        config = MetricConfig(self._window_ms, self._samples, None if rate == UNLIMITED else float(rate))
        sensor.add(sensor_metric(METRICS_TYPE, name, tags), Rate(), config)
        return sensor

    def _throttle_sensor(self, prefix: str, listener: str) -> Sensor:
        sensor = self._throttles.get((prefix, listener))
        if sensor is None:
            sensor = self._throttles[prefix, listener] = Sensor(self._metrics, self._clock)
            sensor.add(sensor_metric(METRICS_TYPE, f"{prefix}connection-accept-throttle-time", (("listener", listener),)), Avg())
        return sensor


def _bound(sensor: Sensor, rate: int) -> None:
    for metric in sensor.metrics.values():
        metric.config.quota = None if rate == UNLIMITED else float(rate)


def _limit(sensor: Sensor) -> float:
    bound = next(iter(sensor.metrics.values())).config.quota
    return UNLIMITED if bound is None else bound
