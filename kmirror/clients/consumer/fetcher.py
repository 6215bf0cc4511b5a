"""Fetches from the leaders, and hands out what came (Kafka's `Fetcher` and `FetchCollector`).

One request per broker is in flight, on a connection of its own, as long as none of the broker's
partitions has fetched data that was not handed out: so the session's set of partitions stays the
same (KAFKA-17182). `send_fetches` starts requests and never waits; `collect_records` and
`collect_batches` hand out and never wait. In between the signal is fired when an answer is there.

What an error of a partition means (`FETCH_ERRORS`):

    FIND_LEADER   the leader is forgotten and asked for anew, unless the answer names a newer one
    RESET         OFFSET_OUT_OF_RANGE: auto.offset.reset, or the application is told
    TRY_AGAIN     after a pause
    TELL          the application is told

An answer counts only if the partition is still assigned, fetchable, and at the offset that was
asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from kmirror.clients.cluster_client import ClusterClient, LeaderAndEpoch, Node
from kmirror.clients.consumer.completed_fetch import CompletedFetch
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_types import ConsumerRecord, FetchedBatches, OffsetOutOfRangeException
from kmirror.clients.consumer.fetch_session_handler import FINAL_EPOCH, FetchDifference, FetchSessionHandler, PartitionRequest
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import FetchPosition, KnownLeader, SubscriptionState
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData

FETCH_CONNECTION: Final = "fetch"
HIGHEST_FETCH_VERSION: Final = 18
"""Version 19 belongs to the mirroring brokers' dialect (KIP-1279)."""
FIRST_VERSION_WITH_IDS: Final = 13
ALL_BYTES: Final = 1 << 62


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
    Errors.OFFSET_OUT_OF_RANGE: OnError.RESET,
    Errors.UNKNOWN_LEADER_EPOCH: OnError.TRY_AGAIN,
    Errors.UNKNOWN_SERVER_ERROR: OnError.TRY_AGAIN,
}
"""Any other error is told."""


