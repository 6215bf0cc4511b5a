"""MBeans of `ReplicaManager` and its purgatories: partitions by state, what waits, what waited in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.common.metrics import Meter, MetricName, MetricsRegistry
from kmirror.replica.partition import Partition

if TYPE_CHECKING:
    from kmirror.replica.replica_manager import ReplicaManager

_PARTITION_COUNTS: dict[str, Callable[[Partition], bool]] = {
    "LeaderCount": lambda partition: partition.is_leader,
    "UnderReplicatedPartitions": lambda partition: partition.is_under_replicated,
    "UnderMinIsrPartitionCount": lambda partition: partition.is_under_min_isr,
    "AtMinIsrPartitionCount": lambda partition: partition.is_at_min_isr,
    "ReassigningPartitions": lambda partition: partition.is_reassigning,
}


class ReplicaManagerMetrics:
    """Gauges over the manager, and the meters of operations that ended because their time was up."""

    def __init__(self, manager: ReplicaManager, registry: MetricsRegistry) -> None:
        def gauge(name: str, read: Callable[[], int]) -> None:
            registry.gauge(MetricName("kafka.server", "ReplicaManager", name), read)

        gauge("PartitionCount", lambda: len(manager.partitions))
        gauge("OfflineReplicaCount", lambda: len(manager.offline_partitions))
        for name, is_counted in _PARTITION_COUNTS.items():
            gauge(name, _counter(manager, is_counted))
        for purgatory in (manager.delayed_produces, manager.delayed_fetches, manager.delayed_delete_records):
            tags = (("delayedOperation", purgatory.name),)
            for name, count in (("PurgatorySize", purgatory.watched), ("NumDelayedOperations", purgatory.num_delayed)):
                read = _with_followers(manager, count) if purgatory is manager.delayed_fetches else count
                registry.gauge(MetricName("kafka.server", "DelayedOperationPurgatory", name, tags), read)

        def expirations(kind: str, *tags: tuple[str, str]) -> Meter:
            return registry.meter(MetricName("kafka.server", kind, "ExpiresPerSec", tags))

        self.produce_expirations = expirations("DelayedProduceMetrics")
        self.consumer_fetch_expirations = expirations("DelayedFetchMetrics", ("fetcherType", "consumer"))
        self.follower_fetch_expirations = expirations("DelayedFetchMetrics", ("fetcherType", "follower"))
        self.delete_records_expirations = expirations("DelayedDeleteRecordsMetrics")


def _with_followers(manager: ReplicaManager, count: Callable[[], int]) -> Callable[[], int]:
    """Fetches of followers with a session wait elsewhere."""
    return lambda: count() + manager.follower_fetches.num_delayed


def _counter(manager: ReplicaManager, is_counted: Callable[[Partition], bool]) -> Callable[[], int]:
    return lambda: sum(map(is_counted, manager.partitions.values()))
