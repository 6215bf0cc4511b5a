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
from kmirror.common.uuid import Uuid
from kmirror.record.produce_validation import RecordSetKind, classify_records, validate_produce_records
from kmirror.record.record_batch import ATTRIBUTES_POSITION, TRANSACTIONAL_FLAG
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
    PartitionProduceData,
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

PartitionKey = tuple[str, Uuid, int]
"""Topic name, topic id (zero below v13) and partition."""
Refused = dict[PartitionKey, PartitionResponse]

_log = logging.getLogger(__name__)


async def handle_produce(apis: KafkaApis, request: Request) -> Any:
    message: ProduceRequest = request.message
    entries: dict[TopicPartition, Buffer] = {}
    refused: Refused = {}
    if _has_transactional_records(message) and not _may_use_transaction(apis, request):
        denied = PartitionResponse(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _answer(apis, request, {}, {_key(topic, data): denied for topic in message.topic_data for data in topic.partition_data})
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
    """Whether a partition's first batch is transactional.

    Raises CORRUPT_MESSAGE, for the whole request, for a first batch of an impossible length or
    magic that comes before it, as Kafka's RequestUtils.hasTransactionalRecords does.
    """
    for topic in message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not isinstance(records, (bytes, bytearray, memoryview)) or classify_records(records) is not RecordSetKind.V2:
                continue
            if len(records) > ATTRIBUTES_POSITION + 1 and is_transactional(records):
                return True
    return False


def _may_use_transaction(apis: KafkaApis, request: Request) -> bool:
    transactional_id: str | None = request.message.transactional_id
    return transactional_id is not None and apis.authorize(request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


async def _verify_transaction(apis: KafkaApis, request: Request, entries: dict[TopicPartition, Buffer]) -> VerifiedTransactions:
    transactional_id: str = request.message.transactional_id
    operation = TransactionSupportedOperation.of_produce(request.api_version)
    return await verify_batches(apis, transactional_id, entries, operation)


def _key(topic: TopicProduceData, data: PartitionProduceData) -> PartitionKey:
    return topic.name, topic.topic_id, data.index


def _check_topic(
    apis: KafkaApis, request: Request, topic: TopicProduceData, entries: dict[TopicPartition, Buffer], refused: Refused
) -> None:
    """Sorts a topic's partitions into those to append and those already refused.

    Of a partition that comes twice the last data is appended; if one of the two is refused, that is
    the answer.
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
            refused[_key(topic, data)] = PartitionResponse(topic_error)
        elif not apis.metadata_cache.contains(topic_partition):
            refused[_key(topic, data)] = PartitionResponse(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        elif not isinstance(data.records, (bytes, bytearray, memoryview)):
            refused[_key(topic, data)] = PartitionResponse(Errors.INVALID_RECORD)
        else:
            try:
                validate_produce_records(request.api_version, data.records)
            except ApiException as error:
                refused[_key(topic, data)] = PartitionResponse(error.error)
            else:
                entries[topic_partition] = data.records
        data.records = None


def is_transactional(records: Buffer) -> bool:
    """Whether the (valid) batch is part of a transaction."""
    return bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_FLAG)


def _answer(apis: KafkaApis, request: Request, results: dict[TopicPartition, PartitionResponse], refused: Refused) -> Any:
    message: ProduceRequest = request.message
    leaders = LeaderEndpoints(apis.metadata_cache, request.listener_name)
    failed: list[str] = []
    topics: dict[tuple[str, Uuid], dict[int, PartitionProduceResponse]] = {}
    for topic in message.topic_data:
        if not topic.partition_data:
            continue
        responses = topics.setdefault((topic.name, topic.topic_id), {})
        for data in topic.partition_data:
            if data.index in responses:
                continue
            topic_partition = TopicPartition(topic.name, data.index)
            result = refused.get(_key(topic, data)) or results[topic_partition]
            if result.error is not Errors.NONE:
                failed.append(f"{topic_partition} -> {result.error.name}")
            response = _partition_response(data.index, result)
            if result.error is Errors.NOT_LEADER_OR_FOLLOWER and request.api_version >= FIRST_VERSION_WITH_LEADER:
                response.current_leader = LeaderIdAndEpoch(*leaders.add(topic_partition))
            responses[data.index] = response
    if message.acks != 0:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=list(responses.values()))
                for (name, topic_id), responses in topics.items()
            ],
            node_endpoints=[NodeEndpoint(node.id, node.host, node.port, node.rack) for node in leaders.nodes],
        )
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