class Fetcher:
    """Owns the fetch sessions and what was fetched."""

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        cluster: ClusterClient,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        signal: Signal,
    ) -> None:
        self._runtime = runtime
        self._scope = scope
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._config = config
        self._signal = signal
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._not_before_ms: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._completed: deque[CompletedFetch] = deque()
        self._looking_for_leaders = False
        self._leader_failures = 0
        self._error: KmirrorError | None = None

    # Asking

    def send_fetches(self) -> float | None:
        """Starts a request to every broker that has something to be asked. Returns in how many ms
        it is worth trying again without an answer; None for never."""
        now_ms = self._runtime.clock.monotonic_ms()
        busy = {fetch.partition for fetch in self._completed if not fetch.is_consumed and self._is_fetchable(fetch.partition)}
        wanted: dict[int, tuple[Node, dict[TopicPartition, PartitionRequest]]] = {}
        buffered: set[int] = set()
        without_leader: list[TopicPartition] = []
        wait_ms: float | None = None
        for partition in self._subscriptions.fetchable_partitions():
            state = self._subscriptions.state(partition)
            if now_ms < state.next_retry_ms:
                wait_ms = _sooner(wait_ms, state.next_retry_ms - now_ms)
                continue
            leader = self._cluster.known_leader(partition)
            if leader is None:
                without_leader.append(partition)
                continue
            self._subscriptions.maybe_validate_position(partition, KnownLeader(leader.leader.id, leader.epoch))
            if not state.is_fetchable:
                continue  # its position is validated first
            node = self._node_for(partition, leader, now_ms)
            if partition in busy:
                buffered.add(node.id)
                continue
            if node.id not in self._in_flight:
                wanted.setdefault(node.id, (node, {}))[1][partition] = self._request_of(partition, leader)
        for node_id, (node, partitions) in wanted.items():
            pause_ms = self._not_before_ms.get(node_id, 0) - now_ms
            if node_id in buffered:
                continue
            if pause_ms > 0:
                wait_ms = _sooner(wait_ms, pause_ms)
                continue
            self._in_flight[node_id] = self._scope.spawn(self._fetch(node, partitions), name=f"fetch-{node_id}")
        if without_leader and not self._looking_for_leaders:
            self._looking_for_leaders = True
            self._scope.spawn(self._find_leaders(without_leader), name="find-leaders")
        return wait_ms

    def _is_fetchable(self, partition: TopicPartition) -> bool:
        state = self._subscriptions.state_or_none(partition)
        return state is not None and state.is_fetchable

    def _node_for(self, partition: TopicPartition, leader: LeaderAndEpoch, now_ms: int) -> Node:
        preferred = self._subscriptions.preferred_read_replica(partition, now_ms)
        node = None if preferred is None else self._cluster.node(preferred)
        if node is None:
            self._subscriptions.clear_preferred_read_replica(partition)
            return leader.leader
        return node

    def _request_of(self, partition: TopicPartition, leader: LeaderAndEpoch) -> PartitionRequest:
        position = self._subscriptions.state(partition).position
        assert position is not None
        return PartitionRequest(
            self._cluster.topic_id(partition.topic), position.offset, leader.epoch, -1, self._config.get_int("max.partition.fetch.bytes")
        )

    async def _find_leaders(self, partitions: list[TopicPartition]) -> None:
        try:
            await self._cluster.request_update(sorted({partition.topic for partition in partitions}))
            for topic in dict.fromkeys(partition.topic for partition in partitions):
                error = self._cluster.topic_error(topic)
                if error in (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.INVALID_TOPIC_EXCEPTION):
                    self._error = _topic_error(error, topic)
            self._leader_failures = 0
        except ApiException as error:
            if not error.error.retriable:
                self._error = error
        except KmirrorError as error:
            self._error = error
        try:
            await self._runtime.sleep_ms(
                self._cluster.backoff_ms(min(self._leader_failures, 10)) if self._any_without_leader(partitions) else 0
            )
            self._leader_failures += 1
        finally:
            self._looking_for_leaders = False
            self._signal.fire()

    def _any_without_leader(self, partitions: Iterable[TopicPartition]) -> bool:
        return any(self._cluster.known_leader(partition) is None for partition in partitions)

    async def _fetch(self, node: Node, wanted: dict[TopicPartition, PartitionRequest]) -> None:
        session = self._sessions.setdefault(node.id, FetchSessionHandler())
        failed: KmirrorError | None = None
        try:
            version = await self._cluster.api_version(
                node, FetchRequest.API_KEY, max_version=HIGHEST_FETCH_VERSION, connection_key=FETCH_CONNECTION
            )
            difference = session.build(wanted, can_use_ids=version >= FIRST_VERSION_WITH_IDS)
            response = await self._cluster.ask(
                node,
                self._message(difference, max_version=version),
                version=self._version(version, difference),
                connection_key=FETCH_CONNECTION,
            )
            failed = self._take(session, node, wanted, response)
        except KmirrorError as error:
            failed = error
            session.lost()
            for partition in wanted:
                known = self._cluster.metadata.leader(partition)
                if known is not None and known.leader == node:
                    self._cluster.forget_leader(partition)
                self._subscriptions.clear_preferred_read_replica(partition)
            if not (isinstance(error, ApiException) and error.error.retriable):
                self._error = error
        finally:
            self._note_outcome(node.id, failed)
            self._in_flight.pop(node.id, None)
            self._signal.fire()

    def _note_outcome(self, node_id: int, failed: KmirrorError | None) -> None:
        if failed is None:
            self._failures.pop(node_id, None)
            self._not_before_ms.pop(node_id, None)
            return
        failures = self._failures.get(node_id, 0)
        self._failures[node_id] = failures + 1
        self._not_before_ms[node_id] = self._runtime.clock.monotonic_ms() + self._cluster.backoff_ms(failures)

    @staticmethod
    def _version(version: int, difference: FetchDifference) -> int:
        return version if difference.uses_topic_ids or version < FIRST_VERSION_WITH_IDS else FIRST_VERSION_WITH_IDS - 1

    def _message(self, difference: FetchDifference, *, max_version: int) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for partition, asked in difference.to_send.items():
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=asked.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=asked.current_leader_epoch,
                    fetch_offset=asked.fetch_offset,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    partition_max_bytes=asked.max_bytes,
                )
            )
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for partition, topic_id in difference.forgotten.items():
            row = forgotten.setdefault((partition.topic, topic_id.raw), ForgottenTopic(topic=partition.topic, topic_id=topic_id))
            row.partitions.append(partition.partition)
        has_sessions = max_version >= 7
        return FetchRequest(
            max_wait_ms=self._config.get_int("fetch.max.wait.ms"),
            min_bytes=self._config.get_int("fetch.min.bytes"),
            max_bytes=self._config.get_int("fetch.max.bytes"),
            isolation_level=self._config.isolation_level,
            session_id=difference.session_id if has_sessions else 0,
            session_epoch=difference.epoch if has_sessions else FINAL_EPOCH,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
            rack_id=(self._config.get_string("client.rack") or "") if max_version >= 11 else "",
        )

    def _take(
        self, session: FetchSessionHandler, node: Node, wanted: dict[TopicPartition, PartitionRequest], response: FetchResponse
    ) -> KmirrorError | None:
        """Returns why the answer cannot be used, if so."""
        error = Errors.for_code(response.error_code)
        if error is not Errors.NONE:
            session.refused(error)
            if error in (Errors.UNKNOWN_TOPIC_ID, Errors.INCONSISTENT_TOPIC_ID, Errors.FETCH_SESSION_TOPIC_ID_ERROR):
                for partition in wanted:
                    self._cluster.forget_leader(partition)
            return None if error is Errors.FETCH_SESSION_ID_NOT_FOUND else ApiException(error)
        rows: dict[TopicPartition, PartitionData] = {}
        for topic in response.responses:
            name = topic.topic or session.names.get(topic.topic_id, str(topic.topic_id))
            rows |= {TopicPartition(name, row.partition_index): row for row in topic.partitions}
        problem = session.answered(response.session_id, rows)
        if problem is not None:
            return ApiException(Errors.INVALID_REQUEST, f"unusable answer of broker {node.id}: {problem}")
        for partition, row in rows.items():
            asked = wanted.get(partition)
            if asked is not None:
                self._hear_leader(partition, row, response)
                self._completed.append(
                    CompletedFetch(
                        partition,
                        row,
                        asked.fetch_offset,
                        read_committed=self._config.read_committed,
                        check_crcs=self._config.get_bool("check.crcs"),
                    )
                )
        return None

    def _hear_leader(self, partition: TopicPartition, row: PartitionData, response: FetchResponse) -> None:
        if row.error_code not in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH) or row.current_leader.leader_id < 0:
            return
        for endpoint in response.node_endpoints:
            if endpoint.node_id == row.current_leader.leader_id:
                node = Node(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
                self._cluster.hear_leader(partition, node, row.current_leader.leader_epoch)

    # Handing out

    @property
    def completed_count(self) -> int:
        """Answers of partitions that are not handed out yet."""
        return len(self._completed)

    def raise_error(self) -> None:
        """Raises, once, what a request found that the application must know."""
        error, self._error = self._error, None
        if error is not None:
            raise error

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
            except KmirrorError:
                if found:
                    break
                raise
            self._advance(fetch)
            if records:
                found.setdefault(fetch.partition, []).extend(records)
                left -= len(records)
        return found

    def collect_batches(self) -> list[FetchedBatches]:
        """All that is there; see `collect_records`."""
        found: list[FetchedBatches] = []
        for fetch in self._next_fetches(lambda: not found):
            try:
                batches = fetch.fetch_batches(ALL_BYTES)
            except KmirrorError:
                if found:
                    break
                raise
            self._advance(fetch)
            if batches is not None:
                found.append(batches)
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
        self._subscriptions.note_offsets(
            fetch.partition,
            high_watermark=row.high_watermark,
            log_start_offset=row.log_start_offset,
            last_stable_offset=row.last_stable_offset,
        )
        if row.preferred_read_replica >= 0:
            expires_ms = self._runtime.clock.monotonic_ms() + self._config.get_int("metadata.max.age.ms")
            self._subscriptions.prefer_read_replica(fetch.partition, row.preferred_read_replica, expires_ms)
        fetch.initialized = True
        return True

    def _handle_error(self, fetch: CompletedFetch, position: FetchPosition) -> None:
        partition, error = fetch.partition, fetch.error
        todo = FETCH_ERRORS.get(error, OnError.TELL)
        if todo is OnError.RESET:
            self._out_of_range(partition, fetch.fetch_offset, position)
            return
        if todo is OnError.TELL:
            if error is Errors.TOPIC_AUTHORIZATION_FAILED:
                raise _topic_error(error, partition.topic)
            if error is Errors.CORRUPT_MESSAGE:
                raise ApiException(
                    error, f"Encountered corrupt message when fetching offset {fetch.fetch_offset} for topic-partition {partition}"
                )
            raise ApiException(
                error, f"Unexpected error code {int(error)} while fetching at offset {fetch.fetch_offset} from topic-partition {partition}"
            )
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
            raise OffsetOutOfRangeException(
                f"Fetch position {position} is out of range for partition {partition}", {partition: position.offset}
            )
        self._subscriptions.request_offset_reset(partition)

    async def close_sessions(self) -> None:
        """Ends the sessions that brokers keep for us, as far as they answer at once."""
        for node_id, session in self._sessions.items():
            node = self._cluster.node(node_id)
            if node is None or not session.session_id or node_id in self._in_flight:
                continue
            request = FetchRequest(session_id=session.session_id, session_epoch=FINAL_EPOCH, max_wait_ms=0, min_bytes=0)
            try:
                await self._cluster.ask(node, request, timeout_ms=1_000, max_version=HIGHEST_FETCH_VERSION, connection_key=FETCH_CONNECTION)
            except KmirrorError:
                continue  # the broker's cache drops it later


def _topic_error(error: Errors, topic: str) -> ApiException:
    if error is Errors.TOPIC_AUTHORIZATION_FAILED:
        return ApiException(error, f"Not authorized to access topics: [{topic}]")
    return ApiException(error, f"Invalid topics: [{topic}]")


def _sooner(one_ms: float | None, other_ms: float) -> float:
    return other_ms if one_ms is None else min(one_ms, other_ms)
