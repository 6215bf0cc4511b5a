"""Metrics of a coordinator's shards (Kafka's `CoordinatorRuntimeMetrics`): how many are in each
state, and how long loading took.

    kafka.server:type=GROUP-coordinator-metrics,state=loading|active|failed
        num-partitions
    kafka.server:type=GROUP-coordinator-metrics
        partition-load-time-avg, partition-load-time-max
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kmirror.common.metrics import MetricName, MetricsRegistry, Value, sensor_metric
from kmirror.common.sensors import Avg, Max, Sensor

SHOWN_STATES = ("loading", "active", "failed")


class CoordinatorRuntimeMetrics:
    """`states` returns the state of every shard, by its name in lower case."""

    def __init__(self, registry: MetricsRegistry, metrics_type: str) -> None:
        self._registry = registry
        self._type = metrics_type
        self._load_time = Sensor(registry, registry.clock)
        self._load_time.add(sensor_metric(metrics_type, "partition-load-time-avg"), Avg())
        self._load_time.add(sensor_metric(metrics_type, "partition-load-time-max"), Max())

    def show_states(self, states: Callable[[], list[str]]) -> None:
        def collect() -> Iterator[tuple[MetricName, Value]]:
            present = states()
            for state in SHOWN_STATES:
                yield sensor_metric(self._type, "num-partitions", (("state", state),)), present.count(state)

        self._registry.add_collector(collect)

    def loaded(self, duration_ms: int) -> None:
        self._load_time.record(duration_ms)
