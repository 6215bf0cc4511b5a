"""`KafkaConsumer`: Kafka's consumer on a `Runtime`, so on sockets and on the simulated loop alike.

    consumer = KafkaConsumer(runtime, {"bootstrap.servers": "host:9092", "group.id": "g"})
    consumer.subscribe(["topic"])
    records = await consumer.poll(1_000)
    await consumer.commit()
    await consumer.close()

Methods and configurations are Kafka's. `poll` hands out records; `poll_batches` hands out whole
batches as they came, views into the fetch responses, for callers that copy them.

Whatever the application has to see happens inside of `poll`: commits before a rebalance, the
rebalance listener, errors. Tasks in between only ask: fetches, positions, and one of the group's
membership. A call of `poll` waits for one thing, the signal that every task fires when it has news.

One task uses a consumer at a time (`wakeup` excepted), as in Kafka one thread does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kmirror.clients.cluster_client import ClusterClient, PartitionInfo
from kmirror.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from kmirror.clients.consumer.classic_membership import ClassicMembership
from kmirror.clients.consumer.consumer_commits import ConsumerCommits
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_membership import ConsumerMembership
from kmirror.clients.consumer.consumer_metrics import COMMIT_SYNC, COMMITTED, ConsumerMetrics
from kmirror.clients.consumer.consumer_types import (
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    ConsumerRecords,
    FetchedBatches,
    IllegalStateError,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    WakeupException,
)
from kmirror.clients.consumer.fetch_state import NO_LEADER, FetchPosition, KnownLeader
from kmirror.clients.consumer.fetcher import Fetcher
from kmirror.clients.consumer.membership import Membership
from kmirror.clients.consumer.offset_commits import MemberIdentity, OffsetCommits
from kmirror.clients.consumer.offset_fetcher import OffsetFetcher
from kmirror.clients.consumer.positions import Positions, timed_out
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState, SubscriptionType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime, TaskScope

T = TypeVar("T")
NO_GROUP: Final = "To use the group management or offset commit APIs, you must provide a valid group.id in the consumer configuration."
NO_ASSIGNOR: Final = "Must configure at least one partition assigner class name to partition.assignment.strategy configuration property"
CLOSE_TIMEOUT_MS: Final = 30_000
LAST_FETCHES_MS: Final = 1_000
"""How long `close` waits at most for brokers to end their fetch sessions."""


class KafkaConsumer:
    """One consumer. ConfigError for wrong `configs`; ApiException and the errors of
    `consumer_types` for what goes wrong later."""

    def __init__(self, runtime: Runtime, configs: Mapping[str, Any]) -> None:
        config = self._config = ConsumerConfig(configs, runtime)
        self._runtime = runtime
        self._metrics = ConsumerMetrics(runtime.clock)
        self._scope = TaskScope(runtime, f"consumer/{config.client_id or config.group_id or 'consumer'}")
        self._signal = Signal(runtime)
        self._cluster = ClusterClient(runtime, config, allow_auto_topic_creation=config.get_bool("allow.auto.create.topics"))
        self._subscriptions = SubscriptionState(config.auto_offset_reset)
        self._timeout_ms = config.get_int("default.api.timeout.ms")
        request_timeout_ms = config.get_int("request.timeout.ms")
        self._offset_commits: OffsetCommits | None = None
        self._membership: Membership | None = None
        if config.group_id is not None:
            self._offset_commits = OffsetCommits(
                runtime, self._cluster, config.group_id, identity=self._identity, on_fenced=self._was_fenced
            )
        self._commits = ConsumerCommits(runtime, self._scope, config, self._subscriptions, self._group_commits)
        self._offsets = OffsetFetcher(runtime, self._cluster, isolation_level=config.isolation_level, request_timeout_ms=request_timeout_ms)
        self._positions = Positions(
            runtime,
            self._scope,
            self._cluster,
            self._subscriptions,
            self._offsets,
            self._offset_commits,
            self._signal,
            request_timeout_ms=request_timeout_ms,
        )
        self._fetcher = Fetcher(runtime, self._scope, self._cluster, self._subscriptions, config, self._signal)
        self._longest_wait_ms = config.get_int("max.poll.interval.ms") / 3
        self._woken = False
        self._closed = False

    # Subscriptions

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: ConsumerRebalanceListener | None = None) -> None:
        """Has the group assign partitions of these topics, or of those whose whole name matches a
        pattern. ApiException without a group; IllegalStateError for an empty list (that is
        `unsubscribe`), or beside `assign`."""
        self._check_open()
        self._check_group()
        if not self._config.uses_consumer_protocol and not self._config.assignors:
            raise IllegalStateError(NO_ASSIGNOR)
        if isinstance(topics, str):
            raise IllegalStateError("subscribe takes a collection of topics, not one name")
        if isinstance(topics, re.Pattern):
            self._subscriptions.subscribe_pattern(topics.pattern, lambda topic: topics.fullmatch(topic) is not None, listener)
        else:
            names = list(topics)
            if not names:
                raise IllegalStateError("Topic collection to subscribe to is empty; call unsubscribe to give everything up")
            if any(not name or not name.strip() for name in names):
                raise IllegalStateError("Topic collection to subscribe to cannot contain null or empty topic")
            self._subscriptions.subscribe(names, listener)
        self._allow_topic_creation()
        if self._membership is None:
            self._membership = self._make_membership()
        self._membership.subscribed(topics if isinstance(topics, re.Pattern) else None)

    def _allow_topic_creation(self) -> None:
        """Of topics that the application named. One that a pattern matched, and that is gone, stays
        gone."""
        by_name = self._subscriptions.type is not SubscriptionType.AUTO_PATTERN
        self._cluster.allow_auto_topic_creation = by_name and self._config.get_bool("allow.auto.create.topics")

    def _make_membership(self) -> Membership:
        made = ConsumerMembership if self._config.uses_consumer_protocol else ClassicMembership
        return made(
            self._runtime,
            self._scope,
            self._cluster,
            self._subscriptions,
            self._config,
            self._signal,
            commit_before_revocation=self._commits.before_revocation,
        )

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these, without a group's help; what is committed in `group.id` is still
        where it begins. IllegalStateError beside `subscribe`."""
        self._check_open()
        self._subscriptions.assign_from_user(partitions)

    async def unsubscribe(self) -> None:
        """Gives everything up, and leaves the group. What the listener raises is raised after that."""
        self._check_open()
        try:
            await self._leave(timeout_ms=self._timeout_ms, tell=True)
        finally:
            self._subscriptions.unsubscribe()
            self._allow_topic_creation()

    def assignment(self) -> list[TopicPartition]:
        """What is assigned now."""
        return self._subscriptions.assigned_partitions()

    def subscription(self) -> list[str]:
        """The topics subscribed to, sorted; of a pattern, those known to match."""
        return list(self._subscriptions.topics) if self._subscriptions.has_auto_assigned_partitions else []

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What a transactional producer commits with."""
        self._check_group()
        assert self._config.group_id is not None
        if self._membership is None:
            return ConsumerGroupMetadata(self._config.group_id, group_instance_id=self._config.group_instance_id)
        return self._membership.group_metadata()

    def enforce_rebalance(self, reason: str = "rebalance enforced by user") -> None:
        """Has the group rebalance at the next `poll`; no effect under the consumer protocol."""
        if self._membership is None:
            raise IllegalStateError("Tried to force a rebalance but consumer does not have a group.")
        self._membership.enforce_rebalance(reason)

    # Reading

    async def poll(self, timeout_ms: float) -> ConsumerRecords:
        """Returns records as soon as there are any, at most max.poll.records; empty after
        `timeout_ms`. Raises what the application must know (module `consumer_types`)."""
        limit = self._config.get_int("max.poll.records")
        return ConsumerRecords(await self._poll(timeout_ms, lambda: self._fetcher.collector.collect_records(limit)) or {})

    async def poll_batches(self, timeout_ms: float) -> list[FetchedBatches]:
        """Returns all batches that are there, by partition, as views into the responses, which
        live as long as a view of them does; [] after `timeout_ms`. `ConsumedBatch` tells how
        transactions are treated."""
        return await self._poll(timeout_ms, self._fetcher.collector.collect_batches) or []

    @property
    def answered_fetches(self) -> int:
        """How many fetches brokers have answered, with records or without."""
        return self._fetcher.answered_fetches

    def trouble(self) -> str | None:
        """Why some of what is assigned could not be read when it was last tried: no broker answers,
        a partition has no leader, a leader refuses; or why the group could not be joined. None if
        nothing failed. `poll` tries on for ever and raises nothing of it, as in Kafka.
        """
        joins = None if self._membership is None else self._membership.trouble
        return self._positions.trouble or self._fetcher.trouble() or joins

    async def _poll(self, timeout_ms: float, collect: Callable[[], T]) -> T | None:
        with self._metrics.polling():
            return await self._until_found(timeout_ms, collect)

    async def _until_found(self, timeout_ms: float, collect: Callable[[], T]) -> T | None:
        self._check_open()
        if self._subscriptions.type.name == "NONE":
            raise IllegalStateError("Consumer is not subscribed to any topics or assigned any partitions")
        clock = self._runtime.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        while True:
            self._raise_wakeup()
            await self._update_membership()
            self._commits.auto_commit()
            wait_ms = self._start_what_is_missing()
            before = self._fetcher.collector.completed_count
            found = collect()
            if found:
                self._fetcher.send_fetches()
                return found
            if self._fetcher.collector.completed_count < before and clock.monotonic_ms() < deadline_ms:
                continue  # something was dropped or held nothing to see: its partition is asked again first
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                await self._runtime.sleep_ms(0)  # who polls without waiting must let fetches run
                return None
            await self._signal.wait(left_ms if wait_ms is None else min(left_ms, wait_ms))

    async def _update_membership(self) -> None:
        if self._membership is not None:
            self._membership.polled()
            await self._membership.update()

    def _start_what_is_missing(self) -> float | None:
        self._positions.raise_error()
        self._fetcher.raise_error()
        waits = [self._positions.update(), self._fetcher.send_fetches(), self._commits.wait_ms]
        if self._membership is not None:
            waits.append(self._longest_wait_ms)  # who waits here polls; the membership is to know
        return min((wait for wait in waits if wait is not None), default=None)

    def wakeup(self) -> None:
        """Makes a waiting `poll`, or the next one, raise WakeupException."""
        self._woken = True
        self._signal.fire()

    def _raise_wakeup(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupException("wakeup was called")

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hands out nothing of these until `resume`; what was fetched is kept."""
        for partition in partitions:
            self._subscriptions.state(partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._subscriptions.state(partition).paused = False
        self._signal.fire()

    def paused(self) -> list[TopicPartition]:
        return self._subscriptions.where(lambda state: state.paused)

    # Positions

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """The next `poll` begins there. With an `OffsetAndMetadata` that has an epoch the position
        is validated first."""
        wanted = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        self._subscriptions.seek(partition, FetchPosition(wanted.offset, wanted.leader_epoch, self._leader(partition)))
        self._signal.fire()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Evaluated with the next `poll` or `position`; without partitions, all assigned ones."""
        self._seek_to(partitions, AutoOffsetResetStrategy.EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """As `seek_to_beginning`; with read_committed the end is the last stable offset."""
        self._seek_to(partitions, AutoOffsetResetStrategy.LATEST)

    def _seek_to(self, partitions: Iterable[TopicPartition], strategy: AutoOffsetResetStrategy) -> None:
        for partition in list(partitions) or self.assignment():
            self._subscriptions.state(partition)
            self._subscriptions.request_offset_reset(partition, strategy)
        self._signal.fire()

    def _leader(self, partition: TopicPartition) -> KnownLeader:
        leader = self._cluster.known_leader(partition)
        return NO_LEADER if leader is None else KnownLeader(leader.leader.id, leader.epoch)

    async def position(self, partition: TopicPartition, *, timeout_ms: float | None = None) -> int:
        """The offset that is handed out next. IllegalStateError unless it is assigned."""
        self._check_open()
        if not self._subscriptions.is_assigned(partition):
            raise IllegalStateError("You can only check the position for partitions assigned to this consumer.")
        clock = self._runtime.clock
        deadline_ms = clock.monotonic_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
        while True:
            self._positions.raise_error()
            state = self._subscriptions.state(partition)
            if state.has_valid_position and state.position is not None:
                return state.position.offset
            state.position_asked = True
            wait_ms = self._positions.update()
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                raise timed_out(
                    f"Timeout of {timeout_ms or self._timeout_ms}ms expired before the position for partition {partition} could be determined"
                )
            await self._signal.wait(left_ms if wait_ms is None else min(left_ms, wait_ms))

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end of the log, as far as known without asking."""
        return self._subscriptions.partition_lag(partition, committed=self._config.read_committed)

    @property
    def records_lost(self) -> int:
        """How many records lay between a position and where reading went on: topics that were made anew, logs
        that begin behind the position."""
        return self._fetcher.collector.records_lost

    def refuse_topics_made_anew(self) -> None:
        """From now on `poll` raises TopicMadeAnewError for a partition of a topic that was made anew,
        again at each call, and gives out nothing of it."""
        self._fetcher.collector.refuses_topics_made_anew = True

    @property
    def client_id(self) -> str:
        return self._cluster.client_id

    def readings(self) -> Iterator[tuple[str, float]]:
        """Yields what is measured here of Kafka's `consumer-metrics`: what the connections count, and polls."""
        yield from self._cluster.readings()
        yield from self._metrics.readings()

    def node_readings(self) -> Iterator[tuple[int, Iterator[tuple[str, float]]]]:
        """Yields what is measured here of Kafka's `consumer-node-metrics`, by broker: latencies of fetches."""
        yield from self._fetcher.metrics.latencies.node_readings()

    def fetch_readings(self) -> Iterator[tuple[str, float]]:
        """Yields what is measured here of Kafka's `consumer-fetch-manager-metrics`. Batches that are
        handed out whole count whole.
        """
        collector = self._fetcher.collector
        yield from collector.records_consumed.readings()
        yield from self._fetcher.metrics.readings()
        lags = [lag for partition in self.assignment() if (lag := self.known_lag(partition)) is not None]
        yield "records-lag-max", max(lags, default=math.nan)
        leads = [lead for partition in self.assignment() if (lead := self._known_lead(partition)) is not None]
        yield "records-lead-min", min(leads, default=math.nan)

    def known_position(self, partition: TopicPartition) -> int | None:
        """The offset that is handed out next; None while that is being asked, and after it is no
        longer valid. Asks nobody."""
        state = self._subscriptions.state_or_none(partition)
        return None if state is None or not state.has_valid_position or state.position is None else state.position.offset

    def known_lag(self, partition: TopicPartition) -> int | None:
        """How many records lie between the position and the end that the last answer told; None before
        there was one. Asks nobody."""
        state, position = self._subscriptions.state_or_none(partition), self.known_position(partition)
        if state is None or position is None or state.high_watermark is None or state.high_watermark < 0:
            return None
        return max(0, state.high_watermark - position)

    def _known_lead(self, partition: TopicPartition) -> int | None:
        """How many records of the partition lie before the position; as `known_lag`."""
        state, position = self._subscriptions.state_or_none(partition), self.known_position(partition)
        if state is None or position is None or state.log_start_offset is None:
            return None
        return max(0, position - state.log_start_offset)

    def topic_id(self, topic: str) -> Uuid:
        """The id that the topic has by the newest metadata; zero if there is none."""
        return self._cluster.topic_id(topic)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """The high watermarks; with read_committed the last stable offsets."""
        return await self._ends(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def _ends(self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: int | None) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, timestamp), timeout_ms)
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than its timestamp (ms); None if
        there is none."""
        for partition, timestamp in timestamps.items():
            if timestamp < 0:
                raise ValueError(f"The target time for partition {partition} is {timestamp}. The target time cannot be negative.")
        found = await self._list_offsets(timestamps, timeout_ms)
        return {
            partition: None if answer.offset < 0 else OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
            for partition, answer in found.items()
        }

    async def _list_offsets(self, timestamps: Mapping[TopicPartition, int], timeout_ms: int | None) -> dict[TopicPartition, Any]:
        self._check_open()
        return await self._offsets.list_all_offsets(timestamps, self._timeout_ms if timeout_ms is None else timeout_ms)

    # Commits

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, *, timeout_ms: int | None = None) -> None:
        """Commits `offsets`, or the positions of all assigned partitions, and waits until it is
        done. CommitFailedException if the partitions may have another owner;
        RebalanceInProgressException; ApiException."""
        self._group_commits()
        with self._metrics.calls.taking(COMMIT_SYNC):
            await self._commits.commit(None if offsets is None else dict(offsets), self._timeout_ms if timeout_ms is None else timeout_ms)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where there is nothing."""
        wanted = list(partitions)
        with self._metrics.calls.taking(COMMITTED):
            found = await self._group_commits().fetch(wanted, self._timeout_ms if timeout_ms is None else timeout_ms)
        return {partition: found.get(partition) for partition in wanted}

    def _identity(self) -> MemberIdentity:
        if self._membership is None or not self._subscriptions.has_auto_assigned_partitions:
            return MemberIdentity()
        return self._membership.identity()

    def _was_fenced(self, identity: MemberIdentity) -> None:
        if self._membership is not None:
            self._membership.fenced(identity)

    # Topics

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """[] if the topic does not exist."""
        self._check_open()
        return await self._cluster.retry(lambda: self._cluster.partitions_for(topic), self._timeout_ms)

    async def list_topics(self) -> dict[str, list[PartitionInfo]]:
        """All topics that this client may see."""
        self._check_open()
        names = await self._cluster.retry(lambda: self._cluster.topics(None), self._timeout_ms)
        return {name: self._cluster.metadata.partitions_for(name) or [] for name in names}

    # End

    async def close(self, *, timeout_ms: float = CLOSE_TIMEOUT_MS) -> None:
        """Commits if enable.auto.commit is set, leaves the group, and drops all connections. What
        brokers have not answered after `timeout_ms` is given up."""
        if self._closed:
            return
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        try:
            await self._leave(timeout_ms=timeout_ms, tell=self._config.get_bool("internal.leave.group.on.close"))
            if self._membership is None:
                await self._commits.before_revocation(timeout_ms)
            left_ms = deadline_ms - self._runtime.clock.monotonic_ms()
            await self._fetcher.close_sessions(max(0, min(LAST_FETCHES_MS, left_ms)))
        finally:
            self._closed = True
            try:
                await self._scope.cancel()
            finally:
                await self._cluster.close()

    async def _leave(self, *, timeout_ms: float, tell: bool) -> None:
        membership = self._membership
        if membership is not None:
            try:
                await membership.leave(timeout_ms=timeout_ms, tell=tell)
            finally:
                self._membership = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("This consumer has already been closed.")

    def _check_group(self) -> None:
        if not self._config.group_id:
            raise ApiException(Errors.INVALID_GROUP_ID, NO_GROUP)

    def _group_commits(self) -> OffsetCommits:
        self._check_open()
        if self._offset_commits is None:
            raise ApiException(Errors.INVALID_GROUP_ID, NO_GROUP)
        return self._offset_commits
