"""What transactional producers ask their coordinator: InitProducerId, AddPartitionsToTxn,
AddOffsetsToTxn, EndTxn.

| API (key) | served | versions |
|---|---|---|
| InitProducerId (22) | 0-5 | v3 the producer says which id and epoch it has (KIP-360), v4 PRODUCER_FENCED; v6 two-phase commit (KIP-939) is unstable |
| AddPartitionsToTxn (24) | 0-5 | v2 PRODUCER_FENCED; up to v3 from clients, v4 on from brokers: several transactions, or only to verify (KIP-890) |
| AddOffsetsToTxn (25) | 0-4 | v2 PRODUCER_FENCED |
| EndTxn (26) | 0-5 | v2 PRODUCER_FENCED, v5 transactions v2: the answer carries the id and epoch to go on with |

Below the version that brought it, PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH. If one partition
of AddPartitionsToTxn is refused (authorization, unknown), the others are not added either and get
OPERATION_NOT_ATTEMPTED. InitProducerId without a transactional id is for idempotent producers and
returns a new id with epoch 0, whoever asks. keepPreparedTxn (v6) answers UNSUPPORTED_VERSION, as in
Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, INTERNAL_TOPICS, TopicPartition, partition_for
from kmirror.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kmirror.coordinator.transaction.transaction_metadata import TRANSACTIONS_V2
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kmirror.runtime.api import run_together
from kmirror.server.request import Request
from kmirror.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kmirror.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

FIRST_VERSION_WITH_FENCED = 2
FIRST_INIT_VERSION_WITH_FENCED = 4
FIRST_BROKER_VERSION = 4
FIRST_END_VERSION_OF_V2 = 5


def transaction_coordinator(apis: KafkaApis) -> TransactionCoordinator:
    coordinator = apis.transaction_coordinator
    if coordinator is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    return coordinator


def offsets_partition(apis: KafkaApis, group_id: str) -> TopicPartition:
    """Returns a group's partition of `__consumer_offsets`.

    Before the topic exists it is the one that the group will have: some clients (aiokafka) add a
    group's offsets to a transaction before anybody has looked for its coordinator.
    """
    topic = apis.metadata_cache.image.topics.topic(GROUP_METADATA_TOPIC_NAME)
    partition_count = apis.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
    return TopicPartition(GROUP_METADATA_TOPIC_NAME, partition_for(group_id, partition_count))


def authorize_transactional_id(apis: KafkaApis, request: Request, transactional_id: str) -> None:
    """ApiException TRANSACTIONAL_ID_AUTHORIZATION_FAILED unless the client may write with the id."""
    if not apis.authorize(request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise ApiException(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _known_to_client(error: Errors, version: int, first_version: int) -> Errors:
    return Errors.INVALID_PRODUCER_EPOCH if error is Errors.PRODUCER_FENCED and version < first_version else error


# -- InitProducerId
# ---------------------------------------------------------------------------------------------------------


async def handle_init_producer_id(apis: KafkaApis, request: Request) -> InitProducerIdResponse:
    message: InitProducerIdRequest = request.message
    if message.transactional_id is not None:
        authorize_transactional_id(apis, request, message.transactional_id)
        if message.enable_2pc and not apis.authorize(
            request, AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, message.transactional_id
        ):
            raise ApiException(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not apis.auth.may_on_cluster(
        request, AclOperation.IDEMPOTENT_WRITE, log_if_denied=False
    ) and not apis.auth.authorize_by_resource_type(request, AclOperation.WRITE, ResourceType.TOPIC):
        return _init_refused(Errors.CLUSTER_AUTHORIZATION_FAILED)
    has_id, has_epoch = message.producer_id != NO_PRODUCER_ID, message.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        return _init_refused(Errors.INVALID_REQUEST)
    if message.transactional_id is None:
        return InitProducerIdResponse(producer_id=await apis.producer_ids.generate(), producer_epoch=0)
    result = await transaction_coordinator(apis).init_producer_id(
        message.transactional_id,
        timeout_ms=message.transaction_timeout_ms,
        expected=(message.producer_id, message.producer_epoch) if has_id else None,
        enable_two_phase_commit=message.enable_2pc,
        keep_prepared_transaction=message.keep_prepared_txn,
    )
    error = _known_to_client(result.error, request.api_version, FIRST_INIT_VERSION_WITH_FENCED)
    return InitProducerIdResponse(error_code=error, producer_id=result.producer_id, producer_epoch=result.producer_epoch)


def _init_refused(error: Errors) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


# -- AddPartitionsToTxn, AddOffsetsToTxn
# --------------------------------------------------------------------------------------


async def handle_add_partitions_to_txn(apis: KafkaApis, request: Request) -> AddPartitionsToTxnResponse:
    message: AddPartitionsToTxnRequest = request.message
    if request.api_version >= FIRST_BROKER_VERSION:
        apis.auth.authorize_cluster_operation(request, AclOperation.CLUSTER_ACTION)
        asked = [_add_for_broker(apis, each) for each in message.transactions]
        results = await run_together(apis.runtime, "add-partitions-to-txn", asked)
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return await _add_for_client(apis, request, message)


async def _add_for_client(apis: KafkaApis, request: Request, message: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """As in Kafka, what the coordinator was asked is answered as often as it was named, and what is
    refused before that once.
    """
    authorize_transactional_id(apis, request, message.v3_and_below_transactional_id)
    partitions = _partitions(message.v3_and_below_topics)
    allowed = apis.auth.filter_by_authorized(
        request,
        AclOperation.WRITE,
        ResourceType.TOPIC,
        [partition.topic for partition in partitions if partition.topic not in INTERNAL_TOPICS],
    )
    refused = _refused(apis, partitions, allowed)
    if refused:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(refused))
    error = await transaction_coordinator(apis).add_partitions(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
        partitions,
        client_transaction_version=0,
    )
    told = _known_to_client(error, request.api_version, FIRST_VERSION_WITH_FENCED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_as_named(message.v3_and_below_topics, told))


async def _add_for_broker(apis: KafkaApis, transaction: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
    partitions = _partitions(transaction.topics)
    errors = _refused(apis, partitions, {partition.topic for partition in partitions})
    coordinator = transaction_coordinator(apis)
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    if errors:
        results = _topic_results(errors)
    elif transaction.verify_only:
        results = _topic_results(await coordinator.verify_partitions(*producer, partitions))
    else:
        error = await coordinator.add_partitions(*producer, partitions, client_transaction_version=TRANSACTIONS_V2)
        if error is Errors.UNSUPPORTED_VERSION:
            raise ApiException(error)  # transaction.version is 0 here: an error of the whole request, as in Kafka
        results = _as_named(transaction.topics, error)
    return AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return list(dict.fromkeys(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions))


def _refused(apis: KafkaApis, partitions: list[TopicPartition], allowed: set[str]) -> dict[TopicPartition, Errors]:
    """Returns the answers when some partitions may not be added; empty when all may."""
    errors: dict[TopicPartition, Errors] = {}
    for partition in partitions:
        if partition.topic not in allowed:
            errors[partition] = Errors.TOPIC_AUTHORIZATION_FAILED
        elif not apis.metadata_cache.contains(partition):
            errors[partition] = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return {partition: errors.get(partition, Errors.OPERATION_NOT_ATTEMPTED) for partition in partitions} if errors else {}


def _topic_results(errors: Mapping[TopicPartition, Errors]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for partition, error in errors.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=partition.partition, partition_error_code=error)
        topics.setdefault(partition.topic, []).append(result)
    return [AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()]


def _as_named(topics: Iterable[AddPartitionsToTxnTopic], error: Errors) -> list[AddPartitionsToTxnTopicResult]:
    """The coordinator's one answer, for each topic and partition as often as it was named."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error) for number in topic.partitions
            ],
        )
        for topic in topics
    ]


