"""Hands out what a consumer has fetched, and says what errors of a partition mean (Kafka's
`FetchCollector`). Nothing here waits.

What an error of a partition means (`FETCH_ERRORS`):

    FIND_LEADER   the leader is forgotten and asked for anew, unless the answer names a newer one
    RESET         OFFSET_OUT_OF_RANGE: auto.offset.reset, or the application is told
    TRY_AGAIN     after a pause
    TELL          the application is told

A position says where to read, not in what. When a topic was made anew, or its log begins behind the
position, a consumer goes on, as Kafka's does. What it can never read is counted (`records_lost`), and
told to members of groups; who assigns partitions knows where they begin.

An answer counts only if the partition is still assigned, fetchable, and at the offset that was
asked for.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from kmirror.clients.cluster_client import ClusterClient
from kmirror.clients.consumer.completed_fetch import CompletedFetch
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_types import ConsumerRecord, FetchedBatches, OffsetOutOfRangeException, TopicMadeAnewError
from kmirror.clients.consumer.fetch_state import FetchPosition, PartitionState
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.clients.rated_total import RatedTotal
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime

ALL_BYTES: Final = 1 << 62
_log = logging.getLogger(__name__)


class OnError(Enum):
    """What an error of a partition makes us do; see the module's docstring."""

    FIND_LEADER = 1
    RESET = 2
    TRY_AGAIN = 3
    TELL = 4


FETCH_ERRORS: Final = {
    Errors.NOT_LEADER_OR_FOLLOWER: OnError.FIND_LEADER,
    Errors.REPLICA_NOT_AVAILABLE: OnError.FIND_LEADER,
    Errors.KAFKA_STORAGE_ERROR: OnError.FIND_LEADER,
    Errors.FENCED_LEADER_EPOCH: OnError.FIND_LEADER,
    Errors.OFFSET_NOT_AVAILABLE: OnError.FIND_LEADER,
    Errors.LEADER_NOT_AVAILABLE: OnError.FIND_LEADER,
    Errors.UNKNOWN_TOPIC_OR_PARTITION: OnError.FIND_LEADER,
    Errors.UNKNOWN_TOPIC_ID: OnError.FIND_LEADER,
    Errors.INCONSISTENT_TOPIC_ID: OnError.FIND_LEADER,
    Errors.UNKNOWN_LEADER_EPOCH: OnError.FIND_LEADER,  # a broker that is behind, or a topic made anew (Kafka only tries again)
    Errors.OFFSET_OUT_OF_RANGE: OnError.RESET,
    Errors.UNKNOWN_SERVER_ERROR: OnError.TRY_AGAIN,
}
"""Any other error is told."""


