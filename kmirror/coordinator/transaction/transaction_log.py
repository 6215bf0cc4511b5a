"""Records of `__transaction_state`: one per change of a transactional id (Kafka's
`TransactionLog`).

    key    int16 0, then TransactionLogKey v0: the transactional id
    value  int16 version, then TransactionLogValue; version 1 (with the tagged fields of KIP-890)
           from transaction.version 1 on. None is a tombstone: the id expired.

Partitions are null in state Empty, else grouped by topic; topics and partitions are in the
iteration order of Java's hash tables, so that the bytes equal Kafka's. `last_producer_epoch` is not
stored (see `transaction_metadata`).
"""

from __future__ import annotations

from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.java_hash_map import hash_map_order, topic_partition_order
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState
from kmirror.wire.messages.transaction_log_key import TransactionLogKey
from kmirror.wire.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from kmirror.wire.primitives import Writer

TRANSACTION_LOG: Final = 0
FIRST_FLEXIBLE_VALUE_VERSION: Final = 1


def value_version(transaction_version: int) -> int:
    """Returns the record version for a level of the feature `transaction.version`."""
    return min(transaction_version, FIRST_FLEXIBLE_VALUE_VERSION)


def transaction_key(transactional_id: str) -> bytes:
    out = Writer()
    TransactionLogKey(transactional_id=transactional_id).write(out, TransactionLogKey.HIGHEST_VERSION)
    return TRANSACTION_LOG.to_bytes(2, "big") + out.to_bytes()


def transaction_record(metadata: TransactionMetadata, *, transaction_version: int) -> CoordinatorRecord:
    """Returns the record that makes `metadata` the state of its transactional id. Raises
    UNSUPPORTED_VERSION for a transaction of version 2 while the feature is at 0, because its
    records could not express it."""
    is_empty = metadata.state is TransactionState.EMPTY
    assert not (is_empty and metadata.partitions), f"{metadata.transactional_id!r} has partitions in state Empty: {metadata.partitions}"
    version = value_version(transaction_version)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if is_empty else _grouped(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
        client_transaction_version=metadata.client_transaction_version,
    )
    if version < FIRST_FLEXIBLE_VALUE_VERSION:
        value.previous_producer_id = value.next_producer_id = -1
    out = Writer()
    value.write(out, version)
    return CoordinatorRecord(transaction_key(metadata.transactional_id), version.to_bytes(2, "big") + out.to_bytes())


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(transaction_key(transactional_id), None)


def _grouped(partitions: tuple[TopicPartition, ...]) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic_partition in topic_partition_order(partitions):
        by_topic.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return [PartitionsSchema(topic=topic, partition_ids=by_topic[topic]) for topic in hash_map_order(by_topic)]


def read_transaction_record(record: CoordinatorRecord) -> tuple[str, TransactionMetadata | None] | None:
    """Returns (transactional id, content of the record; None for a tombstone). Returns None for a
    key type of a later version; raises KmirrorError for a value of one."""
    key_view = memoryview(record.key)
    if int.from_bytes(key_view[:2], "big", signed=True) != TRANSACTION_LOG:
        return None
    transactional_id = TransactionLogKey.read(key_view, 2, TransactionLogKey.HIGHEST_VERSION)[0].transactional_id
    if record.value is None:
        return transactional_id, None
    value_view = memoryview(record.value)
    version = int.from_bytes(value_view[:2], "big", signed=True)
    if not 0 <= version <= TransactionLogValue.HIGHEST_VERSION:
        raise KmirrorError(f"Unknown version {version} of the value of transactional id {transactional_id!r} in __transaction_state")
    value = TransactionLogValue.read(value_view, 2, version)[0]
    state = TransactionState.from_id(value.transaction_status)
    return transactional_id, TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=tuple(
            TopicPartition(topic.topic, partition) for topic in value.transaction_partitions or () for partition in topic.partition_ids
        ),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )
