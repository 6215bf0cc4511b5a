"""The metrics registry: named gauges, counters, meters, histograms and sensors' metrics, under the
names of Kafka's MBeans.

Kafka has two families. A Yammer metric is an MBean of its own,
`group:type=TYPE,name=NAME[,tag=value…]`, with the attributes of its kind (a meter: Count, MeanRate,
OneMinuteRate …). A metric of a Kafka sensor is one attribute of the MBean
`group:type=TYPE[,tag=value…]`, e.g. `byte-rate` of `kafka.server:type=Produce,user=alice`; its
`MetricName` has no `name`. Tags without a value are left out of the name, as in Kafka.

Rooms register what they own; `server` only exposes the registry. Metrics of numerous things
(partitions, logs) are not registered one by one: a collector returns their names and values when
the metrics are read, and costs nothing until then. A gauge, too, is computed only then. A counter
is an int. A meter is a counter with the moving averages of Kafka's Yammer meters (ticks of five
seconds, computed when the meter is marked or read, so no timer is needed). Registering an existing
name returns the existing counter, meter or histogram; a gauge is replaced (a partition may come
back).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kmirror.common.histogram import Histogram
from kmirror.common.ports import Clock

_TICK_MS = 5_000
_ALPHAS = tuple(1.0 - math.exp(-5.0 / 60.0 / minutes) for minutes in (1, 5, 15))

Value = float | str


class MetricName(NamedTuple):
    """Identifies a metric: Yammer metrics have a `name`, sensors' metrics an `attribute`. Its text
    is the MBean's name."""

    group: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()
    attribute: str = ""

    @property
    def mbean(self) -> str:
        tags = "".join(f",{key}={value}" for key, value in self.tags if value)
        name = f",name={self.name}" if self.name else ""
        return f"{self.group}:type={self.type}{name}{tags}"

    def __str__(self) -> str:
        return f"{self.mbean},attribute={self.attribute}" if self.attribute else self.mbean


def sensor_metric(group_type: str, attribute: str, tags: tuple[tuple[str, str], ...] = ()) -> MetricName:
    """Returns the name of a metric of Kafka's own metrics library: `attribute` of the MBean
    `kafka.server:type=GROUP_TYPE[,tags]`."""
    return MetricName("kafka.server", group_type, "", tags, attribute)


Collector: TypeAlias = "Callable[[], Iterator[tuple[MetricName, Value]]]"
"""Returns the readings of many gauges at once."""


class Metric(Protocol):
    """Anything that can be registered: it has a value, and all attributes of its MBean."""

    def value(self) -> Value: ...

    def attributes(self) -> dict[str, Value]:
        """Returns values by attribute name. A sensor's metric has one attribute, named "" here;
        outside its name is `MetricName.attribute`."""
        ...


class Counter:
    """A number that can be incremented."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def increment(self, amount: int = 1) -> None:
        self.count += amount

    def value(self) -> float:
        return self.count

    def attributes(self) -> dict[str, Value]:
        return {"Count": self.count}


class Gauge:
    """A number (or a text) that is computed when the metrics are read."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Value]) -> None:
        self._read = read

    def value(self) -> Value:
        return self._read()

    def attributes(self) -> dict[str, Value]:
        return {"Value": self._read()}


