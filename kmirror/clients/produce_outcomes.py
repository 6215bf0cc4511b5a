"""What becomes of batches that were sent (part of Kafka's `Sender`).

    written (or written before)                     complete
    too large for the broker, several records       split, and sent in parts
    an error that another attempt may mend          back to the queue, until its time or retries end
    anything else                                   failed

The transaction manager decides about sequences; nothing here has any other state than the batches,
and the time until which each broker throttles us.
"""

from __future__ import annotations

from typing import Final

from kmirror.clients.cluster_client import ClusterClient, Node
from kmirror.clients.produce_frames import acknowledged
from kmirror.clients.produce_requests import ProduceInFlight
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.record_accumulator import RecordAccumulator
from kmirror.clients.request_errors import request_error
from kmirror.clients.sender_metrics import SenderMetrics
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record import NO_SEQUENCE
from kmirror.wire.framing import read_response
from kmirror.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from kmirror.wire.primitives import ProtocolReadError

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


class ProduceOutcomes:
    """One producer's. `throttled_until_ms` is by broker, on the monotonic clock; `throttle_ms` is what the last
    answer said.
    """

    def __init__(
        self,
        clock: Clock,
        config: ProducerConfig,
        cluster: ClusterClient,
        accumulator: RecordAccumulator,
        manager: TransactionManager | None,
        metrics: SenderMetrics,
    ) -> None:
        self.throttled_until_ms: dict[int, int] = {}
        self.throttle_ms = 0
        self._metrics = metrics
        self._clock = clock
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._manager = manager

    def settle_unanswered(self, batches: list[ProducerBatch], error: Exception) -> None:
        """Settles what no answer came to."""
        found = request_error(error)
        if isinstance(found, ApiException):
            self._settle_all(batches, found)
            return
        for batch in batches:  # the login was refused
            self.fail(batch, found, has_definite_outcome=not batch.in_retry)

    def settle(self, request: ProduceInFlight, frame: memoryview) -> bool:
        """Settles the batches of a request by its answer, from the correlation id on. Returns
        whether the answer says no more than that all of them were written.
        """
        found = acknowledged(request.version, frame, request.keys)
        if found is not None:
            rows, throttle_ms = found
            self.throttle_ms = throttle_ms
            manager, complete = self._manager, self._accumulator.complete
            for batch, (base_offset, time_ms) in zip(request.batches, rows, strict=True):
                if manager is not None and batch.base_sequence != NO_SEQUENCE:
                    manager.completed(batch, base_offset)
                complete(batch, base_offset, time_ms)
            if throttle_ms > 0:
                self._note_throttle(request.node, throttle_ms)
            return not throttle_ms
        try:
            response = read_response(ProduceRequest.API_KEY, request.version, frame)[1]
        except ProtocolReadError as error:
            self.throttle_ms = 0
            self._settle_all(request.batches, ApiException(Errors.UNKNOWN_SERVER_ERROR, f"the answer cannot be read: {error}"))
            return False
        assert isinstance(response, ProduceResponse), f"read_response gave {type(response).__name__}"
        self.throttle_ms = response.throttle_time_ms
        self._note_throttle(request.node, response.throttle_time_ms)
        self._settle_response(request, response)
        return False

    def _note_throttle(self, node: Node, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self.throttled_until_ms[node.id] = self._clock.monotonic_ms() + throttle_ms

    def _settle_response(self, request: ProduceInFlight, response: ProduceResponse) -> None:
        """The ids in the answer are those of the request: the topic may have been made anew since."""
        names = {topic: batch.partition.topic for (topic, _), batch in zip(request.keys, request.batches, strict=True)}
        rows: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id.raw, "")
            for row in topic.partition_responses:
                rows[TopicPartition(name, row.index)] = row
        addresses = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.node_endpoints}
        for batch in request.batches:
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
        now_ms = self._clock.monotonic_ms()
        if error.error in OLD_METADATA:
            leader = self._cluster.metadata.leader(batch.partition)
            if leader is not None and leader.epoch <= batch.attempted_leader_epoch:
                self._cluster.forget_leader(batch.partition)
        if batch.is_done:  # it expired, or the producer was closed
            return
        batch.is_doubtful = batch.is_doubtful or _is_doubtful(error)
        if error.error is Errors.MESSAGE_TOO_LARGE and batch.record_count > 1:
            parts = self._accumulator.split_and_reenqueue(batch, now_ms)
            self._metrics.batches_split.record(1)
            if self._manager is not None:
                self._manager.split(batch, parts)
        elif self._can_retry(batch, error, log_start_offset, now_ms):
            batch.attempts += 1
            batch.last_error = error
            self._metrics.records_retried.record(batch.record_count)
            self._accumulator.reenqueue(batch, now_ms, self._cluster.backoff_ms(batch.attempts - 1))
        else:
            if record_errors:
                whole = ApiException(
                    Errors.INVALID_RECORD if error.error is Errors.INVALID_RECORD else error.error,
                    "Failed to append record because it was part of a batch which had one more more invalid records",
                )
                self.fail(batch, whole, record_errors, has_definite_outcome=True)
                return
            is_definite = batch.attempts < self._config.retries and not _is_doubtful(error)
            if not is_definite and self._manager is not None and batch.has_sequence:
                self._manager.outcome_unknown(batch)
            self.fail(batch, error, has_definite_outcome=is_definite)

    def _can_retry(self, batch: ProducerBatch, error: ApiException, log_start_offset: int, now_ms: int) -> bool:
        if batch.attempts >= self._config.retries or now_ms - batch.created_ms >= self._config.delivery_timeout_ms:
            return False
        if self._manager is None:
            return error.error.retriable
        return self._manager.can_retry(batch, error.error, log_start_offset)

    def _complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        if self._manager is not None and batch.has_sequence:
            self._manager.completed(batch, base_offset)
        self._accumulator.complete(batch, base_offset, log_append_time)

    def fail(
        self, batch: ProducerBatch, error: Exception, record_errors: dict[int, Exception] | None = None, *, has_definite_outcome: bool
    ) -> None:
        """Ends a batch with an error. With `has_definite_outcome` it was certainly not written."""
        if batch.is_done:
            return
        self._metrics.records_failed.record(batch.record_count)
        if self._manager is not None:
            self._manager.failed(batch, error, has_definite_outcome=has_definite_outcome)
        self._accumulator.fail(batch, error, record_errors)


def _is_doubtful(error: ApiException) -> bool:
    """Whether the batch may have been written in spite of the error."""
    return error.error in (Errors.NETWORK_EXCEPTION, Errors.REQUEST_TIMED_OUT, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
