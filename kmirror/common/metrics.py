"""The metrics registry: named gauges, counters and meters, under the names that Kafka gives its MBeans.

A metric is `group:type=TYPE,name=NAME[,tag=value…]`, e.g. `kafka.server:type=ReplicaManager,name=PartitionCount`. Rooms
register what they own; `server` only exposes the registry. A gauge is read when somebody looks, so it costs nothing
until then; a counter is an int; a meter is a counter with the one-minute moving average that Kafka's Yammer meters
have (ticks of five seconds, computed lazily when it is marked or read, so no timer is needed).
Registering a name that exists gives the existing counter or meter; a gauge is replaced (a partition that comes back).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kmirror.common.ports import Clock

_TICK_MS = 5_000
_ONE_MINUTE_ALPHA = 1.0 - math.exp(-5.0 / 60.0)


class MetricName(NamedTuple):
    """What identifies a metric; prints as the MBean's name."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"


class Counter:
    """A number that somebody increments."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def increment(self, amount: int = 1) -> None:
        self.count += amount

    def value(self) -> float:
        return self.count


class Gauge:
    """A number that is computed when it is read."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def value(self) -> float:
        return self._read()


class Meter:
    """A count of events (or bytes) and its exponentially weighted one-minute rate, per second."""

    __slots__ = ("_clock", "_last_tick_ms", "_rate", "_uncounted", "count")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_tick_ms = clock.monotonic_ms()
        self._rate: float | None = None
        self._uncounted = 0
        self.count = 0

    def mark(self, amount: int = 1) -> None:
        self._tick()
        self.count += amount
        self._uncounted += amount

    def value(self) -> float:
        return self.count

    def one_minute_rate(self) -> float:
        self._tick()
        return 0.0 if self._rate is None else self._rate

    def _tick(self) -> None:
        ticks = (self._clock.monotonic_ms() - self._last_tick_ms) // _TICK_MS
        if ticks <= 0:
            return
        self._last_tick_ms += ticks * _TICK_MS
        instant = self._uncounted * 1000.0 / _TICK_MS
        self._uncounted = 0
        self._rate = instant if self._rate is None else self._rate + _ONE_MINUTE_ALPHA * (instant - self._rate)
        self._rate *= (1.0 - _ONE_MINUTE_ALPHA) ** (ticks - 1)


Metric = Counter | Gauge | Meter


class MetricsRegistry:
    """All metrics of one node, in the order of their registration."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._metrics: dict[MetricName, Metric] = {}

    def gauge(self, name: MetricName, read: Callable[[], float]) -> Gauge:
        gauge = Gauge(read)
        self._metrics[name] = gauge
        return gauge

    def counter(self, name: MetricName) -> Counter:
        metric = self._metrics.setdefault(name, Counter())
        if not isinstance(metric, Counter):
            raise ValueError(f"{name} is registered as a {type(metric).__name__}, not as a Counter")
        return metric

    def meter(self, name: MetricName) -> Meter:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = Meter(self._clock)
        if not isinstance(metric, Meter):
            raise ValueError(f"{name} is registered as a {type(metric).__name__}, not as a Meter")
        return metric

    def remove(self, name: MetricName) -> None:
        self._metrics.pop(name, None)

    def get(self, name: MetricName) -> Metric | None:
        return self._metrics.get(name)

    def __iter__(self) -> Iterator[tuple[MetricName, Metric]]:
        return iter(list(self._metrics.items()))

    def snapshot(self) -> dict[str, float]:
        """Every metric's value by its printed name; meters also give `…,attribute=OneMinuteRate`."""
        values: dict[str, float] = {}
        for name, metric in self:
            values[str(name)] = metric.value()
            if isinstance(metric, Meter):
                values[f"{name},attribute=OneMinuteRate"] = metric.one_minute_rate()
        return values
