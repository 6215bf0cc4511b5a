"""Metrics of groups under Kafka's names (Kafka's `GroupCoordinatorMetrics`): counts of events, and
gauges over the shards.

    kafka.server:type=group-coordinator-metrics
        group-count{protocol}, consumer-group-count{state}, share-group-count{state}, and count and
        rate of committed, expired and deleted offsets and of rebalances
    kafka.coordinator.group:type=GroupMetadataManager,name=...      (classic groups)
        NumOffsets, NumGroups, NumGroups<State>
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.metrics import MetricName, MetricsRegistry, sensor_metric
from kmirror.common.sensors import Sensor, meter_sensor
from kmirror.coordinator.group.classic_group import ClassicGroupState
from kmirror.coordinator.group.consumer_group import ConsumerGroupState
from kmirror.coordinator.group.share_group import ShareGroupState

TYPE = "group-coordinator-metrics"
LEGACY_GROUP = "kafka.coordinator.group"
LEGACY_TYPE = "GroupMetadataManager"
EVENTS = ("offset-commit", "offset-expiration", "offset-deletion", "group-completed-rebalance", "consumer-group-rebalance")


class GroupCounts:
    """The values of the gauges: groups by kind and state, and offsets. States are given by their
    names."""

    def __init__(self) -> None:
        self.classic: dict[str, int] = {}
        self.consumer: dict[str, int] = {}
        self.share: dict[str, int] = {}
        self.offsets = 0

    def of_type(self, group_type: str) -> dict[str, int]:
        """Returns the counts of a type of groups, by their states."""
        return {"classic": self.classic, "consumer": self.consumer, "share": self.share}[group_type]


class GroupMetrics:
    """Managers report events here. `counts` is called when a gauge is read."""

    def __init__(self, registry: MetricsRegistry | None = None, counts: Callable[[], GroupCounts] = GroupCounts) -> None:
        self._events: dict[str, Sensor] = {}
        self._counts = counts
        if registry is not None:
            self._register_gauges(registry)
            self._events = {event: meter_sensor(registry, TYPE, event) for event in EVENTS}

    def offset_commits(self, count: int) -> None:
        self._mark("offset-commit", count)

    def offset_expirations(self, count: int) -> None:
        self._mark("offset-expiration", count)

    def offset_deletions(self, count: int) -> None:
        self._mark("offset-deletion", count)

    def classic_rebalance(self) -> None:
        self._mark("group-completed-rebalance", 1)

    def consumer_rebalance(self) -> None:
        self._mark("consumer-group-rebalance", 1)

    def _mark(self, event: str, count: int) -> None:
        if count and event in self._events:
            self._events[event].record(count)

    def _register_gauges(self, registry: MetricsRegistry) -> None:
        def gauge(name: MetricName, read: Callable[[GroupCounts], int]) -> None:
            registry.gauge(name, lambda: float(read(self._counts())))

        gauge(sensor_metric(TYPE, "group-count", (("protocol", "classic"),)), lambda counts: sum(counts.classic.values()))
        gauge(sensor_metric(TYPE, "group-count", (("protocol", "consumer"),)), lambda counts: sum(counts.consumer.values()))
        gauge(sensor_metric(TYPE, "group-count", (("protocol", "share"),)), lambda counts: sum(counts.share.values()))
        for share_state in ShareGroupState:
            gauge(sensor_metric(TYPE, "share-group-count", (("state", share_state.value),)), _reader_of_share(share_state.value))
        for state in ConsumerGroupState:
            name = sensor_metric(TYPE, "consumer-group-count", (("state", state.value),))
            gauge(name, _reader_of_consumer(state.value))
        gauge(MetricName(LEGACY_GROUP, LEGACY_TYPE, "NumOffsets"), lambda counts: counts.offsets)
        gauge(MetricName(LEGACY_GROUP, LEGACY_TYPE, "NumGroups"), lambda counts: sum(counts.classic.values()))
        for classic_state in ClassicGroupState:
            name = MetricName(LEGACY_GROUP, LEGACY_TYPE, f"NumGroups{classic_state.value}")
            gauge(name, _reader_of_classic(classic_state.value))


def _reader_of_consumer(state: str) -> Callable[[GroupCounts], int]:
    return lambda counts: counts.consumer.get(state, 0)


def _reader_of_share(state: str) -> Callable[[GroupCounts], int]:
    return lambda counts: counts.share.get(state, 0)


def _reader_of_classic(state: str) -> Callable[[GroupCounts], int]:
    return lambda counts: counts.classic.get(state, 0)
