"""The leader's side of a fetcher (Kafka's `LeaderEndPoint`): what is asked, what comes back, and
how it fails.

Implementations: `BrokerLeaderEndPoint` asks another broker of this cluster, `LocalLeaderEndPoint`
reads this broker's own logs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.replica_types import NO_MIRROR_LEADER_EPOCH, DivergingEpoch


class LeaderUnavailableError(KmirrorError):
    """The leader did not answer: no connection, no response in time, or nothing that can be read."""


class RefusedByLeaderError(KmirrorError):
    """The leader answered a question about one partition with an error."""

    def __init__(self, error: Errors) -> None:
        self.error = error
        super().__init__(f"the leader answered {error.name}")


@dataclass(frozen=True, slots=True)
class PartitionFetchState:
    """What is fetched next. Immutable: a new state means that answers to the old one are void.
    Times are monotonic ms; `retry_ms` is how long the partition last waited for a leader that is
    behind us, and 0 once it was fetched.
    """

    topic_id: Uuid
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int | None = None
    mirror_leader_epoch: int = NO_MIRROR_LEADER_EPOCH
    log_start_offset: int = -1
    delayed_until_ms: int = 0
    retry_ms: int = 0
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class FetchData:
    """The leader's answer for one partition (Kafka's `FetchData`), with its records read."""

    error: Errors
    high_watermark: int = -1
    log_start_offset: int = -1
    records: Buffer = b""
    diverging_epoch: DivergingEpoch | None = None
    mirror_leader_epoch: int = NO_MIRROR_LEADER_EPOCH


class LeaderEndPoint(Protocol):
    """The leader's side of a fetcher. All methods raise LeaderUnavailableError; those for offsets
    ApiException with the leader's error."""

    async def fetch(
        self,
        partitions: Mapping[TopicPartition, PartitionFetchState],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int | None,
    ) -> Mapping[TopicPartition, FetchData]:
        """A partition without news may be missing from the answer.

        `touched`: partitions added, removed or changed since the last call (None: any may have).
        `partitions` may change while this waits. `max_wait_ms`: the longest wait for news, if it is
        less than the configured one.
        """
        ...

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int: ...

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int: ...

    async def close(self) -> None: ...