class FetchCollector:
    """Owns the answers of partitions that are not handed out yet, in the order of their coming."""

    def __init__(self, runtime: Runtime, cluster: ClusterClient, subscriptions: SubscriptionState, config: ConsumerConfig) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._config = config
        self._completed: deque[CompletedFetch] = deque()
        self.refused: dict[TopicPartition, Errors] = {}
        """Partitions that are asked for again since their last answer was such an error."""
        self.records_lost = 0
        self.refuses_topics_made_anew = False
        """Whether a topic that was made anew raises TopicMadeAnewError, and nothing of it is given out."""
        self.records_consumed = RatedTotal("records-consumed", runtime.clock)
        self._out_of_range_at: dict[TopicPartition, int] = {}

    def add(self, fetch: CompletedFetch) -> None:
        self._completed.append(fetch)

    def buffered_partitions(self) -> set[TopicPartition]:
        """Partitions with records that can be handed out."""
        return {fetch.partition for fetch in self._completed if not fetch.is_consumed and self._is_fetchable(fetch.partition)}

    def _is_fetchable(self, partition: TopicPartition) -> bool:
        state = self._subscriptions.state_or_none(partition)
        return state is not None and state.is_fetchable

    @property
    def completed_count(self) -> int:
        """Answers of partitions that are not handed out yet."""
        return len(self._completed)

    def collect_records(self, max_records: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What is there, at most that many records. Errors that the application must know are
        raised when nothing was found before them."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        left = max_records
        for fetch in self._next_fetches(lambda: not found):
            if left <= 0:
                break
            try:
                records = fetch.fetch_records(left)
            except Exception:  # what was found is given out first: its positions have moved
                if found:
                    break
                raise
            self._advance(fetch)
            if records:
                found.setdefault(fetch.partition, []).extend(records)
                left -= len(records)
                self.records_consumed.record(len(records))
        return found

    def collect_batches(self) -> list[FetchedBatches]:
        """All that is there; see `collect_records`."""
        found: list[FetchedBatches] = []
        for fetch in self._next_fetches(lambda: not found):
            try:
                batches = fetch.fetch_batches(ALL_BYTES)
            except Exception:  # what was found is given out first: its positions have moved
                if found:
                    break
                raise
            self._advance(fetch)
            if batches is not None:
                found.append(batches)
                self.records_consumed.record(sum([one.batch.record_count for one in batches.batches if not one.batch.is_control]))
        return found

    def _next_fetches(self, may_raise: Callable[[], bool]) -> Iterable[CompletedFetch]:
        """The fetches to hand out from, each until it is consumed; paused ones are kept."""
        kept: deque[CompletedFetch] = deque()
        try:
            while self._completed:
                fetch = self._completed[0]
                if not fetch.initialized:
                    try:
                        usable = self._initialize(fetch)
                    except KmirrorError:
                        if not may_raise():
                            return
                        if fetch.size_in_bytes == 0:
                            self._completed.popleft()
                        raise
                    if not usable:
                        self._completed.popleft()
                        continue
                state = self._subscriptions.state_or_none(fetch.partition)
                if state is not None and (state.paused or state.pending_on_assigned_callback) and state.has_valid_position:
                    kept.append(self._completed.popleft())
                elif not self._is_next_in_line(fetch):
                    self._completed.popleft()
                else:
                    before = fetch.next_fetch_offset
                    yield fetch
                    if fetch.is_consumed:
                        self._completed.popleft()
                        self._subscriptions.move_partition_to_end(fetch.partition)
                    elif fetch.next_fetch_offset == before:
                        return
        finally:
            self._completed.extendleft(reversed(kept))

    def _is_next_in_line(self, fetch: CompletedFetch) -> bool:
        state = self._subscriptions.state_or_none(fetch.partition)
        return (
            state is not None
            and state.is_fetchable
            and state.position is not None
            and state.position.offset == fetch.next_fetch_offset
            and not fetch.is_consumed
        )

    def _advance(self, fetch: CompletedFetch) -> None:
        position = self._subscriptions.state(fetch.partition).position
        assert position is not None
        if fetch.next_fetch_offset > position.offset:
            epoch = fetch.last_epoch if fetch.last_epoch >= 0 else position.offset_epoch
            self._subscriptions.advance(fetch.partition, FetchPosition(fetch.next_fetch_offset, epoch, position.leader))

    def _initialize(self, fetch: CompletedFetch) -> bool:
        """Looks at an answer for the first time. Returns whether records can be read from it."""
        state = self._subscriptions.state_or_none(fetch.partition)
        if state is None or not state.has_valid_position or state.position is None:
            return False
        if fetch.error is not Errors.NONE:
            self._subscriptions.move_partition_to_end(fetch.partition)
            self._handle_error(fetch, state.position)
            return False
        if state.position.offset != fetch.fetch_offset:
            return False
        row = fetch.row
        if fetch.size_in_bytes and not fetch.has_complete_batch():
            raise ApiException(
                Errors.CORRUPT_MESSAGE,
                f"Failed to make progress reading messages at {fetch.partition}={fetch.fetch_offset}. Received a non-empty fetch response from "
                "the server, but no complete records were found.",
            )
        if self.refuses_topics_made_anew and state.topic_id and fetch.topic_id and state.topic_id != fetch.topic_id:
            raise TopicMadeAnewError(fetch.partition, fetch.topic_id, state.topic_id)
        self._subscriptions.note_offsets(
            fetch.partition,
            high_watermark=row.high_watermark,
            log_start_offset=row.log_start_offset,
            last_stable_offset=row.last_stable_offset,
        )
        if row.preferred_read_replica >= 0:
            expires_ms = self._runtime.clock.monotonic_ms() + self._config.get_int("metadata.max.age.ms")
            self._subscriptions.prefer_read_replica(fetch.partition, row.preferred_read_replica, expires_ms)
        if self.refused:
            self.refused.pop(fetch.partition, None)
        self._count_lost(fetch, state)
        fetch.initialized = True
        return True

    def _count_lost(self, fetch: CompletedFetch, state: PartitionState) -> None:
        before, state.topic_id = state.topic_id, fetch.topic_id or state.topic_id
        left = self._out_of_range_at.pop(fetch.partition, None) if self._out_of_range_at else None
        if before and state.topic_id != before:
            self._lose(fetch.partition, max(0, fetch.row.log_start_offset), fetch.fetch_offset, "was made anew")
        elif left is not None:
            self._lose(fetch.partition, left, fetch.fetch_offset, "begins behind the position (retention, or deleted records)")

    def _lose(self, partition: TopicPartition, start: int, end: int, why: str) -> None:
        self.records_lost += max(0, end - start)
        if self._subscriptions.has_auto_assigned_partitions:
            lost = f"its {end - start} records from offset {start} to {end - 1} are not read" if end > start else "none of it is left out"
            _log.warning("Partition %s %s: it is read on at offset %d, so %s", partition, why, end, lost)

    def _handle_error(self, fetch: CompletedFetch, position: FetchPosition) -> None:
        partition, error = fetch.partition, fetch.error
        todo = FETCH_ERRORS.get(error, OnError.TELL)
        if todo is OnError.RESET:
            self._out_of_range(partition, fetch.fetch_offset, position)
            return
        if todo is OnError.TELL:
            if error is Errors.TOPIC_AUTHORIZATION_FAILED:
                raise topic_error(error, partition.topic)
            if error is Errors.CORRUPT_MESSAGE:
                raise ApiException(
                    error, f"Encountered corrupt message when fetching offset {fetch.fetch_offset} for topic-partition {partition}"
                )
            raise ApiException(
                error, f"Unexpected error code {int(error)} while fetching at offset {fetch.fetch_offset} from topic-partition {partition}"
            )
        self.refused[partition] = error
        if todo is OnError.FIND_LEADER:
            known = self._cluster.metadata.leader(partition)
            if known is None or known.epoch <= position.leader.epoch or position.leader.epoch < 0:
                self._cluster.forget_leader(partition)
            self._subscriptions.clear_preferred_read_replica(partition)
        backoff_ms = int(self._cluster.backoff_ms(0))
        self._subscriptions.request_failed([partition], self._runtime.clock.monotonic_ms() + backoff_ms)

    def _out_of_range(self, partition: TopicPartition, fetch_offset: int, position: FetchPosition) -> None:
        if self._subscriptions.clear_preferred_read_replica(partition) or fetch_offset != position.offset:
            return
        if not self._subscriptions.has_default_reset_policy:
            text = f"Fetch position {self._kafkas_text(position)} is out of range for partition {partition}"
            raise OffsetOutOfRangeException(text, {partition: position.offset})
        _log.warning("Offset %d is out of range for partition %s: auto.offset.reset says where it is read on", position.offset, partition)
        self._out_of_range_at[partition] = position.offset
        self._subscriptions.request_offset_reset(partition)

    def _kafkas_text(self, position: FetchPosition) -> str:
        node = self._cluster.node(position.leader.node_id)
        leader = None if node is None else f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'})"
        offset_epoch = None if position.offset_epoch < 0 else position.offset_epoch
        epoch = "absent" if position.leader.epoch < 0 else position.leader.epoch
        return (
            f"FetchPosition{{offset={position.offset}, offsetEpoch={_optional(offset_epoch)}, "
            f"currentLeader=LeaderAndEpoch{{leader={_optional(leader)}, epoch={epoch}}}}}"
        )


def _optional(value: object | None) -> str:
    """As Java's Optional prints itself."""
    return "Optional.empty" if value is None else f"Optional[{value}]"


def topic_error(error: Errors, topic: str) -> ApiException:
    """What the application is told of a topic that it may not read, or that cannot be."""
    if error is Errors.TOPIC_AUTHORIZATION_FAILED:
        return ApiException(error, f"Not authorized to access topics: [{topic}]")
    return ApiException(error, f"Invalid topics: [{topic}]")
