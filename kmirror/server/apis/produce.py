"""Produce (key 0).

Served: v3-v13. v0-v2 are advertised (librdkafka reads our minimum to guess the broker's age,
KAFKA-18659) but answered by closing the connection, as Kafka 4 does.

    v3   record batches v2 (KIP-98)                 v9   flexible
    v5   log start offset in the response           v10  current leader of NOT_LEADER_OR_FOLLOWER (KIP-951)
    v7   zstd (KIP-110)                             v12  transactions v2 (KIP-890)
    v8   record errors (KIP-467)                    v13  topics by id (KIP-516)

Behaviour
* each partition has exactly one batch of magic 2, otherwise INVALID_RECORD; zstd below v7 is UNSUPPORTED_COMPRESSION_TYPE
* acks 0 gets no response; if a partition failed, the connection is closed, which is all that a client can notice
* a read-only mirror partition answers READ_ONLY_TOPIC, or NOT_LEADER_OR_FOLLOWER while its state is not known or it is about to become writable
* a producer above its quota is answered as usual, with the throttle time, and its connection is muted (`server.request_throttling`)
* only the client id `__admin_client` may write to internal topics
* transactional batches: the client needs WRITE on the transactional id, and the transaction coordinator is asked about the
  partition before the first batch (`server.transaction_verification`): it must be in the transaction, or is added to it (from v12 on)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.produce_validation import classify_records, validate_produce_records
from kmirror.record.record_batch import ATTRIBUTES_POSITION, CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, TRANSACTIONAL_FLAG
from kmirror.replica.replica_types import PartitionResponse
from kmirror.server.add_partitions_to_txn_manager import TransactionSupportedOperation
from kmirror.server.apis.leaders import LeaderEndpoints
from kmirror.server.request import CLOSE_CONNECTION, NO_RESPONSE, Request
from kmirror.server.transaction_verification import NOTHING_TO_VERIFY, VerifiedTransactions, verify_batches
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

ADMIN_CLIENT_ID = "__admin_client"
FIRST_VERSION_WITH_LEADER = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13

_log = logging.getLogger(__name__)


async def handle_produce(apis: KafkaApis, request: Request) -> Any:
    message: ProduceRequest = request.message
    entries: dict[TopicPartition, Buffer] = {}
    refused: dict[int, PartitionResponse] = {}
    if _has_transactional_records(message) and not _may_use_transaction(apis, request):
        denied = PartitionResponse(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _answer(apis, request, {}, {id(data): denied for topic in message.topic_data for data in topic.partition_data})
    for topic in message.topic_data:
        _check_topic(apis, request, topic, entries, refused)
    verified = await _verify_transaction(apis, request, entries) if any(map(is_transactional, entries.values())) else NOTHING_TO_VERIFY
    for topic_partition in verified.refused:
        del entries[topic_partition]
    results = await apis.replica_manager.append_records(
        timeout_ms=message.timeout_ms,
        required_acks=message.acks,
        origin=AppendOrigin.CLIENT,
        entries=entries,
        internal_topics_allowed=request.client_id == ADMIN_CLIENT_ID,
        verification_guards=verified.guards,
    )
    results.update(verified.refused)
    return _answer(apis, request, results, refused)


def _has_transactional_records(message: ProduceRequest) -> bool:
    return any(
        isinstance(data.records, (bytes, bytearray, memoryview))
        and len(data.records) > ATTRIBUTES_POSITION + 1
        and data.records[HEADER_SIZE_UP_TO_MAGIC - 1] == CURRENT_MAGIC
        and is_transactional(data.records)
        for topic in message.topic_data
        for data in topic.partition_data
    )


def _may_use_transaction(apis: KafkaApis, request: Request) -> bool:
    transactional_id: str | None = request.message.transactional_id
    return transactional_id is not None and apis.authorize(request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


async def _verify_transaction(apis: KafkaApis, request: Request, entries: dict[TopicPartition, Buffer]) -> VerifiedTransactions:
    transactional_id: str = request.message.transactional_id
    operation = TransactionSupportedOperation.of_produce(request.api_version)
    return await verify_batches(apis, transactional_id, entries, operation)


def _check_topic(
    apis: KafkaApis, request: Request, topic: TopicProduceData, entries: dict[TopicPartition, Buffer], refused: dict[int, PartitionResponse]
) -> None:
    """Sorts a topic's partitions into those to append and those already refused (by the identity of
    their data).
    """
    topic_error = Errors.NONE
    if request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        name = apis.metadata_cache.topic_name(topic.topic_id)
        if name is None:
            topic_error = Errors.UNKNOWN_TOPIC_ID
        else:
            topic.name = name
    if topic_error is Errors.NONE and not apis.authorize(request, AclOperation.WRITE, ResourceType.TOPIC, topic.name):
        topic_error = Errors.TOPIC_AUTHORIZATION_FAILED
    for data in topic.partition_data:
        topic_partition = TopicPartition(topic.name, data.index)
        if topic_error is not Errors.NONE:
            refused[id(data)] = PartitionResponse(topic_error)
        elif not apis.metadata_cache.contains(topic_partition):
            refused[id(data)] = PartitionResponse(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        elif not isinstance(data.records, (bytes, bytearray, memoryview)):
            refused[id(data)] = PartitionResponse(Errors.INVALID_RECORD)
        else:
            try:
                validate_produce_records(request.api_version, data.records)
            except ApiException as error:
                refused[id(data)] = _malformed(data.records, error)
            else:
                entries.setdefault(topic_partition, data.records)
        data.records = None


def _malformed(records: Buffer, error: ApiException) -> PartitionResponse:
    """Returns the answer for bytes that are not one batch of magic 2.

    Kafka sends the text only if the first batch is corrupt.
    """
    try:
        classify_records(records)
    except ApiException as corrupt:
        return PartitionResponse(corrupt.error, error_message=corrupt.message)
    return PartitionResponse(error.error)


def is_transactional(records: Buffer) -> bool:
    """Whether the (valid) batch is part of a transaction."""
    return bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_FLAG)


def _answer(
    apis: KafkaApis, request: Request, results: dict[TopicPartition, PartitionResponse], refused: dict[int, PartitionResponse]
) -> Any:
    message: ProduceRequest = request.message
    leaders = LeaderEndpoints(apis.metadata_cache, request.listener_name)
    failed: list[str] = []
    topics: list[TopicProduceResponse] = []
    for topic in message.topic_data:
        responses: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            topic_partition = TopicPartition(topic.name, data.index)
            result = refused.get(id(data)) or results[topic_partition]
            if result.error is not Errors.NONE:
                failed.append(f"{topic_partition} -> {result.error.name}")
            response = _partition_response(data.index, result)
            if result.error is Errors.NOT_LEADER_OR_FOLLOWER and request.api_version >= FIRST_VERSION_WITH_LEADER:
                response.current_leader = LeaderIdAndEpoch(*leaders.add(topic_partition))
            responses.append(response)
        if responses:
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=responses))
    if message.acks != 0:
        nodes = [NodeEndpoint(node.id, node.host, node.port, node.rack) for node in leaders.nodes]
        return ProduceResponse(responses=topics, node_endpoints=nodes)
    if not failed:
        return NO_RESPONSE
    _log.info(
        "Closing connection due to error during produce request with correlation id %d from client id %s with ack=0. "
        "Topic and partition to exceptions: %s",
        request.correlation_id,
        request.client_id,
        ", ".join(failed),
    )
    return CLOSE_CONNECTION


def _partition_response(index: int, result: PartitionResponse) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=result.error,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=[BatchIndexAndErrorMessage(entry.batch_index, entry.message) for entry in result.record_errors],
        error_message=result.error_message,
    )
