"""Asks transaction coordinators whether partitions are in a transaction, or to add them (Kafka's
`AddPartitionsToTxnManager`, KIP-890).

A partition takes the first batch of a transaction only after the coordinator of its transactional
id has said that the partition is in that transaction. A late batch from a producer whose
transaction has already ended is therefore refused, and does not hang in the log for ever. The
client's version decides what the coordinator is asked and what the client is told:

    operation                client                                    asked           a partition that is not in the transaction
    DEFAULT_ERROR            Produce < 11, TxnOffsetCommit < 4          verify only     INVALID_TXN_STATE
    GENERIC_ERROR_SUPPORTED  Produce 11, TxnOffsetCommit 4              verify only     TRANSACTION_ABORTABLE
    ADD_PARTITION            Produce >= 12, TxnOffsetCommit >= 5        add it          (is added)

At most one AddPartitionsToTxn request per broker is under way. What comes up meanwhile goes into
the next request, which holds each transactional id at most once.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.common.topic_partition import TRANSACTION_STATE_TOPIC_NAME, TopicPartition, partition_for
from kmirror.coordinator.common.broker_queues import BrokerQueues
from kmirror.metadata.image import MetadataImage
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.node_channels import BrokerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kmirror.wire.primitives import ProtocolReadError

FIRST_BATCHED_VERSION: Final = 4
_log = logging.getLogger(__name__)

PartitionErrors = dict[TopicPartition, Errors]


class TransactionSupportedOperation(enum.Enum):
    """What the client that writes understands; see the table above."""

    DEFAULT_ERROR = "default error"
    GENERIC_ERROR_SUPPORTED = "generic error"
    ADD_PARTITION = "add partition"

    @property
    def supports_epoch_bump(self) -> bool:
        return self is TransactionSupportedOperation.ADD_PARTITION

    @classmethod
    def of_produce(cls, version: int) -> TransactionSupportedOperation:
        if version >= 12:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version == 11 else cls.DEFAULT_ERROR

    @classmethod
    def of_txn_offset_commit(cls, version: int) -> TransactionSupportedOperation:
        if version >= 5:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version == 4 else cls.DEFAULT_ERROR


class _Queued(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    partitions: list[TopicPartition]


class AddPartitionsToTxnManager:
    """Owns the queues of questions, one per broker, and the metrics of verification.

    `is_verification_enabled` returns transaction.partition.verification.enable, which can change at
    runtime.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        image: Callable[[], MetadataImage],
        brokers: BrokerChannel,
        metrics: MetricsRegistry,
        is_verification_enabled: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._brokers = brokers
        self._is_verification_enabled = is_verification_enabled
        self._queues: BrokerQueues[_Queued, PartitionErrors] = BrokerQueues(
            runtime, "add-partitions-to-txn", self._send, key_of=lambda queued: queued.transaction.transactional_id
        )
        self._times = metrics.histogram(MetricName("kafka.server", "AddPartitionsToTxnManager", "VerificationTimeMs"))
        self._failures = metrics.meter(MetricName("kafka.server", "AddPartitionsToTxnManager", "VerificationFailureRate"))

    async def shutdown(self) -> None:
        await self._queues.shutdown()

    async def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        operation: TransactionSupportedOperation,
    ) -> PartitionErrors:
        """Returns the error of each partition that is not in the transaction, or is not known to
        be.
        """
        if not operation.supports_epoch_bump and not self._is_verification_enabled():
            return {}
        started_ms = self._runtime.clock.monotonic_ms()
        errors = await self._ask(transactional_id, producer_id, producer_epoch, list(partitions), operation)
        self._times.update(self._runtime.clock.monotonic_ms() - started_ms)
        if errors:
            self._failures.mark(len(errors))
        return errors

    async def _ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        operation: TransactionSupportedOperation,
    ) -> PartitionErrors:
        coordinator = self._coordinator(transactional_id)
        if coordinator is None:
            return dict.fromkeys(partitions, Errors.COORDINATOR_NOT_AVAILABLE)
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not operation.supports_epoch_bump,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )
        answered = await self._queues.enqueue(coordinator, _Queued(transaction, partitions))
        return {partition: _for_client(error, operation) for partition, error in answered.items() if error is not Errors.NONE}

    def _coordinator(self, transactional_id: str) -> int | None:
        topic = self._image().topics.topic(TRANSACTION_STATE_TOPIC_NAME)
        if topic is None or not topic.partitions:
            return None
        registration = topic.partitions[partition_for(transactional_id, len(topic.partitions))]
        return registration.leader if registration.has_leader else None

    async def _send(self, broker_id: int, batch: list[_Queued]) -> list[PartitionErrors]:
        request = AddPartitionsToTxnRequest(transactions=[queued.transaction for queued in batch])
        try:
            response = await self._brokers.send(broker_id, request)
        except (ApiException, DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError) as error:
            _log.info("AddPartitionsToTxn to broker %d failed: %s", broker_id, error)
            return [dict.fromkeys(queued.partitions, Errors.NETWORK_EXCEPTION) for queued in batch]
        if response.error_code:
            error_of_all = Errors.for_code(response.error_code)
            if error_of_all is Errors.CLUSTER_AUTHORIZATION_FAILED:
                error_of_all = Errors.INVALID_TXN_STATE  # the client is not to blame
            return [dict.fromkeys(queued.partitions, error_of_all) for queued in batch]
        answered = {result.transactional_id: result for result in response.results_by_transaction}
        return [_errors_of(answered.get(queued.transaction.transactional_id), queued.partitions) for queued in batch]


def _errors_of(result: Any, partitions: list[TopicPartition]) -> PartitionErrors:
    errors = dict.fromkeys(partitions, Errors.UNKNOWN_SERVER_ERROR)
    for topic in () if result is None else result.topic_results:
        for partition in topic.results_by_partition:
            errors[TopicPartition(topic.name, partition.partition_index)] = Errors.for_code(partition.partition_error_code)
    return errors


def _for_client(error: Errors, operation: TransactionSupportedOperation) -> Errors:
    """Translates an error into one that the client knows.

    Producers expect INVALID_PRODUCER_EPOCH for a partition, and old ones do not know
    TRANSACTION_ABORTABLE.
    """
    if error is Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH
    if error is Errors.TRANSACTION_ABORTABLE and operation is TransactionSupportedOperation.DEFAULT_ERROR:
        return Errors.INVALID_TXN_STATE
    return error