class Reading:
    """A value that a collector has read."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    def value(self) -> Value:
        return self._value

    def attributes(self) -> dict[str, Value]:
        return {"Value": self._value}


class Meter:
    """A count of events (or bytes), its mean rate and its exponentially weighted 1, 5 and 15 minute
    rates, per second."""

    __slots__ = ("_clock", "_last_tick_ms", "_rates", "_start_ms", "_uncounted", "count")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_tick_ms = self._start_ms = clock.monotonic_ms()
        self._rates: tuple[float, ...] | None = None
        self._uncounted = 0
        self.count = 0

    def mark(self, amount: int = 1) -> None:
        self._tick()
        self.count += amount
        self._uncounted += amount

    def mark_at(self, now_ms: int, amount: int = 1) -> None:
        """Does what `mark` does for a caller that already knows the time (of the same monotonic
        clock)."""
        if now_ms - self._last_tick_ms >= _TICK_MS:
            self._tick()
        self.count += amount
        self._uncounted += amount

    def value(self) -> float:
        return self.count

    def one_minute_rate(self) -> float:
        return self._current_rates()[0]

    def mean_rate(self) -> float:
        elapsed_ms = self._clock.monotonic_ms() - self._start_ms
        return self.count * 1000.0 / elapsed_ms if elapsed_ms > 0 else 0.0

    def attributes(self) -> dict[str, Value]:
        one, five, fifteen = self._current_rates()
        return {
            "Count": self.count,
            "MeanRate": self.mean_rate(),
            "OneMinuteRate": one,
            "FiveMinuteRate": five,
            "FifteenMinuteRate": fifteen,
        }

    def _current_rates(self) -> tuple[float, ...]:
        self._tick()
        return self._rates or (0.0, 0.0, 0.0)

    def _tick(self) -> None:
        ticks = (self._clock.monotonic_ms() - self._last_tick_ms) // _TICK_MS
        if ticks <= 0:
            return
        self._last_tick_ms += ticks * _TICK_MS
        instant = self._uncounted * 1000.0 / _TICK_MS
        self._uncounted = 0
        before = self._rates or (instant, instant, instant)
        self._rates = tuple(
            (rate + alpha * (instant - rate)) * (1.0 - alpha) ** (ticks - 1) for rate, alpha in zip(before, _ALPHAS, strict=True)
        )


class Timer:
    """Counts events and measures how long they took (Yammer's `Timer`); durations are in
    milliseconds."""

    __slots__ = ("_histogram", "_meter")

    def __init__(self, clock: Clock) -> None:
        self._meter = Meter(clock)
        self._histogram = Histogram()

    def update(self, duration_ms: float) -> None:
        self._meter.mark()
        self._histogram.update(duration_ms)

    def value(self) -> float:
        return self._meter.count

    def attributes(self) -> dict[str, Value]:
        return {**self._histogram.attributes(), **self._meter.attributes()}


M = TypeVar("M", Counter, Meter, Timer, Histogram)


class MetricsRegistry:
    """All metrics of one node, in the order of their registration."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._metrics: dict[MetricName, Metric] = {}
        self._collectors: list[Collector] = []

    def add_collector(self, collect: Collector) -> None:
        """Adds a collector, which is called whenever the metrics are read."""
        self._collectors.append(collect)

    def gauge(self, name: MetricName, read: Callable[[], Value]) -> Gauge:
        gauge = Gauge(read)
        self._metrics[name] = gauge
        return gauge

    def counter(self, name: MetricName) -> Counter:
        return self._existing_or(name, Counter, Counter)

    def meter(self, name: MetricName) -> Meter:
        return self._existing_or(name, Meter, lambda: Meter(self.clock))

    def timer(self, name: MetricName) -> Timer:
        return self._existing_or(name, Timer, lambda: Timer(self.clock))

    def histogram(self, name: MetricName) -> Histogram:
        return self._existing_or(name, Histogram, Histogram)

    def _existing_or(self, name: MetricName, kind: type[M], make: Callable[[], M]) -> M:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = make()
        if not isinstance(metric, kind):
            raise ValueError(f"{name} is registered as a {type(metric).__name__}, not as a {kind.__name__}")
        return metric

    def register(self, name: MetricName, metric: Metric) -> None:
        """Adds or replaces a metric that was made elsewhere (a sensor's)."""
        self._metrics[name] = metric

    def remove(self, name: MetricName) -> None:
        self._metrics.pop(name, None)

    def get(self, name: MetricName) -> Metric | None:
        return self._metrics.get(name)

    def __iter__(self) -> Iterator[tuple[MetricName, Metric]]:
        yield from list(self._metrics.items())
        for collect in list(self._collectors):
            for name, value in collect():
                yield name, Reading(value)

    def __len__(self) -> int:
        return len(self._metrics)

    def snapshot(self) -> dict[str, Value]:
        """Returns every metric's value by its printed name. A metric with several attributes also
        gives each as `…,attribute=NAME`."""
        values: dict[str, Value] = {}
        for name, metric in self:
            values[str(name)] = metric.value()
            attributes = metric.attributes()
            if len(attributes) > 1:
                values.update({f"{name},attribute={attribute}": value for attribute, value in attributes.items()})
        return values

    def mbeans(self) -> dict[str, dict[str, Value]]:
        """Returns what a JMX client would see: attributes by MBean name."""
        beans: dict[str, dict[str, Value]] = {}
        for name, metric in self:
            bean = beans.setdefault(name.mbean, {})
            if name.attribute:
                bean[name.attribute] = metric.value()
            else:
                bean.update(metric.attributes())
        return beans
