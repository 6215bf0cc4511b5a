"""Brings every assigned partition to a position from which it can be fetched.

One task at a time goes through the steps, and ends; `update` starts it when something is missing:

1. Positions whose leader changed are validated (OffsetForLeaderEpoch, KIP-320). It is the first
   step, because it needs no coordinator.
2. A partition without a position gets the committed one, if there is a group.
3. What has none follows auto.offset.reset; without it the application is told.
4. Positions to be reset are asked of the leaders (ListOffsets).
5. Committed positions are validated like those of step 1.

A failed step waits for the backoff. What the application must know is raised by `raise_error`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.clients.cluster_client import ClusterClient
from kmirror.clients.consumer.consumer_types import OffsetAndMetadata
from kmirror.clients.consumer.fetch_state import NO_LEADER, FetchPosition, FetchState, KnownLeader
from kmirror.clients.consumer.offset_commits import OffsetCommits
from kmirror.clients.consumer.offset_fetcher import OffsetFetcher
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope


class Positions:
    """Owns the task; the positions are `SubscriptionState`'s."""

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        cluster: ClusterClient,
        subscriptions: SubscriptionState,
        offsets: OffsetFetcher,
        commits: OffsetCommits | None,
        signal: Signal,
        *,
        request_timeout_ms: int,
    ) -> None:
        self._runtime = runtime
        self._scope = scope
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._commits = commits
        self._signal = signal
        self._request_timeout_ms = request_timeout_ms
        self._running = False
        self._error: KmirrorError | None = None
        self._failures = 0
        self._not_before_ms = 0.0
        self.trouble: str | None = None
        """Why the last round did not bring all partitions to a position; None if it did."""

    def update(self) -> float | None:
        """Starts what is missing. Returns in how many ms it is worth calling again; None for
        never."""
        if self._running or not self._is_work():
            return None
        wait_ms = self._not_before_ms - self._runtime.clock.monotonic_ms()
        if wait_ms > 0:
            return wait_ms
        self._running = True
        self._scope.spawn(self._run(), name="positions")
        return None

    def _is_work(self) -> bool:
        states = (FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION)
        return bool(self._subscriptions.initializing_partitions() or self._subscriptions.where(lambda state: state.fetch_state in states))

    def raise_error(self) -> None:
        """Raises, once, what the application must know."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _run(self) -> None:
        failed = True
        trouble: str | None = "not all leaders have answered for their offsets"
        try:
            failed = not await self._steps()
        except ApiException as error:
            trouble = str(error)
            if not error.error.retriable:
                self._error = error
        except KmirrorError as error:
            trouble = str(error)
            self._error = error
        finally:
            self.trouble = trouble if failed else None
            now_ms = self._runtime.clock.monotonic_ms()
            self._not_before_ms = now_ms + self._cluster.backoff_ms(self._failures) if failed else 0
            self._failures = self._failures + 1 if failed else 0
            self._running = False
            self._signal.fire()

    async def _steps(self) -> bool:
        """Returns whether nothing is left to be tried again."""
        validated = await self._validate()
        await self._take_committed()
        complete = await self._reset() and validated
        return complete and await self._validate()

    async def _take_committed(self) -> None:
        """An answer is about the partitions that were asked, as they were assigned then: one that
        came meanwhile, or went and came back, is asked in the next round."""
        wanted = {partition: self._subscriptions.state(partition) for partition in self._subscriptions.initializing_partitions()}
        committed: dict[TopicPartition, OffsetAndMetadata] = {}
        if self._commits is not None and wanted:
            committed = await self._commits.fetch(wanted, self._request_timeout_ms)
            await self._know_leaders(committed)
        without = []
        for partition, state in wanted.items():
            if self._subscriptions.state_or_none(partition) is not state or state.fetch_state is not FetchState.INITIALIZING:
                continue
            found = committed.get(partition)
            if found is None:
                without.append(partition)
            else:
                self._subscriptions.seek(partition, FetchPosition(found.offset, found.leader_epoch, self._leader(partition)))
        self._subscriptions.reset_initializing_positions(without)

    def _leader(self, partition: TopicPartition) -> KnownLeader:
        leader = self._cluster.known_leader(partition)
        return NO_LEADER if leader is None else KnownLeader(leader.leader.id, leader.epoch)

    async def _know_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        unknown = sorted({partition.topic for partition in partitions if self._cluster.known_leader(partition) is None})
        if unknown:
            await self._cluster.request_update(unknown)

    async def _know_newest_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """A record of a newer epoch than the leader's was read: there is a newer leader. A former
        one that does not know it yet has never heard of the epoch, as if the log had been cut."""
        outdated = set()
        for partition in partitions:
            leader, position = self._cluster.known_leader(partition), self._subscriptions.state(partition).position
            if leader is None or (position is not None and NO_EPOCH < leader.epoch < position.offset_epoch):
                outdated.add(partition.topic)
        if outdated:
            await self._cluster.request_update(sorted(outdated))

    async def _reset(self) -> bool:
        now_ms, wall_ms = self._runtime.clock.monotonic_ms(), self._runtime.clock.time_ms()
        strategies = {}
        for partition in self._subscriptions.partitions_needing_reset(now_ms):
            strategy = self._subscriptions.state(partition).reset_strategy
            assert strategy is not None, f"{partition} is to be reset, but not how"
            strategies[partition] = strategy
        if not strategies:
            return True
        found = await self._offsets.list_offsets({partition: strategy.timestamp(wall_ms) for partition, strategy in strategies.items()})
        later = {partition: -1 for partition, answer in found.items() if answer.offset < 0}
        if later:  # by_duration, and nothing is that young: the end
            found |= await self._offsets.list_offsets(later)
        for partition, answer in found.items():
            if answer.offset >= 0:
                position = FetchPosition(answer.offset, leader=self._leader(partition))  # no record was read: no epoch
                self._subscriptions.complete_reset(partition, strategies[partition], position)
        return found.keys() == strategies.keys()

    async def _validate(self) -> bool:
        now_ms = self._runtime.clock.monotonic_ms()
        await self._know_newest_leaders(self._subscriptions.partitions_needing_validation(now_ms))
        asked = {}
        for partition in self._subscriptions.partitions_needing_validation(now_ms):
            self._subscriptions.maybe_validate_position(partition, self._leader(partition))
            position = self._subscriptions.state(partition).position
            if position is not None:
                asked[partition] = position
        if not asked:
            return True
        found = await self._offsets.epoch_ends(asked)
        errors: list[KmirrorError] = []
        for partition, end in found.items():
            if end is None:
                self._subscriptions.take_leader_without_validation(partition, self._leader(partition))
                continue
            try:
                self._subscriptions.complete_validation(partition, asked[partition], end.leader_epoch, end.end_offset)
            except KmirrorError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return found.keys() == asked.keys()


def timed_out(text: str) -> ApiException:
    """Kafka's TimeoutException."""
    return ApiException(Errors.REQUEST_TIMED_OUT, text)
