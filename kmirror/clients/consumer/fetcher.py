"""Fetches from the leaders (Kafka's `Fetcher`); `fetch_collector` hands out what came.

One request per broker is in flight, on a connection of its own, as long as none of the broker's
partitions has fetched data that was not handed out: so the session's set of partitions stays the
same (KAFKA-17182). `send_fetches` starts requests and never waits; when an answer is there, the
signal is fired.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from kmirror.clients.cluster_client import ClusterClient, LeaderAndEpoch, Node
from kmirror.clients.consumer.completed_fetch import CompletedFetch
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_metrics import FetchMetrics
from kmirror.clients.consumer.fetch_collector import FetchCollector, topic_error
from kmirror.clients.consumer.fetch_session_handler import FINAL_EPOCH, FetchDifference, FetchSessionHandler, PartitionRequest
from kmirror.clients.consumer.fetch_state import KnownLeader
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData

FETCH_CONNECTION: Final = "fetch"
HIGHEST_FETCH_VERSION: Final = 18
"""Version 19 belongs to the mirroring brokers' dialect (KIP-1279)."""
FIRST_VERSION_WITH_IDS: Final = 13


class Fetcher:
    """Owns the fetch sessions and the requests; `collector` owns what was fetched."""

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
        self.metrics = FetchMetrics(runtime.clock)
        self.collector = FetchCollector(runtime, cluster, subscriptions, config)
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._not_before_ms: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._looking_for_leaders = False
        self._leader_failures = 0
        self._error: KmirrorError | None = None
        self.answered_fetches = 0
        self._unanswered: dict[int, KmirrorError] = {}
        """What the last fetch from each broker failed with, if it did."""
        self._leaders_unknown: str | None = None

    # Asking

    def send_fetches(self) -> float | None:
        """Starts a request to every broker that has something to be asked. Returns in how many ms
        it is worth trying again without an answer; None for never."""
        now_ms = self._runtime.clock.monotonic_ms()
        busy = self.collector.buffered_partitions()
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
        failure: KmirrorError | None = None
        try:
            await self._cluster.request_update(sorted({partition.topic for partition in partitions}))
            for topic in dict.fromkeys(partition.topic for partition in partitions):
                error = self._cluster.topic_error(topic)
                if error in (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.INVALID_TOPIC_EXCEPTION):
                    self._error = topic_error(error, topic)
            self._leader_failures = 0
        except ApiException as error:
            failure = error
            if not error.error.retriable:
                self._error = error
        except KmirrorError as error:
            failure = self._error = error
        unknown = self._first_without_leader(partitions)
        self._leaders_unknown = None if unknown is None else str(failure or f"{unknown} has no leader")
        try:
            await self._runtime.sleep_ms(0 if unknown is None else self._cluster.backoff_ms(min(self._leader_failures, 10)))
            self._leader_failures += 1
        finally:
            self._looking_for_leaders = False
            self._signal.fire()

    def _first_without_leader(self, partitions: Iterable[TopicPartition]) -> TopicPartition | None:
        return next((partition for partition in partitions if self._cluster.known_leader(partition) is None), None)

    def trouble(self) -> str | None:
        """Why some of what is assigned could not be fetched when it was last tried; None if nothing
        failed. Costs nothing as long as nothing does.
        """
        if not (self._unanswered or self._leaders_unknown or self.collector.refused):
            return None
        leaders = {partition: self._cluster.metadata.leader(partition) for partition in self._subscriptions.assigned_partitions()}
        if None not in leaders.values():
            self._leaders_unknown = None
            leading = {leader.leader.id for leader in leaders.values() if leader is not None}
            self._unanswered = {node_id: error for node_id, error in self._unanswered.items() if node_id in leading}
        if self._leaders_unknown is not None:
            return self._leaders_unknown
        for failed in self._unanswered.values():
            return str(failed)
        refused = self.collector.refused = {one: error for one, error in self.collector.refused.items() if one in leaders}
        return next((f"{partition}: {error.name}" for partition, error in refused.items()), None)

    async def _fetch(self, node: Node, wanted: dict[TopicPartition, PartitionRequest]) -> None:
        session = self._sessions.setdefault(node.id, FetchSessionHandler())
        failed: KmirrorError | None = None
        try:
            version = await self._cluster.api_version(
                node, FetchRequest.API_KEY, max_version=HIGHEST_FETCH_VERSION, connection_key=FETCH_CONNECTION
            )
            difference = session.build(wanted, can_use_ids=version >= FIRST_VERSION_WITH_IDS)
            began_ms = self._runtime.clock.monotonic_ms()
            response = await self._cluster.ask(
                node,
                self._message(difference, max_version=version),
                version=self._version(version, difference),
                connection_key=FETCH_CONNECTION,
            )
            size = sum([len(row.records or b"") for topic in response.responses for row in topic.partitions])
            self.metrics.answered(node.id, began_ms, size, response.throttle_time_ms)
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
            self.answered_fetches += 1
            self._failures.pop(node_id, None)
            self._not_before_ms.pop(node_id, None)
            self._unanswered.pop(node_id, None)
            return
        self._unanswered[node_id] = failed
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
                self.collector.add(
                    CompletedFetch(
                        partition,
                        row,
                        asked.fetch_offset,
                        read_committed=self._config.read_committed,
                        check_crcs=self._config.get_bool("check.crcs"),
                        topic_id=asked.topic_id,
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

    def raise_error(self) -> None:
        """Raises, once, what a request found that the application must know."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def close_sessions(self, timeout_ms: float) -> None:
        """Ends the sessions that brokers keep for us, as far as they answer in that time."""
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        for node_id, session in self._sessions.items():
            node = self._cluster.node(node_id)
            if node is None or not session.session_id or node_id in self._in_flight:
                continue
            request = FetchRequest(session_id=session.session_id, session_epoch=FINAL_EPOCH, max_wait_ms=0, min_bytes=0)
            try:
                left_ms = int(max(0, deadline_ms - self._runtime.clock.monotonic_ms()))
                await self._cluster.ask(
                    node, request, timeout_ms=left_ms, max_version=HIGHEST_FETCH_VERSION, connection_key=FETCH_CONNECTION
                )
            except KmirrorError:
                continue  # the broker's cache drops it later


def _sooner(one_ms: float | None, other_ms: float) -> float:
    return other_ms if one_ms is None else min(one_ms, other_ms)
