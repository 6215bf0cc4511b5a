"""MBeans of `ReplicaManager` and its purgatories: partitions by state, waiting operations, and
operations that timed out.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.metrics import Meter, MetricName, MetricsRegistry
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.partition import Partition
from kmirror.replica.purgatories import Purgatories

_PARTITION_COUNTS: dict[str, Callable[[Partition], bool]] = {
    "LeaderCount": lambda partition: partition.is_leader,
    "UnderReplicatedPartitions": lambda partition: partition.is_under_replicated,
    "UnderMinIsrPartitionCount": lambda partition: partition.is_under_min_isr,
    "AtMinIsrPartitionCount": lambda partition: partition.is_at_min_isr,
    "ReassigningPartitions": lambda partition: partition.is_reassigning,
}


class ReplicaManagerMetrics:
    """Registers gauges over partitions and purgatories, and owns the meters of operations that
    timed out.
    """

    def __init__(self, registry: MetricsRegistry, hosted: HostedPartitions, purgatories: Purgatories) -> None:
        def gauge(name: str, read: Callable[[], int]) -> None:
            registry.gauge(MetricName("kafka.server", "ReplicaManager", name), read)

        gauge("PartitionCount", lambda: len(hosted.online))
        gauge("OfflineReplicaCount", lambda: len(hosted.offline))
        for name, is_counted in _PARTITION_COUNTS.items():
            gauge(name, _counter(hosted, is_counted))
        for purgatory in (purgatories.produces, purgatories.fetches, purgatories.delete_records):
            tags = (("delayedOperation", purgatory.name),)
            for name, count in (("PurgatorySize", purgatory.watched), ("NumDelayedOperations", purgatory.num_delayed)):
                read = _with_followers(purgatories, count) if purgatory is purgatories.fetches else count
                registry.gauge(MetricName("kafka.server", "DelayedOperationPurgatory", name, tags), read)

        def expirations(kind: str, *tags: tuple[str, str]) -> Meter:
            return registry.meter(MetricName("kafka.server", kind, "ExpiresPerSec", tags))

        self.produce_expirations = expirations("DelayedProduceMetrics")
        self.consumer_fetch_expirations = expirations("DelayedFetchMetrics", ("fetcherType", "consumer"))
        self.follower_fetch_expirations = expirations("DelayedFetchMetrics", ("fetcherType", "follower"))
        self.delete_records_expirations = expirations("DelayedDeleteRecordsMetrics")


def _with_followers(purgatories: Purgatories, count: Callable[[], int]) -> Callable[[], int]:
    """Adds the waiting fetches of followers with a session, which another purgatory holds."""
    return lambda: count() + purgatories.follower_fetches.num_delayed


def _counter(hosted: HostedPartitions, is_counted: Callable[[Partition], bool]) -> Callable[[], int]:
    return lambda: sum(map(is_counted, hosted.online.values()))
