"""Checks transactional batches before they are appended: guards, and the answer of the transaction
coordinator (KIP-890).

The log hands out a *guard* for the first batch of a transaction in a partition and takes the batch
only with it. A marker in between makes the guard worthless. So the order is: take a guard, ask the
coordinator, append. Two things make us begin again with a new guard:

* The end of the transaction before is still being written: CONCURRENT_TRANSACTIONS. A producer of version 2 comes with its next
  transaction at once, so this is common; it is asked again for a short while (add.partitions.to.txn.retry.backoff[.max].ms).
* The marker of that end was written between guard and answer. The coordinator has finished and agrees, but the guard is gone; Kafka
  refuses such a batch with INVALID_TXN_STATE. The question is asked again under a new guard, which proves as much as the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.replica_types import PartitionResponse
from kmirror.server.add_partitions_to_txn_manager import AddPartitionsToTxnManager, PartitionErrors, TransactionSupportedOperation
from kmirror.storage.batch_header import unpack_header
from kmirror.storage.producer_state_entry import VerificationGuard
from kmirror.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

_RETRIED_AS_NOT_ENOUGH_REPLICAS = (
    Errors.NETWORK_EXCEPTION,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
)

Guards = dict[TopicPartition, VerificationGuard]


class VerifiedTransactions(NamedTuple):
    """Guards to append with, and the answers for partitions that must not be appended to."""

    guards: Guards
    refused: dict[TopicPartition, PartitionResponse]


NOTHING_TO_VERIFY = VerifiedTransactions({}, {})


class TransactionalWrite(NamedTuple):
    """Whose transaction it is, and what the client understands."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    operation: TransactionSupportedOperation


async def verify_batches(
    apis: KafkaApis, transactional_id: str, entries: Mapping[TopicPartition, Buffer], operation: TransactionSupportedOperation
) -> VerifiedTransactions:
    """Verifies the batches of a request.

    INVALID_PRODUCER_ID_MAPPING if the request mixes producers.
    """
    headers = {partition: unpack_header(records, 0, 0) for partition, records in entries.items()}
    sequences = {
        partition: header.base_sequence for partition, header in headers.items() if header.is_transactional and header.has_producer_id
    }
    producers = {(headers[partition].producer_id, headers[partition].producer_epoch) for partition in sequences}
    if len(producers) > 1:
        raise ApiException(Errors.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID")
    if not producers:
        return NOTHING_TO_VERIFY
    write = TransactionalWrite(transactional_id, *producers.pop(), operation)
    guards, errors = await verify_partitions(apis, write, sequences)
    return VerifiedTransactions(guards, {partition: _refusal(error, operation) for partition, error in errors.items()})


async def verify_partitions(
    apis: KafkaApis, write: TransactionalWrite, sequences: Mapping[TopicPartition, int]
) -> tuple[Guards, PartitionErrors]:
    """Returns guards for the partitions that need one, and errors for those that may not be written
    to.

    `sequences` holds the sequence of each partition's batch.
    """
    deadline_ms = apis.runtime.clock.monotonic_ms() + apis.config.get_int("add.partitions.to.txn.retry.backoff.max.ms")
    backoff_ms = apis.config.get_int("add.partitions.to.txn.retry.backoff.ms")
    while True:
        guards, errors = _guards(apis, write, sequences)
        if not guards:
            return guards, errors
        errors |= await _manager(apis).add_or_verify(
            write.transactional_id, write.producer_id, write.producer_epoch, list(guards), write.operation
        )
        is_concurrent = write.operation.supports_epoch_bump and Errors.CONCURRENT_TRANSACTIONS in errors.values()
        if is_concurrent and apis.runtime.clock.monotonic_ms() + backoff_ms <= deadline_ms:
            await apis.runtime.sleep_ms(backoff_ms)
        elif all(partition in errors or _is_current(apis, write, partition, guard) for partition, guard in guards.items()):
            return guards, errors


def _guards(apis: KafkaApis, write: TransactionalWrite, sequences: Mapping[TopicPartition, int]) -> tuple[Guards, PartitionErrors]:
    guards: Guards = {}
    errors: PartitionErrors = {}
    for partition, sequence in sequences.items():
        try:
            guard = _log(apis, partition).verification_guards.maybe_start(
                write.producer_id, sequence, write.producer_epoch, supports_epoch_bump=write.operation.supports_epoch_bump
            )
        except ApiException as error:
            errors[partition] = error.error
            continue
        if guard is not None:  # None: the transaction has already begun in the partition
            guards[partition] = guard
    return guards, errors


def _is_current(apis: KafkaApis, write: TransactionalWrite, partition: TopicPartition, guard: VerificationGuard) -> bool:
    """Whether the guard still allows an append; an error of the log is left for the append to
    find.
    """
    try:
        log = _log(apis, partition)
    except ApiException:
        return True
    return log.verification_guards.is_current(write.producer_id, guard) or log.verification_guards.has_ongoing_transaction(
        write.producer_id, write.producer_epoch
    )


def _log(apis: KafkaApis, partition: TopicPartition) -> UnifiedLog:
    return apis.replica_manager.get_partition_or_exception(partition).leader_log


def _manager(apis: KafkaApis) -> AddPartitionsToTxnManager:
    manager = apis.add_partitions_to_txn
    if manager is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    return manager


def _refusal(error: Errors, operation: TransactionSupportedOperation) -> PartitionResponse:
    """Turns retriable errors of the coordinator into one that every producer retries without asking
    for metadata.
    """
    if error is Errors.INVALID_TXN_STATE:
        return PartitionResponse(error, error_message="Partition was not added to the transaction")
    is_concurrent = error is Errors.CONCURRENT_TRANSACTIONS and not operation.supports_epoch_bump
    if error in _RETRIED_AS_NOT_ENOUGH_REPLICAS or is_concurrent:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return PartitionResponse(Errors.NOT_ENOUGH_REPLICAS, error_message=text)
    return PartitionResponse(error)
