"""Transactional batches of a Produce request, before they are appended: guards and verdicts (KIP-890).

The log hands out a *guard* for the first batch of a transaction in a partition and takes the batch only with it; an end of the
transaction in between makes the guard worthless. So the order is: guard, question to the coordinator, append.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.replica_types import PartitionResponse
from kmirror.server.add_partitions_to_txn_manager import TransactionSupportedOperation
from kmirror.storage.batch_header import BatchHeader, unpack_header
from kmirror.storage.producer_state_entry import VerificationGuard

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

_RETRIED_AS_NOT_ENOUGH_REPLICAS = (
    Errors.NETWORK_EXCEPTION,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
)


class Verified(NamedTuple):
    """Guards to append with, and the answers of partitions that are not to be appended to."""

    guards: dict[TopicPartition, VerificationGuard]
    refused: dict[TopicPartition, PartitionResponse]


NOTHING_TO_VERIFY = Verified({}, {})


async def verify_batches(
    apis: KafkaApis, transactional_id: str, entries: Mapping[TopicPartition, Buffer], operation: TransactionSupportedOperation
) -> Verified:
    """INVALID_PRODUCER_ID_MAPPING when the request mixes producers."""
    headers = {partition: unpack_header(records, 0, 0) for partition, records in entries.items()}
    transactional = {partition: header for partition, header in headers.items() if header.is_transactional}
    if len({(header.producer_id, header.producer_epoch) for header in transactional.values()}) > 1:
        raise ApiException(Errors.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID")
    guards: dict[TopicPartition, VerificationGuard] = {}
    refused: dict[TopicPartition, PartitionResponse] = {}
    for partition, header in transactional.items():
        try:
            guard = _guard(apis, partition, header, operation)
        except ApiException as error:
            refused[partition] = PartitionResponse(error.error)
            continue
        if guard is not None:
            guards[partition] = guard
    if guards:
        first = transactional[next(iter(guards))]
        errors = await apis.add_partitions_to_txn.add_or_verify(
            transactional_id, first.producer_id, first.producer_epoch, list(guards), operation
        )
        refused |= {partition: _refusal(error, operation) for partition, error in errors.items()}
    return Verified(guards, refused)


def _guard(
    apis: KafkaApis, partition: TopicPartition, header: BatchHeader, operation: TransactionSupportedOperation
) -> VerificationGuard | None:
    """None where the transaction is already going on in the partition."""
    log = apis.replica_manager.get_partition_or_exception(partition).leader_log
    return log.maybe_start_transaction_verification(
        header.producer_id, header.base_sequence, header.producer_epoch, supports_epoch_bump=operation.supports_epoch_bump
    )


def _refusal(error: Errors, operation: TransactionSupportedOperation) -> PartitionResponse:
    """Retriable errors of the coordinator become one that every producer retries without asking for metadata."""
    if error is Errors.INVALID_TXN_STATE:
        return PartitionResponse(error, error_message="Partition was not added to the transaction")
    is_concurrent = error is Errors.CONCURRENT_TRANSACTIONS and not operation.supports_epoch_bump
    if error in _RETRIED_AS_NOT_ENOUGH_REPLICAS or is_concurrent:
        text = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return PartitionResponse(Errors.NOT_ENOUGH_REPLICAS, error_message=text)
    return PartitionResponse(error)
