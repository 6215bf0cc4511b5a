"""The fetcher framework (skeleton; bodies follow): `ReplicaFetcher` and `mirror.MirrorFetcher` are its two children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.replica_types import EpochEndOffset


@dataclass(slots=True)
class PartitionFetchState:
    topic_id: Uuid
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int | None
    delayed_until_ms: int = 0
    lag: int | None = None


class LeaderEndPoint(Protocol):
    """The leader's side of a fetcher: a broker of this cluster, or one of a source cluster."""

    async def fetch(self, partitions: Mapping[TopicPartition, PartitionFetchState]) -> Mapping[TopicPartition, FetchedPartition]: ...

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> tuple[int, int]: ...

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> tuple[int, int]: ...

    async def fetch_epoch_end_offsets(
        self, epochs: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, EpochEndOffset]: ...

    async def close(self) -> None: ...


class AbstractFetcher:
    """One task per (fetcher id, source broker[, mirror]). Hooks that a child overrides:

    process_partition_data(tp, state, data) -> LogAppendInfo | None     append what was fetched
    truncate(tp, offset) / truncate_fully_and_start_at(tp, offset)      cut the local log
    on_truncation(tp, offset), on_out_of_range(tp, state), on_partition_failed(tp, errors, text), on_partition_error(tp, errors, data) -> bool
    """

    def add_partitions(self, partitions: Mapping[TopicPartition, PartitionFetchState]) -> None: ...

    def remove_partitions(self, partitions: list[TopicPartition]) -> None:
        """Effective at once: data of a response in flight for them is discarded."""

    def start(self) -> None: ...

    async def shutdown(self) -> None: ...
