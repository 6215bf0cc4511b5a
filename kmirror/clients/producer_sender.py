"""Takes batches from the accumulator to the brokers (Kafka's `Sender`): a supervised task that
wakes, decides what can leave, and starts one task for each request.

A request goes to one leader, with one batch of each partition that is ready. A broker has at most
max.in.flight.requests.per.connection of them at a time. What comes back settles each batch: written,
to be sent again, to be split, or failed. The transaction manager decides about sequences; `settle`
and its helpers have no other state than the batches.

Order. With sequences, the broker and the manager keep it. Without them, and with one request in
flight, a partition's batch that is to be sent again stands first in its queue. With more requests in
flight and no sequences, a retry may change the order, as in Kafka.

A broker that throttles us (KIP-219) gets no request until the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kmirror.clients.cluster_client import ClusterClient, LeaderAndEpoch, Node
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.record_accumulator import NEVER_MS, RecordAccumulator, timeout_of
from kmirror.clients.transaction_manager import State, TransactionManager
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

LAST_PRODUCE_WITH_NAMES: Final = 12
LAST_PRODUCE_BELOW_V2: Final = 11
FIRST_PRODUCE_WITH_ZSTD: Final = 7
PRODUCE_CONNECTION: Final = "produce"
NO_OFFSET: Final = -1
OLD_METADATA: Final = (
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.INCONSISTENT_TOPIC_ID,
    Errors.LEADER_NOT_AVAILABLE,
    Errors.REPLICA_NOT_AVAILABLE,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.FENCED_LEADER_EPOCH,
    Errors.UNKNOWN_LEADER_EPOCH,
    Errors.LISTENER_NOT_FOUND,
    Errors.NETWORK_EXCEPTION,
)
"""Errors after which a partition may have another leader (Kafka's `InvalidMetadataException`)."""


class Sender:
    """`add_partitions` and `initialize` are coroutines that the sender starts when the manager
    needs them; they tell the manager how they went and raise nothing.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: ProducerConfig,
        cluster: ClusterClient,
        accumulator: RecordAccumulator,
        manager: TransactionManager | None,
        scope: TaskScope,
        *,
        start_work: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._manager = manager
        self._scope = scope
        self._start_work = start_work
        self._woken = asyncio.Event()
        self._in_flight: dict[int, int] = {}
        self._throttled_until_ms: dict[int, int] = {}
        self._on_wire: dict[ProducerBatch, None] = {}
        self._finding_leaders = False
        self._muted: dict[TopicPartition, None] = {}
        self._keeps_order = config.max_in_flight == 1

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            self._woken.clear()
            next_ms = self.run_once()
            timer = None
            if next_ms < NEVER_MS:
                timer = self._runtime.call_later_ms(max(0, next_ms - self._runtime.clock.monotonic_ms()), self._woken.set)
            try:
                await self._woken.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    def run_once(self) -> int:
        """Starts everything that can be done now; returns when to look again."""
        now_ms = self._runtime.clock.monotonic_ms()
        manager = self._manager
        self._expire(now_ms)
        if manager is not None:
            manager.resolve()
            if manager.has_fatal_error:
                self.abort_queued(manager.last_error or ApiException(Errors.UNKNOWN_SERVER_ERROR), also_sent=True)
                return self._next_expiry()
            if manager.state is State.ABORTING_TRANSACTION:
                self.abort_queued(ApiException(Errors.OPERATION_NOT_ATTEMPTED, "Failing batch since transaction was aborted"))
            elif manager.state is State.ABORTABLE_ERROR:
                error = manager.last_error or ApiException(Errors.UNKNOWN_SERVER_ERROR)
                self.abort_queued(error)
        self._start_work()
        next_ms = NEVER_MS
        while True:
            ready = self._accumulator.ready(now_ms, self._cluster.known_leader, self._may_send)
            next_ms = ready.next_ms
            if ready.unknown:
                self._find_leaders(ready.unknown)
            if not self._send_ready(ready.partitions, now_ms):
                break
        for until_ms in self._throttled_until_ms.values():
            if until_ms > now_ms:
                next_ms = min(next_ms, until_ms)
        return min(next_ms, self._next_expiry())

    def _may_send(self, partition: TopicPartition) -> bool:
        if partition in self._muted:
            return False
        return self._manager is None or self._manager.may_send_to(partition)

    def _send_ready(self, partitions: dict[int, tuple[LeaderAndEpoch, list[TopicPartition]]], now_ms: int) -> bool:
        """Starts at most one request for each broker; returns whether any was started."""
        started = False
        for node_id, (leader, ready) in partitions.items():
            if self._in_flight.get(node_id, 0) >= self._config.max_in_flight or self._throttled_until_ms.get(node_id, 0) > now_ms:
                continue
            take = (lambda batch: True) if self._manager is None else self._manager.take
            drained = self._accumulator.drain(node_id, ready, take)
            if not drained:
                continue
            started = True
            for batch in drained:
                batch.on_wire = True
                leader_now = self._cluster.metadata.leader(batch.partition)
                batch.attempted_leader_epoch = leader.epoch if leader_now is None else leader_now.epoch
                self._on_wire[batch] = None
                if self._keeps_order:
                    self._muted[batch.partition] = None
            self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
            self._scope.spawn(self._produce(leader.leader, drained), name=f"produce-{node_id}")
        return started

    # Requests

    async def _produce(self, node: Node, batches: list[ProducerBatch]) -> None:
        """Sends one request and settles its batches."""
        try:
            try:
                response = await self._exchange(node, batches)
            except ApiException as error:
                self._settle_all(batches, error)
            except KmirrorError as error:  # the login was refused
                for batch in batches:
                    self._fail(batch, error, has_definite_outcome=not batch.in_retry)
            else:
                self._settle(node, batches, response)
        finally:
            self._in_flight[node.id] -= 1
            for batch in batches:
                batch.on_wire = False
                self._on_wire.pop(batch, None)
                self._muted.pop(batch.partition, None)
            self.wake()

    async def _exchange(self, node: Node, batches: list[ProducerBatch]) -> ProduceResponse | None:
        """Returns None for acks=0, which has no response."""
        in_v1 = self._manager is not None and self._manager.is_transactional and not self._manager.transactions_v2
        version = await self._cluster.api_version(
            node, ProduceRequest.API_KEY, max_version=LAST_PRODUCE_BELOW_V2 if in_v1 else None, connection_key=PRODUCE_CONNECTION
        )
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            if version < FIRST_PRODUCE_WITH_ZSTD and batch.is_zstd:
                raise ApiException(
                    Errors.UNSUPPORTED_COMPRESSION_TYPE, "Produce requests with version < 7 are not allowed to use ZStandard compression"
                )
            rows = topics.setdefault(batch.partition.topic, [])
            rows.append(PartitionProduceData(index=batch.partition.partition, records=batch.wire_parts()))
        ids = {topic: self._cluster.topic_id(topic) for topic in topics}
        if version > LAST_PRODUCE_WITH_NAMES and not all(ids.values()):
            version = LAST_PRODUCE_WITH_NAMES
        by_name = version <= LAST_PRODUCE_WITH_NAMES
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=topic, partition_data=rows) if by_name else TopicProduceData(topic_id=ids[topic], partition_data=rows)
                for topic, rows in topics.items()
            ],
        )
        if self._config.acks == 0:
            await self._cluster.tell(node, request, version=version, connection_key=PRODUCE_CONNECTION)
            return None
        response: ProduceResponse = await self._cluster.ask(node, request, version=version, connection_key=PRODUCE_CONNECTION)
        return response

    def _settle(self, node: Node, batches: list[ProducerBatch], response: ProduceResponse | None) -> None:
        if response is None:
            for batch in batches:
                self._accumulator.complete(batch, NO_OFFSET)
            return
        if response.throttle_time_ms > 0:
            self._throttled_until_ms[node.id] = self._runtime.clock.monotonic_ms() + response.throttle_time_ms
        rows: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or self._cluster.topic_name(topic.topic_id)
            for row in topic.partition_responses:
                rows[TopicPartition(name or "", row.index)] = row
        addresses = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.node_endpoints}
        for batch in batches:
            found = rows.get(batch.partition)
            if found is None:
                self._settle_error(batch, ApiException(Errors.UNKNOWN_SERVER_ERROR, f"the broker's answer leaves out {batch.partition}"))
                continue
            current = found.current_leader
            if current.leader_id >= 0:
                leader = addresses.get(current.leader_id) or self._cluster.node(current.leader_id)
                if leader is not None:
                    self._cluster.hear_leader(batch.partition, leader, current.leader_epoch)
            self._settle_row(batch, found)

    def _settle_row(self, batch: ProducerBatch, row: PartitionProduceResponse) -> None:
        error = Errors.for_code(row.error_code)
        if error in (Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER):
            self._complete(batch, row.base_offset, row.log_append_time_ms)
            return
        text = row.error_message
        if error is Errors.TOPIC_AUTHORIZATION_FAILED:
            text = f"Not authorized to access topics: [{batch.partition.topic}]"
        record_errors: dict[int, Exception] = {
            entry.batch_index: ApiException(Errors.INVALID_RECORD, entry.batch_index_error_message or text) for entry in row.record_errors
        }
        self._settle_error(batch, ApiException(error, text), row.log_start_offset, record_errors)

    def _settle_all(self, batches: list[ProducerBatch], error: ApiException) -> None:
        for batch in batches:
            self._settle_error(batch, error)

    def _settle_error(
        self,
        batch: ProducerBatch,
        error: ApiException,
        log_start_offset: int = -1,
        record_errors: dict[int, Exception] | None = None,
    ) -> None:
        """Decides what becomes of a batch that was not acknowledged."""
        now_ms = self._runtime.clock.monotonic_ms()
        if error.error in OLD_METADATA:
            leader = self._cluster.metadata.leader(batch.partition)
            if leader is not None and leader.epoch <= batch.attempted_leader_epoch:
                self._cluster.forget_leader(batch.partition)
        if batch.is_done:  # it expired, or the producer was closed
            return
        batch.is_doubtful = batch.is_doubtful or _is_doubtful(error)
        if error.error is Errors.MESSAGE_TOO_LARGE and batch.record_count > 1:
            parts = self._accumulator.split_and_reenqueue(batch, now_ms)
            if self._manager is not None:
                self._manager.split(batch, parts)
        elif self._can_retry(batch, error, log_start_offset, now_ms):
            batch.attempts += 1
            self._accumulator.reenqueue(batch, now_ms, self._cluster.backoff_ms(batch.attempts - 1))
        else:
            if record_errors:
                whole = ApiException(
                    Errors.INVALID_RECORD if error.error is Errors.INVALID_RECORD else error.error,
                    "Failed to append record because it was part of a batch which had one more more invalid records",
                )
                self._fail(batch, whole, record_errors, has_definite_outcome=True)
                return
            is_definite = batch.attempts < self._config.retries and not _is_doubtful(error)
            if not is_definite and self._manager is not None and batch.has_sequence:
                self._manager.outcome_unknown(batch)
            self._fail(batch, error, has_definite_outcome=is_definite)

    def _can_retry(self, batch: ProducerBatch, error: ApiException, log_start_offset: int, now_ms: int) -> bool:
        if batch.attempts >= self._config.retries or now_ms - batch.created_ms >= self._config.delivery_timeout_ms:
            return False
        if self._manager is None:
            return error.error.retriable
        return self._manager.can_retry(batch, error.error, log_start_offset)

    # Outcomes

    def _complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        if self._manager is not None and batch.has_sequence:
            self._manager.completed(batch, base_offset)
        self._accumulator.complete(batch, base_offset, log_append_time)

    def _fail(
        self, batch: ProducerBatch, error: Exception, record_errors: dict[int, Exception] | None = None, *, has_definite_outcome: bool
    ) -> None:
        if batch.is_done:
            return
        if self._manager is not None:
            self._manager.failed(batch, error, has_definite_outcome=has_definite_outcome)
        self._accumulator.fail(batch, error, record_errors)

    def _expire(self, now_ms: int) -> None:
        late = self._accumulator.expired(now_ms)
        late += [batch for batch in self._on_wire if not batch.is_done and now_ms - batch.created_ms >= self._config.delivery_timeout_ms]
        for batch in late:
            was_sent = batch.in_retry or batch.on_wire
            if self._manager is not None and was_sent and batch.has_sequence:
                self._manager.outcome_unknown(batch)
            self._fail(batch, timeout_of(batch, now_ms), has_definite_outcome=False)

    def _next_expiry(self) -> int:
        return min((batch.created_ms + self._config.delivery_timeout_ms for batch in self._on_wire if not batch.is_done), default=NEVER_MS)

    def abort_queued(self, error: Exception, *, also_sent: bool = False) -> None:
        """Fails queued batches; those that were sent before only with `also_sent`."""
        for batch in self._accumulator.take_queued(lambda batch: also_sent or not batch.has_sequence):
            self._accumulator.fail(batch, error)

    def abort_all(self, error: Exception) -> None:
        """Fails everything that is not done, on the wire or not."""
        self._accumulator.queues.clear()
        for batch in list(self._accumulator.incomplete):
            self._accumulator.fail(batch, error)

    # Leaders

    def _find_leaders(self, partitions: dict[TopicPartition, None]) -> None:
        if not self._finding_leaders:
            self._finding_leaders = True
            self._scope.spawn(self._refresh(sorted({partition.topic for partition in partitions})), name="find-leaders")

    async def _refresh(self, topics: list[str]) -> None:
        try:
            await self._cluster.request_update(topics)
        except ApiException:
            pass  # the batches wait until their time is up; the next pass asks again
        except KmirrorError as error:  # the login was refused
            for batch in self._accumulator.take_queued(lambda batch: batch.partition.topic in topics):
                self._fail(batch, error, has_definite_outcome=not batch.in_retry)
        finally:
            self._finding_leaders = False
        for topic in topics:
            self._fail_topic(topic, self._cluster.topic_error(topic))
        self.wake()

    def _fail_topic(self, topic: str, error: Errors) -> None:
        """Fails what waits for a topic that we may not use, or whose name is not allowed."""
        if error is Errors.NONE or error.retriable:
            return
        text = f"Not authorized to access topics: [{topic}]" if error is Errors.TOPIC_AUTHORIZATION_FAILED else None
        for batch in self._accumulator.take_queued(lambda batch: batch.partition.topic == topic and not batch.on_wire):
            self._fail(batch, ApiException(error, text), has_definite_outcome=not batch.in_retry)


def _is_doubtful(error: ApiException) -> bool:
    """Whether the batch may have been written in spite of the error."""
    return error.error in (Errors.NETWORK_EXCEPTION, Errors.REQUEST_TIMED_OUT, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
