"""AdminClient calls about transactions (KIP-664): list and describe them and the producers of
partitions, fence and abort.

Coordinators are asked about transactional ids, leaders (or one broker, for its replicas) about
producers. An abort writes a marker into one partition without its coordinator. It is for a
transaction that the coordinator does not know (any more), which would hang there for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kmirror.admin.admin_requests import TRANSACTION_COORDINATOR, AdminRequests, by_topic, raise_for
from kmirror.admin.results import Node
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kmirror.wire.messages.describe_producers import ProducerState as ProducerStateRow
from kmirror.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.list_transactions import ListTransactionsRequest
from kmirror.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

FENCE_TRANSACTION_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id; `transaction_start_time_ms` is None if no transaction has begun."""

    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int | None
    topic_partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as a partition's log knows it.

    A field is None if no marker was seen, or if no transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class AbortTransactionSpec:
    """Whose transaction to end, and in which partition.

    The coordinator epoch must not be below the last one that the partition saw.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int

    def __str__(self) -> str:
        return (
            f"AbortTransactionSpec(topicPartition={self.topic_partition}, producerId={self.producer_id}, "
            f"producerEpoch={self.producer_epoch}, coordinatorEpoch={self.coordinator_epoch})"
        )


@dataclass(frozen=True, slots=True)
class TransactionsFilter:
    """Which transactions to list: all, or only those of given producers or states, open for longer
    than a duration, or with ids that match a pattern.
    """

    producer_ids: tuple[int, ...] = ()
    states: tuple[str, ...] = ()
    duration_ms: int = -1
    transactional_id_pattern: str | None = field(default=None)


async def list_transactions(cluster: AdminRequests, wanted: TransactionsFilter | None = None) -> dict[int, list[TransactionListing]]:
    """Returns every coordinator's transactions, by broker id.

    UNSUPPORTED_VERSION if a broker does not know a filter.
    """
    chosen = wanted or TransactionsFilter()
    request = ListTransactionsRequest(
        producer_id_filters=list(chosen.producer_ids),
        state_filters=list(chosen.states),
        duration_filter=chosen.duration_ms,
        transactional_id_pattern=chosen.transactional_id_pattern,
    )

    async def ask(node_id: int) -> list[TransactionListing]:
        async def attempt() -> list[TransactionListing]:
            response = await cluster.ask_node(node_id, request)
            raise_for(response.error_code, None)
            rows = response.transaction_states
            return [TransactionListing(row.transactional_id, row.producer_id, row.transaction_state) for row in rows]

        return await cluster.retry(attempt)

    await cluster.metadata([])
    return {node_id: await ask(node_id) for node_id in sorted(cluster.nodes)}


async def describe_transactions(
    cluster: AdminRequests, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | ApiException]:
    """Returns the state of each id, or why there is none (TRANSACTIONAL_ID_NOT_FOUND)."""

    async def ask(node: Node, group: list[str]) -> dict[str, TransactionDescription | ApiException]:
        request = DescribeTransactionsRequest(transactional_ids=group)
        response = await cluster.send(node, request)
        result: dict[str, TransactionDescription | ApiException] = {}
        for row in response.transaction_states:
            error = Errors.for_code(row.error_code)
            if error.retriable:
                raise ApiException(error)
            found = _description(node.id, row) if error is Errors.NONE else _undescribed(row.transactional_id, error)
            result[row.transactional_id] = found
        return result

    return await cluster.by_coordinator(transactional_ids, TRANSACTION_COORDINATOR, ask)


async def describe_producers(
    cluster: AdminRequests, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerState]]:
    """Returns each partition's active producers, as its leader or the broker `broker_id` knows
    them.
    """

    async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic(group).items()]
        )
        response = await cluster.send(node, request)
        result: dict[TopicPartition, list[ProducerState]] = {}
        for topic in response.topics:
            for row in topic.partitions:
                raise_for(row.error_code, row.error_message)
                result[TopicPartition(topic.name, row.partition_index)] = [_producer(state) for state in row.active_producers]
        return result

    wanted = list(partitions)
    if broker_id is None:
        return await cluster.by_leader(wanted, ask)
    return await ask(await cluster.node(broker_id), wanted)


async def abort_transaction(cluster: AdminRequests, spec: AbortTransactionSpec) -> None:
    """Writes the abort marker into the partition.

    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: newer ones were seen there.
    """
    topic = WritableTxnMarkerTopic(name=spec.topic_partition.topic, partition_indexes=[spec.topic_partition.partition])
    marker = WritableTxnMarker(
        producer_id=spec.producer_id,
        producer_epoch=spec.producer_epoch,
        coordinator_epoch=spec.coordinator_epoch,
        transaction_result=False,
        topics=[topic],
    )

    async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, None]:
        request = WriteTxnMarkersRequest(markers=[marker])
        response = await cluster.send(node, request)
        error = Errors.for_code(response.markers[0].topics[0].partitions[0].error_code)
        if error.retriable:
            raise ApiException(error)
        if error is not Errors.NONE:
            raise _not_aborted(spec, error)
        return dict.fromkeys(group)

    await cluster.by_leader([spec.topic_partition], ask)


async def fence_producers(cluster: AdminRequests, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Shuts out the producers of these ids; an open transaction is aborted first.

    Returns the new producer id and epoch of each.
    """

    async def ask(node: Node, group: list[str]) -> dict[str, tuple[int, int]]:
        result: dict[str, tuple[int, int]] = {}
        for transactional_id in group:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCE_TRANSACTION_TIMEOUT_MS)
            response = await cluster.send(node, request)
            error = Errors.for_code(response.error_code)
            if error.retriable:
                raise ApiException(error)
            if error is not Errors.NONE:
                raise _not_fenced(transactional_id, error)
            result[transactional_id] = (response.producer_id, response.producer_epoch)
        return result

    return await cluster.by_coordinator(transactional_ids, TRANSACTION_COORDINATOR, ask)


