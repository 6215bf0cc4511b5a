"""The registry, meters and histograms, and how metrics are named."""

from __future__ import annotations

import pytest
from support.logs.storage_doubles import ManualClock

from kmirror.common.histogram import Histogram
from kmirror.common.metrics import MetricName, MetricsRegistry, sensor_metric


def test_names_print_as_mbeans_and_leave_out_empty_tags() -> None:
    yammer = MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", (("topic", "t"),))
    assert str(yammer) == "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t"
    sensor = sensor_metric("Produce", "byte-rate", (("user", "alice"), ("client-id", "")))
    assert sensor.mbean == "kafka.server:type=Produce,user=alice"
    assert str(sensor) == "kafka.server:type=Produce,user=alice,attribute=byte-rate"


def test_a_meter_has_three_moving_averages_and_a_mean() -> None:
    clock = ManualClock()
    meter = MetricsRegistry(clock).meter(MetricName("g", "t", "m"))
    clock.now_ms += 1
    meter.mark(500)
    clock.now_ms += 4_999
    attributes = meter.attributes()
    assert attributes == {"Count": 500, "MeanRate": 100.0, "OneMinuteRate": 100.0, "FiveMinuteRate": 100.0, "FifteenMinuteRate": 100.0}
    clock.now_ms += 60_000
    one, five, fifteen = (meter.attributes()[f"{name}MinuteRate"] for name in ("One", "Five", "Fifteen"))
    assert 35 < one < 40 and 80 < five < 84 and 92 < fifteen < 95


def test_a_histogram_counts_everything_and_has_percentiles_of_the_last_1024() -> None:
    histogram = Histogram()
    assert histogram.attributes()["99thPercentile"] == 0.0, "nothing yet"
    for value in range(1, 2_001):
        histogram.update(value)
    attributes = histogram.attributes()
    assert (attributes["Count"], attributes["Min"], attributes["Max"], attributes["Mean"]) == (2_000, 1, 2_000, 1_000.5)
    assert attributes["StdDev"] == pytest.approx(577.4946)
    assert attributes["50thPercentile"] == pytest.approx(1_488.5), "the middle of 977 to 2000"
    assert attributes["999thPercentile"] == pytest.approx(1_999.975)


def test_a_name_has_one_kind_of_metric() -> None:
    registry = MetricsRegistry(ManualClock())
    name = MetricName("g", "t", "m")
    assert registry.counter(name) is registry.counter(name)
    with pytest.raises(ValueError, match="registered as a Counter, not as a Meter"):
        registry.meter(name)


def test_mbeans_put_the_attributes_of_sensors_together() -> None:
    registry = MetricsRegistry(ManualClock())
    registry.gauge(sensor_metric("app-info", "version"), lambda: "4.3.0")
    registry.gauge(sensor_metric("app-info", "start-time-ms"), lambda: 5)
    registry.counter(MetricName("g", "t", "m")).increment(3)
    assert registry.mbeans() == {"kafka.server:type=app-info": {"version": "4.3.0", "start-time-ms": 5}, "g:type=t,name=m": {"Count": 3}}
    assert registry.snapshot() == {
        "kafka.server:type=app-info,attribute=version": "4.3.0",
        "kafka.server:type=app-info,attribute=start-time-ms": 5,
        "g:type=t,name=m": 3,
    }