async def handle_add_offsets_to_txn(apis: KafkaApis, request: Request) -> AddOffsetsToTxnResponse:
    message: AddOffsetsToTxnRequest = request.message
    authorize_transactional_id(apis, request, message.transactional_id)
    if not apis.authorize(request, AclOperation.READ, ResourceType.GROUP, message.group_id):
        raise ApiException(Errors.GROUP_AUTHORIZATION_FAILED)
    error = await transaction_coordinator(apis).add_partitions(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        [offsets_partition(apis, message.group_id)],
        client_transaction_version=0,
    )
    return AddOffsetsToTxnResponse(error_code=_known_to_client(error, request.api_version, FIRST_VERSION_WITH_FENCED))


# -- EndTxn
# -------------------------------------------------------------------------------------------------------------------


async def handle_end_txn(apis: KafkaApis, request: Request) -> EndTxnResponse:
    message: EndTxnRequest = request.message
    authorize_transactional_id(apis, request, message.transactional_id)
    is_v2 = request.api_version >= FIRST_END_VERSION_OF_V2
    result = await transaction_coordinator(apis).end_transaction(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        commit=message.committed,
        client_transaction_version=TRANSACTIONS_V2 if is_v2 else 0,
    )
    response = EndTxnResponse(error_code=_known_to_client(result.error, request.api_version, FIRST_VERSION_WITH_FENCED))
    if is_v2:
        response.producer_id, response.producer_epoch = result.producer_id, result.producer_epoch
    return response
