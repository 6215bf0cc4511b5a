"""Sampled statistics and the arithmetic of quotas."""

from __future__ import annotations

import math

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.sensors import Avg, Max, MetricConfig, Rate, Sensor, TokenBucket, WindowedCount, throttle_time_ms

NAME = sensor_metric("Test", "value")


def sensor_of(stat: object, config: MetricConfig | None = None) -> tuple[ManualClock, Sensor]:
    clock = ManualClock(1_000_000)
    sensor = Sensor(None, clock)
    sensor.add(NAME, stat, config)
    return clock, sensor


def test_a_rate_is_taken_over_all_windows_but_one_from_the_start() -> None:
    clock, sensor = sensor_of(Rate(), MetricConfig(1_000, 11, 100.0))
    sensor.record(2_000)
    violation = sensor.check_quotas(clock.now_ms)
    assert violation is not None and violation.value == 200.0
    assert throttle_time_ms(violation, clock.now_ms) == 10_000
    clock.now_ms += 10_000
    assert sensor.metrics[NAME].value() == 200.0, "the first window still counts"
    assert sensor.check_quotas(clock.now_ms) is not None
    clock.now_ms += 1_000
    assert sensor.metrics[NAME].value() == 0.0, "eleven windows later it does not"


def test_a_window_that_overlaps_the_monitored_time_is_kept() -> None:
    clock, sensor = sensor_of(Rate(), MetricConfig(1_000, 2))
    sensor.record(10)
    clock.now_ms += 900
    sensor.record(10)
    clock.now_ms += 1_900
    assert sensor.metrics[NAME].value() == pytest.approx(20 * 1000 / 2_800), "its last event is 1.9 s old"
    clock.now_ms += 100
    assert sensor.metrics[NAME].value() == 0


def test_a_token_bucket_begins_full_goes_into_debt_and_is_refilled() -> None:
    clock, sensor = sensor_of(TokenBucket(), MetricConfig(1_000, 10, 5.0))
    assert sensor.metrics[NAME].value() == 50.0
    sensor.record(60)
    violation = sensor.check_quotas(clock.now_ms)
    assert violation is not None and throttle_time_ms(violation, clock.now_ms) == 2_000
    clock.now_ms += 2_000
    assert sensor.check_quotas(clock.now_ms) is None
    clock.now_ms += 60_000
    assert sensor.metrics[NAME].value() == 50.0, "never more than the burst"


def test_avg_max_and_count_of_the_windows() -> None:
    for stat, expected in ((Avg(), 3.0), (Max(), 5.0), (WindowedCount(), 3.0)):
        clock, sensor = sensor_of(stat)
        for value in (1, 3, 5):
            sensor.record(value)
        assert sensor.metrics[NAME].value() == expected
        clock.now_ms += 60_000
        after = sensor.metrics[NAME].value()
        assert after == 0 if isinstance(stat, WindowedCount) else math.isnan(after)


def test_a_sensor_that_is_closed_is_no_longer_shown() -> None:
    clock = ManualClock()
    registry = MetricsRegistry(clock)
    sensor = Sensor(registry, clock)
    sensor.add(NAME, Avg())
    assert registry.get(NAME) is not None
    sensor.close()
    assert registry.get(NAME) is None
