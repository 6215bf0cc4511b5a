"""What a fetcher asks of its owner: to append data, to cut a log, and what must wait."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.replica_types import DivergingEpoch


class FetcherHooks(Protocol):
    """All methods are synchronous. What they raise concerns one partition only (see the table in
    `abstract_fetcher`).
    """

    def process_partition_data(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData
    ) -> tuple[int, int | None]:
        """Appends the data; returns the next offset to fetch, and the epoch of the last batch."""
        ...

    def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> int:
        """The mirror leader epoch of the next fetch, up to which batches may be appended
        (KIP-1279); -1 for a partition that no mirror has.
        """
        ...

    def truncate(self, topic_partition: TopicPartition, diverging: DivergingEpoch) -> tuple[int, int | None]:
        """Cuts the local log where it diverges from the leader's; returns the next offset and the
        last epoch.
        """
        ...

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> tuple[int, int | None]: ...

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None: ...

    def log_end_offset(self, topic_partition: TopicPartition) -> int: ...

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """Our log start offset, which the next fetch tells the leader, so that it knows how far
        DeleteRecords has got.
        """
        ...

    @property
    def is_throttled(self) -> bool:
        """Whether `must_wait` may be true for any partition."""
        ...

    def must_wait(self, topic_partition: TopicPartition, state: PartitionFetchState) -> bool:
        """Whether a throttle keeps the partition out of the next request."""
        ...

    @property
    def may_epochs_begin_anew(self) -> bool:
        """Whether a topic may be recreated with the same id."""
        ...

    def unverified(self) -> Collection[TopicPartition]:
        """Partitions for which it matters whether the leader's log ends where we ask (some may
        belong to other fetchers).
        """
        ...

    def on_partition_failed(self, topic_partition: TopicPartition, error: ApiException) -> None:
        """The partition left the fetcher because of a permanent error."""
        ...
