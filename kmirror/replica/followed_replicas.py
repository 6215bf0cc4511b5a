"""What a follower's fetchers need of their broker: the followed partitions, the throttles, and who
is told of progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.broker_topic_stats import BrokerTopicStats
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import ReplicaConfig
from kmirror.replica.replication_quota_manager import ReplicationQuotaManagers
from kmirror.storage.unified_log import UnifiedLog


class CleanedLogs(Protocol):
    def cleaned_until(self, log: UnifiedLog) -> int:
        """Returns the end of the part of a log that our cleaner has been through."""
        ...


class FollowedReplicas(Protocol):
    """The part of `ReplicaManager` that its fetchers see."""

    @property
    def config(self) -> ReplicaConfig: ...

    @property
    def quotas(self) -> ReplicationQuotaManagers: ...

    @property
    def stats(self) -> BrokerTopicStats: ...

    @property
    def log_manager(self) -> CleanedLogs: ...

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """The partitions that are online here."""
        ...

    @property
    def is_mirroring_enabled(self) -> bool: ...

    def get_partition_or_exception(self, topic_partition: TopicPartition) -> Partition:
        """Raises ApiException if the partition is not here, or is offline."""
        ...

    def complete_delayed(self, topic_partition: TopicPartition) -> None:
        """Completes what waited for the partition's progress."""
        ...
