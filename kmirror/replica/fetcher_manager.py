"""What metadata makes followers do: begin, stop and continue fetching (a port of
`MetadataApplier`).

`ReplicaFetcherManager` implements it. A broker without peers has no fetchers.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid


class InitialFetchState(NamedTuple):
    """Where a follower begins: the leader, the leader epoch, and the first offset to fetch."""

    topic_id: Uuid
    leader_id: int
    current_leader_epoch: int
    fetch_offset: int


class FetcherManager(Protocol):
    """The fetchers of followers; absent on a broker without peers."""

    def add_fetcher_for_partitions(self, partitions: dict[TopicPartition, InitialFetchState]) -> None: ...

    def remove_fetcher_for_partitions(self, partitions: list[TopicPartition]) -> None: ...

    def on_brokers_changed(self) -> None:
        """Brokers changed: leaders that were not known may be known now."""
        ...

    def shutdown_idle_fetchers(self) -> None:
        """End the fetchers that have nothing to fetch."""
        ...
