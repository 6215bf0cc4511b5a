"""What a consumer is subscribed to, what it is assigned, and where it reads each partition from
(Kafka's `SubscriptionState`). Pure: no request is sent here. What a partition goes through is in
`fetch_state`.

Partitions are asked in the order of the assignment; one whose records were returned moves to the
end, so that all have their turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from kmirror.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from kmirror.clients.consumer.consumer_types import (
    ConsumerRebalanceListener,
    IllegalStateError,
    LogTruncationException,
    NoOffsetForPartitionException,
    OffsetAndMetadata,
)
from kmirror.clients.consumer.fetch_state import FetchPosition, FetchState, KnownLeader, PartitionState
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition

SUBSCRIPTION_EXCEPTION_MESSAGE: Final = "Subscription to topics, partitions and pattern are mutually exclusive"
UNDEFINED_EPOCH_OFFSET: Final = -1
_log = logging.getLogger(__name__)


class SubscriptionType(Enum):
    """How partitions come to be assigned."""

    NONE = "None"
    AUTO_TOPICS = "topics"
    AUTO_PATTERN = "pattern"
    USER_ASSIGNED = "assign"


class SubscriptionState:
    """One consumer's. Times are ms of a monotonic clock."""

    def __init__(self, default_reset_strategy: AutoOffsetResetStrategy) -> None:
        self.default_reset_strategy = default_reset_strategy
        self.type = SubscriptionType.NONE
        self.topics: tuple[str, ...] = ()
        self.pattern: str | None = None
        self.listener: ConsumerRebalanceListener | None = None
        self.assignment_id = 0
        self._matches: Callable[[str], bool] = lambda topic: False
        self._states: dict[TopicPartition, PartitionState] = {}

    # Subscription

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None) -> bool:
        """Returns whether the topics changed. IllegalStateError beside `assign` or a pattern."""
        self._set_type(SubscriptionType.AUTO_TOPICS)
        self.listener = listener
        return self._change(topics)

    def subscribe_pattern(self, pattern: str, matches: Callable[[str], bool], listener: ConsumerRebalanceListener | None) -> None:
        """The topics follow with `subscribe_from_pattern`, or stay with the broker."""
        self._set_type(SubscriptionType.AUTO_PATTERN)
        self.listener = listener
        self.pattern, self._matches = pattern, matches

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Takes over which topics match; returns whether that changed."""
        return self._change(topics)

    def assign_from_user(self, partitions: Iterable[TopicPartition]) -> bool:
        """Returns whether the assignment changed. What stays keeps its position."""
        self._set_type(SubscriptionType.USER_ASSIGNED)
        wanted = list(dict.fromkeys(partitions))
        if set(wanted) == set(self._states):
            return False
        self._set(wanted)
        self._change(dict.fromkeys(partition.topic for partition in wanted))
        return True

    def assign_from_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Takes over what the group assigned. What stays keeps its position."""
        assert self.has_auto_assigned_partitions, "Attempt to dynamically assign partitions while manual assignment in use"
        self._set(list(dict.fromkeys(partitions)))

    def unsubscribe(self) -> None:
        """Nothing is subscribed or assigned any more."""
        self.type = SubscriptionType.NONE
        self.topics, self.pattern, self.listener = (), None, None
        self._states = {}
        self.assignment_id += 1

    @property
    def has_auto_assigned_partitions(self) -> bool:
        return self.type in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    def matches_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of an assignment is of topics that are still wanted."""
        if self.type is SubscriptionType.AUTO_PATTERN:
            return all(self._matches(partition.topic) for partition in partitions)
        return all(partition.topic in self.topics for partition in partitions)

    def matches_pattern(self, topic: str) -> bool:
        return self.type is SubscriptionType.AUTO_PATTERN and self._matches(topic)

    def _set_type(self, type: SubscriptionType) -> None:
        if self.type not in (SubscriptionType.NONE, type):
            raise IllegalStateError(SUBSCRIPTION_EXCEPTION_MESSAGE)
        self.type = type

    def _change(self, topics: Iterable[str]) -> bool:
        wanted = tuple(sorted(set(topics)))
        changed = wanted != self.topics
        self.topics = wanted
        return changed

    def _set(self, partitions: Sequence[TopicPartition]) -> None:
        self._states = {partition: self._states.get(partition) or PartitionState() for partition in partitions}
        for state in self._states.values():
            state.pending_revocation = False  # a rebalance that was cut short may have left it
        self.assignment_id += 1

    # Assignment

    def assigned_partitions(self) -> list[TopicPartition]:
        return list(self._states)

    def is_assigned(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def state(self, partition: TopicPartition) -> PartitionState:
        """IllegalStateError unless the partition is assigned."""
        state = self._states.get(partition)
        if state is None:
            raise IllegalStateError(f"No current assignment for partition {partition}")
        return state

    def state_or_none(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def where(self, condition: Callable[[PartitionState], bool]) -> list[TopicPartition]:
        """The assigned partitions whose state fulfils `condition`, in order."""
        return [partition for partition, state in self._states.items() if condition(state)]

    def fetchable_partitions(self) -> list[TopicPartition]:
        return self.where(lambda state: state.is_fetchable)

    def move_partition_to_end(self, partition: TopicPartition) -> None:
        if partition in self._states:
            self._states[partition] = self._states.pop(partition)

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing more of these is fetched or returned."""
        for partition in partitions:
            self.state(partition).pending_revocation = True

    def mark_pending_on_assigned_callback(self, partitions: Iterable[TopicPartition], *, pending: bool) -> None:
        """While the listener is not done with them, new partitions are not fetched."""
        for partition in partitions:
            state = self._states.get(partition)
            if state is not None:
                state.pending_on_assigned_callback = pending

    def not_taken_over(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that the listener is still to be told of: new ones, and those at which a call of it
        was cut short."""
        states = ((partition, self._states.get(partition)) for partition in partitions)
        return [partition for partition, state in states if state is None or state.pending_on_assigned_callback]

    # Positions

    def seek(self, partition: TopicPartition, position: FetchPosition) -> None:
        """The user's choice; it is validated if it has an epoch and the leader's is known."""
        state = self.state(partition)
        state.reset_strategy = None
        state.go(FetchState.FETCHING, position)
        state.validate(position)

    def advance(self, partition: TopicPartition, position: FetchPosition) -> None:
        """After records were returned."""
        state = self.state(partition)
        assert state.has_valid_position, f"Cannot set a new position without a valid current position for {partition}"
        state.position = position

    def request_offset_reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy | None = None) -> None:
        """Nothing if the partition is no longer assigned."""
        state = self._states.get(partition)
        if state is not None and state.go(FetchState.AWAIT_RESET):
            state.reset_strategy = strategy or self.default_reset_strategy

    def complete_reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy, position: FetchPosition) -> bool:
        """Takes over an answer, unless the partition was given up, was sought elsewhere, or is to
        be reset otherwise by now."""
        state = self._states.get(partition)
        if state is None or state.fetch_state is not FetchState.AWAIT_RESET or state.reset_strategy != strategy:
            return False
        if self.has_auto_assigned_partitions:  # who assigns partitions knows where they begin
            _log.info("Resetting offset for partition %s to position %d.", partition, position.offset)
        self.seek(partition, position)
        return True

    def reset_initializing_positions(self, without: Sequence[TopicPartition]) -> None:
        """The partitions `without` anything committed follow auto.offset.reset;
        NoOffsetForPartitionException where that is none."""
        if without and not self.has_default_reset_policy:
            raise NoOffsetForPartitionException(without)
        for partition in without:
            self.request_offset_reset(partition)

    @property
    def has_default_reset_policy(self) -> bool:
        return self.default_reset_strategy != AutoOffsetResetStrategy.NONE

    def initializing_partitions(self) -> list[TopicPartition]:
        """Those without any position. New ones wait for the listener, which may seek, unless it asks
        for their position itself."""
        return self.where(
            lambda state: state.fetch_state is FetchState.INITIALIZING and (state.position_asked or not state.pending_on_assigned_callback)
        )

    def partitions_needing_reset(self, now_ms: int) -> list[TopicPartition]:
        return self.where(lambda state: state.fetch_state is FetchState.AWAIT_RESET and now_ms >= state.next_retry_ms)

    def partitions_needing_validation(self, now_ms: int) -> list[TopicPartition]:
        return self.where(lambda state: state.fetch_state is FetchState.AWAIT_VALIDATION and now_ms >= state.next_retry_ms)

    def has_all_positions(self) -> bool:
        return all(state.has_valid_position for state in self._states.values())

    def request_failed(self, partitions: Iterable[TopicPartition], next_retry_ms: int) -> None:
        """A question about these may be asked again from then on."""
        for partition in partitions:
            state = self._states.get(partition)
            if state is not None:
                state.next_retry_ms = next_retry_ms

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit without arguments commits."""
        return {
            partition: OffsetAndMetadata(state.position.offset, state.position.offset_epoch)
            for partition, state in self._states.items()
            if state.has_valid_position and state.position is not None
        }

    # Validation (KIP-320)

    def maybe_validate_position(self, partition: TopicPartition, leader: KnownLeader) -> None:
        """Takes over the current leader. A position whose leader changed must be validated."""
        state = self._states.get(partition)
        if state is None or state.position is None or leader.node_id < 0 or state.position.leader == leader:
            return
        state.preferred_read_replica = None
        state.validate(replace(state.position, leader=leader))

    def take_leader_without_validation(self, partition: TopicPartition, leader: KnownLeader) -> None:
        """For brokers that cannot tell where an epoch ends (before OffsetForLeaderEpoch v3)."""
        state = self._states.get(partition)
        if state is not None and state.position is not None:
            state.go(FetchState.FETCHING, replace(state.position, leader=leader))

    def complete_validation(self, partition: TopicPartition, asked: FetchPosition, leader_epoch: int, end_offset: int) -> None:
        """Takes over where the leader's log ends the epoch of the position `asked`.
        LogTruncationException if it was cut below the position and there is no reset policy."""
        state = self._states.get(partition)
        if state is None or state.fetch_state is not FetchState.AWAIT_VALIDATION or state.position != asked:
            return
        if end_offset == UNDEFINED_EPOCH_OFFSET or leader_epoch == NO_EPOCH:
            if not self.has_default_reset_policy:
                raise LogTruncationException({partition: asked.offset}, {})
            self.request_offset_reset(partition)
        elif end_offset < asked.offset:
            if not self.has_default_reset_policy:
                divergent = OffsetAndMetadata(end_offset, leader_epoch)
                raise LogTruncationException({partition: asked.offset}, {partition: divergent})
            _log.warning(
                "%s has lost its end: it was read up to offset %d, and is read again from %d, where other records may stand now",
                partition, asked.offset, end_offset,
            )  # fmt: skip
            state.go(FetchState.FETCHING, FetchPosition(end_offset, leader_epoch, asked.leader))
        else:
            state.go(FetchState.FETCHING, asked)

    # What responses told

    def note_offsets(self, partition: TopicPartition, *, high_watermark: int, log_start_offset: int, last_stable_offset: int) -> bool:
        """-1 means that the response did not tell. Returns whether the partition is assigned."""
        state = self._states.get(partition)
        if state is None:
            return False
        if high_watermark >= 0:
            state.high_watermark = high_watermark
        if log_start_offset >= 0:
            state.log_start_offset = log_start_offset
        if last_stable_offset >= 0:
            state.last_stable_offset = last_stable_offset
        return True

    def partition_lag(self, partition: TopicPartition, *, committed: bool) -> int | None:
        """Records between the position and the end that this consumer can see; None if one of the
        two is not known."""
        state = self.state(partition)
        end = state.last_stable_offset if committed else state.high_watermark
        return None if end is None or state.position is None else end - state.position.offset

    def prefer_read_replica(self, partition: TopicPartition, node_id: int, expires_ms: int) -> None:
        """The leader says which replica is nearer (KIP-392)."""
        state = self._states.get(partition)
        if state is not None and state.preferred_read_replica != node_id:
            state.preferred_read_replica, state.preferred_read_replica_expires_ms = node_id, expires_ms

    def preferred_read_replica(self, partition: TopicPartition, now_ms: int) -> int | None:
        """The replica to read from instead of the leader, or None."""
        state = self._states.get(partition)
        if state is None or state.preferred_read_replica is None:
            return None
        if now_ms > state.preferred_read_replica_expires_ms:
            state.preferred_read_replica = None
        return state.preferred_read_replica

    def clear_preferred_read_replica(self, partition: TopicPartition) -> bool:
        """Returns whether there was one."""
        state = self._states.get(partition)
        had = state is not None and state.preferred_read_replica is not None
        if state is not None:
            state.preferred_read_replica = None
        return had
