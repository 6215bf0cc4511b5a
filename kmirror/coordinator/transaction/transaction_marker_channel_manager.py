"""Brings the markers of decided transactions to the leaders of their partitions (Kafka's
`TransactionMarkerChannelManager`).

Each broker has at most one WriteTxnMarkers request in flight; markers that come meanwhile go into
the next one. For a partition that cannot take its marker now (its leader moves, or has too few
replicas), the marker is sent again to the partition's leader at that time. A partition whose topic
was deleted needs none. If a leader knows a newer coordinator, or a newer epoch of the producer, the
work ends, because another coordinator now decides about this transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.broker_queues import BrokerQueues
from kmirror.coordinator.transaction.transaction_coordinator_shard import PendingCompletion
from kmirror.metadata.image import MetadataImage
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.node_channels import BrokerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kmirror.wire.primitives import ProtocolReadError

RETRY_BACKOFF_MS: Final = 20
RETRY_BACKOFF_MAX_MS: Final = 1_000
_FENCED: Final = (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED, Errors.TRANSACTION_COORDINATOR_FENCED)
_NEEDS_NONE: Final = (Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION)
_log = logging.getLogger(__name__)

PartitionErrors = dict[TopicPartition, Errors]


class _Queued(NamedTuple):
    marker: WritableTxnMarker
    partitions: list[TopicPartition]


class TransactionMarkerChannelManager:
    def __init__(self, runtime: Runtime, *, image: Callable[[], MetadataImage], brokers: BrokerChannel, metrics: MetricsRegistry) -> None:
        self._runtime = runtime
        self._image = image
        self._brokers = brokers
        self._queues: BrokerQueues[_Queued, PartitionErrors] = BrokerQueues(
            runtime, "transaction-markers", self._send, key_of=lambda queued: queued.marker.producer_id
        )
        self._waiting_for_leader = 0
        metrics.gauge(
            MetricName("kafka.coordinator.transaction", "TransactionMarkerChannelManager", "UnknownDestinationQueueSize"),
            lambda: self._waiting_for_leader,
        )

    async def shutdown(self) -> None:
        await self._queues.shutdown()

    async def write_markers(self, pending: PendingCompletion, is_wanted: Callable[[], bool]) -> bool:
        """Returns True when every partition of `pending` has its marker; False when they are no
        longer wanted, or when another coordinator has taken over."""
        remaining = list(pending.prepared.partitions)
        backoff_ms = RETRY_BACKOFF_MS
        while remaining:
            if not is_wanted():
                return False
            errors = await self._try_once(pending, remaining)
            fenced = [error for error in errors.values() if error in _FENCED]
            if fenced:
                _log.info(
                    "Sending the transaction markers of %s with coordinator epoch %d failed with %s and is not tried again",
                    pending.prepared.transactional_id,
                    pending.coordinator_epoch,
                    fenced[0].name,
                )
                return False
            remaining = [partition for partition in remaining if errors[partition] is not Errors.NONE]
            if remaining:
                await self._runtime.sleep_ms(backoff_ms)
                backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
        return True

    async def _try_once(self, pending: PendingCompletion, partitions: list[TopicPartition]) -> PartitionErrors:
        """Returns the outcome for each partition: NONE (done), an error that ends the work, or any
        other error (try again)."""
        errors: PartitionErrors = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        topics = self._image().topics
        for partition in partitions:
            registration = topics.partition(partition.topic, partition.partition)
            if registration is None:
                errors[partition] = Errors.NONE  # the topic was deleted, and the transaction's records with it
            elif not registration.has_leader:
                errors[partition] = Errors.LEADER_NOT_AVAILABLE
            else:
                by_leader.setdefault(registration.leader, []).append(partition)
        self._waiting_for_leader += (unknown := sum(error is Errors.LEADER_NOT_AVAILABLE for error in errors.values()))
        try:
            asked = [self._queues.enqueue(leader, _Queued(_marker(pending, group), group)) for leader, group in sorted(by_leader.items())]
            for future in asked:
                errors |= await future
        finally:
            self._waiting_for_leader -= unknown
        return errors

    async def _send(self, broker_id: int, batch: list[_Queued]) -> list[PartitionErrors]:
        try:
            response = await self._brokers.send(broker_id, WriteTxnMarkersRequest(markers=[queued.marker for queued in batch]))
        except (ApiException, DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError) as error:
            _log.info("Transaction markers could not be sent to broker %d and will be sent again: %s", broker_id, error)
            return [dict.fromkeys(queued.partitions, Errors.NETWORK_EXCEPTION) for queued in batch]
        answered: dict[int, PartitionErrors] = {}
        for result in response.markers:
            errors = answered.setdefault(result.producer_id, {})
            for topic in result.topics:
                for partition in topic.partitions:
                    errors[TopicPartition(topic.name, partition.partition_index)] = _outcome(Errors.for_code(partition.error_code))
        return [
            {
                partition: answered.get(queued.marker.producer_id, {}).get(partition, Errors.UNKNOWN_SERVER_ERROR)
                for partition in queued.partitions
            }
            for queued in batch
        ]


def _marker(pending: PendingCompletion, partitions: list[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return WritableTxnMarker(
        producer_id=pending.prepared.producer_id,
        producer_epoch=pending.prepared.producer_epoch,
        transaction_result=pending.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=pending.coordinator_epoch,
        transaction_version=pending.prepared.client_transaction_version,
    )


def _outcome(error: Errors) -> Errors:
    """Returns NONE for a partition that takes no markers at all, since it needs none."""
    return Errors.NONE if error in _NEEDS_NONE else error
