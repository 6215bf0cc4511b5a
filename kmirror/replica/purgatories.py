"""The purgatories of one broker: everything that waits for something to happen to a partition.

Code that changes a log, a watermark or a role calls `complete_delayed(topic_partition)` in the same
step; then every operation that waits for that partition checks again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.delayed_delete_records import DelayedDeleteRecords
from kmirror.replica.delayed_fetch import DelayedFetch
from kmirror.replica.delayed_follower_fetch import FollowerFetchPurgatory
from kmirror.replica.delayed_operation import DelayedOperationPurgatory
from kmirror.replica.delayed_produce import DelayedProduce
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.runtime.api import Runtime


class Purgatories:
    """Owns the purgatories. `fetches` holds the fetches of consumers and of followers without a
    session; other followers' are in `follower_fetches`.
    """

    def __init__(self, runtime: Runtime, hosted: HostedPartitions) -> None:
        self.produces: DelayedOperationPurgatory[DelayedProduce] = DelayedOperationPurgatory("Produce", runtime)
        self.fetches: DelayedOperationPurgatory[DelayedFetch] = DelayedOperationPurgatory("Fetch", runtime)
        self.delete_records: DelayedOperationPurgatory[DelayedDeleteRecords] = DelayedOperationPurgatory("DeleteRecords", runtime)
        self.follower_fetches = FollowerFetchPurgatory(runtime)
        self._online = hosted.online

    def complete_delayed(self, topic_partition: TopicPartition) -> None:
        """A log, a watermark or a role changed: whatever waits for this partition looks again."""
        self.complete_delayed_together([topic_partition])

    def complete_delayed_together(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """As `complete_delayed`, for partitions that changed in one step: a follower's fetch that
        waits for some of them is answered with all of them.
        """
        partitions = [self._online[each] for each in topic_partitions if each in self._online]
        self.follower_fetches.note_changes(partitions)
        for topic_partition in topic_partitions:
            self.fetches.check_and_complete(topic_partition)
            self.produces.check_and_complete(topic_partition)
            self.delete_records.check_and_complete(topic_partition)

    def fail_pending_produces(self, topic_partition: TopicPartition, error: Errors = Errors.NOT_LEADER_OR_FOLLOWER) -> None:
        """Produces that wait for this partition's ISR answer `error` for it."""
        for operation in self.produces.watched_for_key(topic_partition):
            operation.fail_partition(topic_partition, error)

    def shutdown(self) -> None:
        """Answer everything that waits."""
        self.follower_fetches.shutdown()
        self.fetches.shutdown()
        self.produces.shutdown()
        self.delete_records.shutdown()
