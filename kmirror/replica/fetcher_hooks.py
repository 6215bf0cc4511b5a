"""What a fetcher asks of its owner: how data are taken over, how a log is cut, and what must wait."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.replica_types import DivergingEpoch


class FetcherHooks(Protocol):
    """All synchronous.

    What they raise is the partition's alone (`abstract_fetcher` has the table).
    """

    def process_partition_data(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData
    ) -> tuple[int, int | None]:
        """Append; the next offset to fetch, and the epoch of the last batch there is."""
        ...

    def next_mirror_leader_epoch(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> int:
        """What the next fetch says of the epochs it may bring (KIP-1279); -1 of a partition that is
        no mirror's."""
        ...

    def truncate(self, topic_partition: TopicPartition, diverging: DivergingEpoch) -> tuple[int, int | None]:
        """Cut the local log to where it leaves the leader's; the next offset and last epoch."""
        ...

    def truncate_to(self, topic_partition: TopicPartition, offset: int) -> tuple[int, int | None]: ...

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: int) -> None: ...

    def log_end_offset(self, topic_partition: TopicPartition) -> int: ...

    def log_start_offset(self, topic_partition: TopicPartition) -> int:
        """Ours; goes to the leader with the next fetch, so that it knows what DeleteRecords has
        reached."""
        ...

    @property
    def is_throttled(self) -> bool:
        """Whether `must_wait` may say so of any partition."""
        ...

    def must_wait(self, topic_partition: TopicPartition, state: PartitionFetchState) -> bool:
        """Whether a throttle keeps the partition out of the next request."""
        ...

    @property
    def may_epochs_begin_anew(self) -> bool:
        """Whether a topic may be made anew with the id that it had."""
        ...

    def unverified(self) -> Collection[TopicPartition]:
        """Partitions of which it matters whether the leader's log ends where we ask (it may be a
        partition of another fetcher)."""
        ...

    def on_partition_failed(self, topic_partition: TopicPartition, error: ApiException) -> None:
        """The partition left the fetcher because of an error that does not pass."""
        ...
