"""Metrics of the share coordinator under Kafka's names (Kafka's `ShareCoordinatorMetrics`).

kafka.server:type=share-coordinator-metrics
    write-rate, write-total, write-latency-avg, write-latency-max
kafka.server:type=share-coordinator-metrics,topic=,partition=
    last-pruned-offset
"""

from __future__ import annotations

from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.sensors import Avg, CumulativeSum, Max, Rate, Sensor
from kmirror.common.topic_partition import TopicPartition

TYPE = "share-coordinator-metrics"


class ShareCoordinatorMetrics:
    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._writes = Sensor(registry, registry.clock)
        self._writes.add(sensor_metric(TYPE, "write-rate"), Rate())
        self._writes.add(sensor_metric(TYPE, "write-total"), CumulativeSum())
        self._latency = Sensor(registry, registry.clock)
        self._latency.add(sensor_metric(TYPE, "write-latency-avg"), Avg())
        self._latency.add(sensor_metric(TYPE, "write-latency-max"), Max())
        self._pruned: dict[TopicPartition, int] = {}

    def written(self) -> None:
        """Counts the write, or attempted write, of one share partition."""
        self._writes.record(1)

    def write_took(self, duration_ms: int) -> None:
        """Records the duration of a whole write request."""
        self._latency.record(duration_ms)

    def pruned(self, topic_partition: TopicPartition, offset: int) -> None:
        if topic_partition not in self._pruned:
            tags = (("topic", topic_partition.topic), ("partition", str(topic_partition.partition)))
            self._registry.gauge(sensor_metric(TYPE, "last-pruned-offset", tags), lambda: float(self._pruned[topic_partition]))
        self._pruned[topic_partition] = offset
