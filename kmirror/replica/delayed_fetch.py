"""Waits until a fetch has `min_bytes` to answer with, or until its max wait is over; then reads
(again).

Nothing is read while it waits: offsets and their positions in the segments show whether there is
enough. The wait also ends as soon as something changed that the fetcher must hear of: this broker
no longer leads a partition, an epoch is fenced, the log was truncated or rolled, or the fetcher's
epoch diverges. Bytes of a partition that a throttle holds back (`must_wait`) do not count.

A follower waits for hundreds of partitions at once, and each of them changes separately. The bytes
available in each are remembered, so that a change needs a look at one partition and not at all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct

from kmirror.common.errors import ApiException
from kmirror.common.metrics import Meter
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.delayed_operation import DelayedOperation
from kmirror.replica.partition import Partition
from kmirror.replica.partition_reader import diverging_epoch, fetchable_end_offset
from kmirror.replica.replica_types import FetchParams, FetchPartition
from kmirror.storage.log_offset_metadata import LogOffsetMetadata


class FetchPartitionStatus(Struct, frozen=True):
    """Where the first read of a partition began (None: unknown), and what was asked."""

    topic_partition: TopicPartition
    start: LogOffsetMetadata | None
    fetch: FetchPartition


class DelayedFetch(DelayedOperation):
    def __init__(
        self,
        params: FetchParams,
        statuses: list[FetchPartitionStatus],
        get_partition: Callable[[TopicPartition], Partition | None],
        read: Callable[[], None],
        expirations: Meter,
        *,
        must_wait: Callable[[Partition], bool] = lambda partition: False,
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._must_wait = must_wait
        self._params = params
        self._statuses = statuses
        self._get_partition = get_partition
        self._read = read
        self._expirations = expirations
        self._available: dict[TopicPartition, int] = {}
        self._accumulated = 0
        self._by_partition: dict[Hashable, FetchPartitionStatus] | None = None

    def try_complete(self) -> bool:
        return any(self._look_at(status) for status in self._statuses) or self._complete_if_enough()

    def try_complete_for(self, key: Hashable) -> bool:
        if self._by_partition is None:
            self._by_partition = {status.topic_partition: status for status in self._statuses}
        status = self._by_partition.get(key)
        return status is not None and (self._look_at(status) or self._complete_if_enough())

    def _look_at(self, status: FetchPartitionStatus) -> bool:
        """Counts what this partition has now; True if that completed the fetch."""
        available = self._available_bytes(status)
        if available is None:
            return self.force_complete()
        self._accumulated += available - self._available.get(status.topic_partition, 0)
        self._available[status.topic_partition] = available
        return False

    def _complete_if_enough(self) -> bool:
        return self._accumulated >= self._params.min_bytes and self.force_complete()

    def _available_bytes(self, status: FetchPartitionStatus) -> int | None:
        """The bytes that a read would find; None if the fetch must be answered now, whatever a read
        finds.
        """
        partition = self._get_partition(status.topic_partition)
        start = status.start
        if partition is None or start is None:
            return None
        try:
            partition.check_current_leader_epoch(status.fetch.current_leader_epoch)
            log = partition.readable_log(fetch_only_leader=self._params.fetch_only_leader)
            end = fetchable_end_offset(log, self._params.isolation)
            epoch = status.fetch.last_fetched_epoch
            if epoch is not None and diverging_epoch(partition, log, status.fetch.fetch_offset, epoch) is not None:
                return None
        except ApiException:
            return None
        if end.message_offset == start.message_offset:
            return 0
        if end.on_older_segment(start):
            return None
        if self._must_wait(partition):
            return 0
        if start.on_older_segment(end):
            return None
        if start.message_offset < end.message_offset and end.on_same_segment(start):
            return min(end.position_diff(start), status.fetch.max_bytes)
        return 0

    def on_expiration(self) -> None:
        self._expirations.mark()

    def on_complete(self) -> None:
        self._read()
