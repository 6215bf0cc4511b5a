"""A fetch of a follower with a session that waits until one of its partitions has news for it.

`DelayedFollowerFetch` waits for any partition of its session. It is told of each change
(`on_changes`), reads what the changed partition would return, and ends when that is enough, an
error, or a divergence. So the cost of a fetch depends on what changed, not on the number of
followed partitions; an idle one costs a timer. A fetch that any batch satisfies
(replica.fetch.min.bytes is 1 by default) does not read twice: whether there is a batch is known
without reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kmirror.common.errors import Errors
from kmirror.common.metrics import Meter
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD
from kmirror.replica.delayed_operation import DelayedOperation, Timers
from kmirror.replica.follower_session import FollowerSession, PartitionChanges, PartitionKey
from kmirror.replica.partition import Partition
from kmirror.replica.partition_reader import LogReadResult
from kmirror.replica.replica_types import FetchInfos, FetchParams, FetchPartition

FetchInfo = tuple[TopicIdPartition, FetchPartition]


class FollowedPartitions(Protocol):
    """A fetch's view of its session (`fetch_session.IncrementalFetchContext`)."""

    follower: FollowerSession

    def info(self, key: PartitionKey) -> FetchInfo | None:
        """The fetch parameters of a partition; None if the session does not have it."""
        ...


class DelayedFollowerFetch(DelayedOperation):
    """One waiting fetch: owns the partitions looked at and the bytes each has. `look` reads one
    partition, `must_wait` is the throttle; `answer` is given all partitions to read again at the
    end.
    """

    def __init__(
        self,
        params: FetchParams,
        followed: FollowedPartitions,
        infos: dict[PartitionKey, FetchInfo],
        sizes: dict[PartitionKey, int],
        *,
        look: Callable[[FetchInfo], LogReadResult],
        must_wait: Callable[[Partition], bool],
        answer: Callable[[FetchInfos], None],
        expirations: Meter,
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._min_bytes = params.min_bytes
        self._followed = followed
        self._infos = infos
        self._sizes = sizes
        self._look = look
        self._must_wait = must_wait
        self._answer = answer
        self._expirations = expirations

    def try_complete(self) -> bool:
        return sum(self._sizes.values()) >= self._min_bytes and self.force_complete()

    def on_changes(self, changed: Sequence[tuple[PartitionKey, Partition]]) -> None:
        """Looks at partitions that changed together, so that one answer holds all of them."""
        has_news = False
        for key, partition in changed:
            has_news |= self._look_again(key, partition)
        if has_news:
            self.force_complete()
        else:
            self.try_complete()

    def _look_again(self, key: PartitionKey, partition: Partition) -> bool:
        """Looks at one partition; returns whether it ends the fetch (an error or a divergence),
        whatever its size.
        """
        info = self._followed.info(key)
        if info is None:
            return False
        self._infos[key] = info
        fetch = info[1]
        log = partition.log
        if (
            log is not None
            and partition.is_leader
            and log.log_start_offset <= fetch.fetch_offset <= log.log_end_offset
            and fetch.current_leader_epoch == partition.leader_epoch
            and fetch.last_fetched_epoch == log.latest_epoch
        ):
            if fetch.fetch_offset == log.log_end_offset:
                self._sizes.pop(key, None)
                return False
            if self._min_bytes <= RECORD_BATCH_OVERHEAD and not self._must_wait(partition):
                self._sizes[key] = RECORD_BATCH_OVERHEAD
                return False
        read = self._look(info)
        self._sizes[key] = read.size_in_bytes
        return read.error is not Errors.NONE or read.diverging_epoch is not None

    def on_expiration(self) -> None:
        self._expirations.mark()

    def on_complete(self) -> None:
        self._answer(list(self._infos.values()))


class FollowerFetchPurgatory:
    """Owns the waiting fetches, and the order in which partitions last changed (`changes`).
    `note_changes` is called for every change of a partition that may concern a follower.
    """

    def __init__(self, timers: Timers) -> None:
        self.changes = PartitionChanges()
        self._timers = timers
        self._waiting: dict[DelayedFollowerFetch, None] = {}

    @property
    def num_delayed(self) -> int:
        return len(self._waiting)

    def note_changes(self, partitions: Iterable[Partition]) -> None:
        changed = [((partition.topic_id, partition.topic_partition.partition), partition) for partition in partitions]
        for key, _ in changed:
            self.changes.note(key)
        if self._waiting:
            for operation in list(self._waiting):
                operation.on_changes(changed)

    def watch(self, operation: DelayedFollowerFetch) -> None:
        """Tells the fetch of changes until `forget`, or until its time is up."""
        self._waiting[operation] = None
        operation.start_timer(self._timers)

    def forget(self, operation: DelayedFollowerFetch) -> None:
        self._waiting.pop(operation, None)

    def shutdown(self) -> None:
        """Answer everything that waits."""
        for operation in list(self._waiting):
            operation.force_complete()
