"""Kafka's own metrics library, as far as quotas and coordinators use it: sampled statistics, token
buckets, sensors, quotas.

A sampled statistic keeps `samples` windows of `time_window_ms` (and one more, which may overlap the
monitored time). A value goes into the current window. When the window's time is over, the next one
begins. A window whose last event is `samples` windows old is emptied before anything is measured. A
rate is the sum of all windows divided by the time since the oldest began, but by at least the
length of all windows but one. So a new client may burst, and is not throttled for its first bytes.

A quota is an upper bound on a metric. `Sensor.record` adds a value to every statistic of the
sensor, and `Sensor.check_quotas` returns the first bound that is broken; it does not raise, because
being over a quota is normal. A rate is back under its bound after `(rate - bound) / bound *
window`, a token bucket in debt after `debt / bound` seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kmirror.common.metrics import MetricName, MetricsRegistry, Value, sensor_metric
from kmirror.common.ports import Clock

FOREVER_MS = 2**31 - 1
"""The longest throttle time that fits into a response."""


@dataclass(slots=True)
class MetricConfig:
    """How a metric is sampled, and its upper bound; the defaults are Kafka's. It is shared, and
    changed in place when a quota changes."""

    time_window_ms: int = 30_000
    samples: int = 2
    quota: float | None = None


class Stat(Protocol):
    def record(self, config: MetricConfig, value: float, now_ms: int) -> None: ...

    def measure(self, config: MetricConfig, now_ms: int) -> float: ...


class _Sample:
    __slots__ = ("count", "greatest", "last_event_ms", "least", "start_ms", "value")

    def __init__(self, initial: float, now_ms: int) -> None:
        self.reset(initial, now_ms)

    def reset(self, initial: float, now_ms: int) -> None:
        self.value = initial
        self.least, self.greatest = math.inf, -math.inf
        self.count = 0
        self.start_ms = self.last_event_ms = now_ms


class SampledStat:
    """The windows of a sampled statistic. Subclasses say how a value changes its window and how
    windows are combined."""

    initial = 0.0

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, config: MetricConfig, value: float, now_ms: int) -> None:
        sample = self._sample_for(config, now_ms)
        self.update(sample, value)
        sample.count += 1
        sample.last_event_ms = now_ms

    def _sample_for(self, config: MetricConfig, now_ms: int) -> _Sample:
        """The window that a value of this time goes into."""
        sample = self._samples[self._current] if self._samples else self._current_sample(now_ms)
        return self._advance(config, now_ms) if now_ms - sample.start_ms >= config.time_window_ms else sample

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        self.purge(config, now_ms)
        return self.combine(self._samples)

    def purge(self, config: MetricConfig, now_ms: int) -> None:
        """Empties windows that had no event within the monitored time; a window that began before
        it but had a later event is kept."""
        expire_age_ms = config.samples * config.time_window_ms
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= expire_age_ms:
                sample.reset(self.initial, now_ms)

    def clear(self) -> None:
        """Forget everything, as if nothing had been recorded yet."""
        self._samples.clear()
        self._current = 0

    def oldest_start_ms(self, now_ms: int) -> int:
        self._current_sample(now_ms)
        return min(sample.start_ms for sample in self._samples)

    def _current_sample(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(self.initial, now_ms))
        return self._samples[self._current]

    def _advance(self, config: MetricConfig, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (config.samples + 1)
        if self._current >= len(self._samples):
            self._current = len(self._samples)
            self._samples.append(_Sample(self.initial, now_ms))
        else:
            self._samples[self._current].reset(self.initial, now_ms)
        return self._samples[self._current]

    def update(self, sample: _Sample, value: float) -> None:
        sample.value += value

    def combine(self, samples: list[_Sample]) -> float:
        return sum(sample.value for sample in samples)


class WindowedSum(SampledStat):
    """The sum over the windows."""


class WindowedCount(SampledStat):
    """The number of events in the windows."""

    def update(self, sample: _Sample, value: float) -> None:
        sample.value += 1


class Avg(SampledStat):
    """The mean over the windows; NaN when they are empty, as in Kafka."""

    def combine(self, samples: list[_Sample]) -> float:
        count = sum(sample.count for sample in samples)
        return sum(sample.value for sample in samples) / count if count else math.nan


class Max(SampledStat):
    """The greatest value in the windows; NaN when they are empty."""

    initial = -math.inf

    def update(self, sample: _Sample, value: float) -> None:
        sample.value = max(sample.value, value)

    def combine(self, samples: list[_Sample]) -> float:
        greatest = [sample.value for sample in samples if sample.count]
        return max(greatest) if greatest else math.nan


class AvgMinMax(Avg):
    """Mean, least and greatest value over the same windows: Kafka's `Avg`, `Min` and `Max` for the
    price of one. `measure` gives the mean.
    """

    def update(self, sample: _Sample, value: float) -> None:
        sample.value += value
        if value < sample.least:
            sample.least = value
        if value > sample.greatest:
            sample.greatest = value

    def record_all(self, config: MetricConfig, values: Sequence[float], now_ms: int) -> None:
        """Records several values of one time."""
        sample = self._sample_for(config, now_ms)
        sample.value += sum(values)
        sample.count += len(values)
        sample.last_event_ms = now_ms
        sample.least = min(sample.least, min(values))
        sample.greatest = max(sample.greatest, max(values))

    def least(self, config: MetricConfig, now_ms: int) -> float:
        """NaN when the windows are empty."""
        self.purge(config, now_ms)
        return min((sample.least for sample in self._samples if sample.count), default=math.nan)

    def greatest(self, config: MetricConfig, now_ms: int) -> float:
        """NaN when the windows are empty."""
        self.purge(config, now_ms)
        return max((sample.greatest for sample in self._samples if sample.count), default=math.nan)

    def avg_and_max(self, name: str, config: MetricConfig, now_ms: int) -> Iterator[tuple[str, float]]:
        """As clients show most of their measurements: `<name>-avg` and `<name>-max`."""
        yield f"{name}-avg", self.measure(config, now_ms)
        yield f"{name}-max", self.greatest(config, now_ms)


class CumulativeSum:
    """The sum of everything."""

    def __init__(self) -> None:
        self._total = 0.0

    def record(self, config: MetricConfig, value: float, now_ms: int) -> None:
        self._total += value

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        return self._total


class CumulativeCount:
    """The number of all events."""

    def __init__(self) -> None:
        self._count = 0

    def record(self, config: MetricConfig, value: float, now_ms: int) -> None:
        self._count += 1

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        return self._count


class Rate:
    """A sampled statistic (a sum by default) per second, or per `unit_ms`."""

    def __init__(self, stat: SampledStat | None = None, *, unit_ms: int = 1_000) -> None:
        self._stat = stat or WindowedSum()
        self._unit_ms = unit_ms

    def record(self, config: MetricConfig, value: float, now_ms: int) -> None:
        self._stat.record(config, value, now_ms)

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        value = self._stat.measure(config, now_ms)
        return value * self._unit_ms / self.window_size_ms(config, now_ms)

    def clear(self) -> None:
        """Forget everything, as if nothing had been recorded yet."""
        self._stat.clear()

    def window_size_ms(self, config: MetricConfig, now_ms: int) -> int:
        """Returns the time that the rate is taken over: the time since the oldest window began, but
        at least all windows but one, and at least 1 ms."""
        self._stat.purge(config, now_ms)
        elapsed_ms = now_ms - self._stat.oldest_start_ms(now_ms)
        missing_windows = config.samples - 1 - elapsed_ms // config.time_window_ms
        return max(elapsed_ms + max(missing_windows, 0) * config.time_window_ms, 1)


class TokenBucket:
    """The tokens left. They are refilled at the quota's rate, up to what `samples` windows bring;
    recording takes tokens, and the number is negative when in debt."""

    def __init__(self) -> None:
        self._tokens = 0.0
        self._updated_ms: int | None = None

    def record(self, config: MetricConfig, value: float, now_ms: int) -> None:
        if config.quota is not None:
            self._refill(config, config.quota, now_ms)
            self._tokens = min(self._burst(config, config.quota), self._tokens - value)

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        if config.quota is None:
            return float(2**63 - 1)
        self._refill(config, config.quota, now_ms)
        return self._tokens

    def _refill(self, config: MetricConfig, quota: float, now_ms: int) -> None:
        burst = self._burst(config, quota)
        elapsed_ms = math.inf if self._updated_ms is None else now_ms - self._updated_ms
        self._tokens = min(burst, self._tokens + quota * elapsed_ms / 1000.0)
        self._updated_ms = now_ms

    def _burst(self, config: MetricConfig, quota: float) -> float:
        return config.samples * config.time_window_ms / 1000.0 * quota


class KafkaMetric:
    """A statistic with its config, as a metric of the registry."""

    __slots__ = ("_clock", "config", "stat")

    def __init__(self, stat: Stat, config: MetricConfig, clock: Clock) -> None:
        self.stat = stat
        self.config = config
        self._clock = clock

    def value(self) -> float:
        return self.stat.measure(self.config, self._clock.monotonic_ms())

    def attributes(self) -> dict[str, Value]:
        return {"": self.value()}


class QuotaViolation(NamedTuple):
    """A metric above its bound."""

    metric: KafkaMetric
    value: float
    bound: float


class Sensor:
    """Statistics that record the same values. With `registry` None, the metrics are not shown."""

    def __init__(self, registry: MetricsRegistry | None, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self.metrics: dict[MetricName, KafkaMetric] = {}
        self.last_record_ms = clock.monotonic_ms()

    def add(self, name: MetricName, stat: Stat, config: MetricConfig | None = None) -> KafkaMetric:
        metric = self.metrics[name] = KafkaMetric(stat, config or MetricConfig(), self._clock)
        if self._registry is not None:
            self._registry.register(name, metric)
        return metric

    def record(self, value: float = 1.0, now_ms: int | None = None) -> None:
        now_ms = self._clock.monotonic_ms() if now_ms is None else now_ms
        self.last_record_ms = now_ms
        for metric in self.metrics.values():
            metric.stat.record(metric.config, value, now_ms)

    def check_quotas(self, now_ms: int) -> QuotaViolation | None:
        """Returns the first broken bound: a token bucket's when it is in debt, any other's when the
        value is above it."""
        for metric in self.metrics.values():
            bound = metric.config.quota
            if bound is None:
                continue
            value = metric.stat.measure(metric.config, now_ms)
            if value < 0 if isinstance(metric.stat, TokenBucket) else value > bound:
                return QuotaViolation(metric, value, bound)
        return None

    def close(self) -> None:
        """Removes the metrics from the registry."""
        if self._registry is not None:
            for name in self.metrics:
                self._registry.remove(name)


def throttle_time_ms(violation: QuotaViolation, now_ms: int) -> int:
    """Returns how long nothing may be recorded until the metric is within its bound again;
    FOREVER_MS for a bound of zero, which it never reaches."""
    stat = violation.metric.stat
    if violation.bound <= 0:
        return FOREVER_MS
    if isinstance(stat, TokenBucket):
        return min(FOREVER_MS, java_round(-violation.value / violation.bound * 1000))
    if not isinstance(stat, Rate):
        raise ValueError(f"a {type(stat).__name__} has no throttle time")
    over = (violation.value - violation.bound) / violation.bound
    return min(FOREVER_MS, java_round(over * stat.window_size_ms(violation.metric.config, now_ms)))


def java_round(value: float) -> int:
    """Rounds as Java's `Math.round` does: halves go up."""
    return math.floor(value + 0.5)


def meter_sensor(registry: MetricsRegistry, group_type: str, event: str, tags: tuple[tuple[str, str], ...] = ()) -> Sensor:
    """Kafka's `Meter`: `EVENT-rate` over the last windows and `EVENT-count` of all time."""
    sensor = Sensor(registry, registry.clock)
    sensor.add(sensor_metric(group_type, f"{event}-rate", tags), Rate())
    sensor.add(sensor_metric(group_type, f"{event}-count", tags), CumulativeSum())
    return sensor