async def force_terminate_transaction(cluster: AdminRequests, transactional_id: str) -> None:
    """Aborts the open transaction of an id, whatever its producer is doing."""
    await fence_producers(cluster, [transactional_id])


def _description(coordinator_id: int, row: TransactionState) -> TransactionDescription:
    return TransactionDescription(
        coordinator_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        [TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions],
    )


def _producer(row: ProducerStateRow) -> ProducerState:
    return ProducerState(
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        row.last_timestamp,
        row.coordinator_epoch if row.coordinator_epoch >= 0 else None,
        row.current_txn_start_offset if row.current_txn_start_offset >= 0 else None,
    )


# -- errors as Kafka's client words them


def _undescribed(transactional_id: str, error: Errors) -> ApiException:
    reasons = {
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "due to authorization failure",
        Errors.TRANSACTIONAL_ID_NOT_FOUND: "because the ID could not be found",
    }
    reason = reasons.get(error, "due to unexpected error")
    return ApiException(error, f"DescribeTransactions request for transactionalId `{transactional_id}` failed {reason}")


def _not_aborted(spec: AbortTransactionSpec, error: Errors) -> ApiException:
    reasons = {
        Errors.CLUSTER_AUTHORIZATION_FAILED: "due to cluster authorization error",
        Errors.INVALID_PRODUCER_EPOCH: "due an invalid producer epoch",
        Errors.TRANSACTION_COORDINATOR_FENCED: (
            f"since the provided coordinator epoch {spec.coordinator_epoch} has been fenced by the active coordinator"
        ),
    }
    reason = reasons.get(error, f"due to unexpected error: {error.message}")
    return ApiException(error, f"WriteTxnMarkers request with {spec} failed {reason}")


def _not_fenced(transactional_id: str, error: Errors) -> ApiException:
    reasons = {
        Errors.CLUSTER_AUTHORIZATION_FAILED: "due to cluster authorization failure",
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "due to transactional ID authorization failure",
    }
    reason = reasons.get(error, "due to unexpected error")
    return ApiException(error, f"InitProducerId request for transactionalId `{transactional_id}` failed {reason}")
