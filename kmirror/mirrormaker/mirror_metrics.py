"""What the connectors measure, under the names of Kafka's MBeans (ME1 to ME7).

    kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.t,partition=0
        record-count, record-rate, byte-count, byte-rate
        record-age-ms, record-age-ms-avg, -min, -max                 when it was read
        replication-latency-ms, replication-latency-ms-avg, ...      when the target acknowledged it
    kafka.connect.mirror:type=MirrorCheckpointConnector,source=A,target=B,group=g,topic=A.t,partition=0
        checkpoint-latency-ms, checkpoint-latency-ms-avg, ...

Averages, least and greatest values are over Kafka's two windows of 30 seconds, NaN when nothing was
measured. Two things differ from Kafka, because batches are not unpacked: ages and latencies are those
of a batch's newest record, and bytes are the batch's (as compressed as it is) instead of the values'.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from kmirror.common.metrics import MetricName, MetricsRegistry, Value
from kmirror.common.ports import Clock
from kmirror.common.sensors import AvgMinMax, MetricConfig, Rate
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import SourceAndTarget

GROUP: Final = "kafka.connect.mirror"
_CONFIG: Final = MetricConfig()
Tags = tuple[tuple[str, str], ...]


class Spread:
    """The newest value, and average, least and greatest of the windows."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = math.nan
        self._values = AvgMinMax()

    def record(self, value: float, now_ms: int) -> None:
        self._last = value
        self._values.record(_CONFIG, value, now_ms)

    def record_all(self, values: Sequence[float], now_ms: int) -> None:
        self._last = values[-1]
        self._values.record_all(_CONFIG, values, now_ms)

    def read(self, now_ms: int) -> Iterator[tuple[str, float]]:
        yield self._name, self._last
        yield f"{self._name}-avg", self._values.measure(_CONFIG, now_ms)
        yield f"{self._name}-min", self._values.least(_CONFIG, now_ms)
        yield f"{self._name}-max", self._values.greatest(_CONFIG, now_ms)


class _Meter:
    """A count and its rate per second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._rate = Rate()

    def record(self, amount: int, now_ms: int) -> None:
        self._count += amount
        self._rate.record(_CONFIG, amount, now_ms)

    def read(self, now_ms: int) -> Iterator[tuple[str, float]]:
        yield f"{self._name}-count", self._count
        yield f"{self._name}-rate", self._rate.measure(_CONFIG, now_ms)


class _PartitionMetrics:
    def __init__(self) -> None:
        self.records, self.bytes = _Meter("record"), _Meter("byte")
        self.age, self.latency = Spread("record-age-ms"), Spread("replication-latency-ms")

    def read(self, now_ms: int) -> Iterator[tuple[str, float]]:
        for part in (self.records, self.bytes, self.age, self.latency):
            yield from part.read(now_ms)


class MirrorSourceMetrics:
    """Of one flow, by partition of the remote topics."""

    def __init__(self, registry: MetricsRegistry, clock: Clock, flow: SourceAndTarget) -> None:
        self._clock = clock
        self._flow = flow
        self._partitions: dict[TopicPartition, _PartitionMetrics] = {}
        registry.add_collector(self._collect)

    def batches_read(self, remote: TopicPartition, size: int, newest_ms: Sequence[int]) -> None:
        """Batches of `size` bytes together were read from the source; `newest_ms` are the times of
        their newest records.
        """
        now_ms, time_ms = self._clock.monotonic_ms(), self._clock.time_ms()
        metrics = self._of(remote)
        metrics.bytes.record(size, now_ms)
        metrics.age.record_all([time_ms - one for one in newest_ms], now_ms)

    def batches_acknowledged(self, remote: TopicPartition, count: int, newest_ms: Sequence[int]) -> None:
        """The target has batches of `count` records together."""
        now_ms, time_ms = self._clock.monotonic_ms(), self._clock.time_ms()
        metrics = self._of(remote)
        metrics.records.record(count, now_ms)
        metrics.latency.record_all([time_ms - one for one in newest_ms], now_ms)

    def _of(self, remote: TopicPartition) -> _PartitionMetrics:
        found = self._partitions.get(remote)
        if found is None:
            found = self._partitions[remote] = _PartitionMetrics()
        return found

    def _collect(self) -> Iterator[tuple[MetricName, Value]]:
        now_ms = self._clock.monotonic_ms()
        for remote, metrics in self._partitions.items():
            tags = (*_flow_tags(self._flow), *_partition_tags(remote))
            for attribute, value in metrics.read(now_ms):
                yield MetricName(GROUP, "MirrorSourceConnector", "", tags, attribute), value


class MirrorCheckpointMetrics:
    """Of one flow, by group and partition of the remote topics."""

    def __init__(self, registry: MetricsRegistry, clock: Clock, flow: SourceAndTarget) -> None:
        self._clock = clock
        self._flow = flow
        self._latencies: dict[tuple[str, TopicPartition], Spread] = {}
        registry.add_collector(self._collect)

    def checkpoint_acknowledged(self, group: str, remote: TopicPartition, timestamp_ms: int) -> None:
        """The target has a checkpoint whose record has this time."""
        found = self._latencies.setdefault((group, remote), Spread("checkpoint-latency-ms"))
        found.record(self._clock.time_ms() - timestamp_ms, self._clock.monotonic_ms())

    def _collect(self) -> Iterator[tuple[MetricName, Value]]:
        now_ms = self._clock.monotonic_ms()
        for (group, remote), latency in self._latencies.items():
            tags = (*_flow_tags(self._flow), ("group", group), *_partition_tags(remote))
            for attribute, value in latency.read(now_ms):
                yield MetricName(GROUP, "MirrorCheckpointConnector", "", tags, attribute), value


def _flow_tags(flow: SourceAndTarget) -> Tags:
    return ("source", flow.source), ("target", flow.target)


def _partition_tags(remote: TopicPartition) -> Tags:
    return ("topic", remote.topic), ("partition", str(remote.partition))
