"""TxnOffsetCommit (key 28). Served: v0-v5.

    v2   leader epoch; COORDINATOR_LOAD_IN_PROGRESS (below: COORDINATOR_NOT_AVAILABLE, KAFKA-7296)
    v3   the member and its generation, so that a member that was removed commits nothing (KIP-447)
    v4   TRANSACTION_ABORTABLE                      v5   transactions v2: the partition of the group is added implicitly (KIP-890)

The offsets are written as a transactional batch of the producer into the group's partition of
`__consumer_offsets`, and they count once the transaction commits. That batch may be the first of
the transaction in this partition, so the transaction coordinator is asked before the append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record import NO_SEQUENCE
from kmirror.server.add_partitions_to_txn_manager import TransactionSupportedOperation
from kmirror.server.apis.transactions import authorize_transactional_id, offsets_partition
from kmirror.server.request import Request
from kmirror.server.transaction_verification import TransactionalWrite, verify_partitions
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.error_responses import error_response
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

FIRST_VERSION_WITH_LOAD_IN_PROGRESS = 2
_NOT_AVAILABLE = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NOT_ENOUGH_REPLICAS, Errors.REQUEST_TIMED_OUT)
_NOT_COORDINATOR = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.KAFKA_STORAGE_ERROR)

Results = dict[tuple[str, int], Errors]


async def handle_txn_offset_commit(apis: KafkaApis, request: Request) -> TxnOffsetCommitResponse:
    message: TxnOffsetCommitRequest = request.message
    authorize_transactional_id(apis, request, message.transactional_id)
    if not apis.authorize(request, AclOperation.READ, ResourceType.GROUP, message.group_id):
        raise ApiException(Errors.GROUP_AUTHORIZATION_FAILED)
    refused = _refused(apis, request, message)
    committed: TxnOffsetCommitRequest = TxnOffsetCommitRequest(
        transactional_id=message.transactional_id,
        group_id=message.group_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        topics=_without(message.topics, refused),
    )
    results: Results = {}
    if committed.topics:
        try:
            response = await _commit(apis, committed, TransactionSupportedOperation.of_txn_offset_commit(request.api_version))
        except ApiException as error:
            response = error_response(ApiKeys.TXN_OFFSET_COMMIT, request.api_version, committed, _translated(error))
        results = {
            (topic.name, partition.partition_index): Errors.for_code(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }
    return _response(message, {**results, **refused}, request.api_version)


def _refused(apis: KafkaApis, request: Request, message: TxnOffsetCommitRequest) -> Results:
    names = [topic.name for topic in message.topics]
    allowed = apis.auth.filter_by_authorized(request, AclOperation.READ, ResourceType.TOPIC, names)
    refused: Results = {}
    for topic in message.topics:
        for partition in topic.partitions:
            if topic.name not in allowed:
                refused[topic.name, partition.partition_index] = Errors.TOPIC_AUTHORIZATION_FAILED
            elif not apis.metadata_cache.contains(TopicPartition(topic.name, partition.partition_index)):
                refused[topic.name, partition.partition_index] = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _without(topics: list[TxnOffsetCommitRequestTopic], refused: Results) -> list[TxnOffsetCommitRequestTopic]:
    kept = [
        TxnOffsetCommitRequestTopic(
            name=topic.name,
            partitions=[partition for partition in topic.partitions if (topic.name, partition.partition_index) not in refused],
        )
        for topic in topics
    ]
    return [topic for topic in kept if topic.partitions]


async def _commit(apis: KafkaApis, message: TxnOffsetCommitRequest, operation: TransactionSupportedOperation) -> TxnOffsetCommitResponse:
    """Takes a guard, asks the transaction coordinator, and appends."""
    if not message.group_id:
        raise ApiException(Errors.INVALID_GROUP_ID)
    if apis.group_coordinator is None:
        raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
    partition = offsets_partition(apis, message.group_id)
    write = TransactionalWrite(message.transactional_id, message.producer_id, message.producer_epoch, operation)
    guards, errors = await verify_partitions(apis, write, {partition: NO_SEQUENCE})
    if partition in errors:
        raise ApiException(errors[partition])
    response: TxnOffsetCommitResponse = await apis.group_coordinator.commit_transactional_offsets(
        message, verification_guard=guards.get(partition)
    )
    return response


def _translated(error: ApiException) -> ApiException:
    """Translates errors of the log and of the coordinator's answer into those of group
    coordinators.
    """
    if error.error is Errors.NETWORK_EXCEPTION:
        return ApiException(Errors.COORDINATOR_LOAD_IN_PROGRESS, error.message)  # retried without a new FindCoordinator
    if error.error in _NOT_AVAILABLE:
        return ApiException(Errors.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.error in _NOT_COORDINATOR:
        return ApiException(Errors.NOT_COORDINATOR, error.message)
    return error


def _response(message: TxnOffsetCommitRequest, results: Results, version: int) -> TxnOffsetCommitResponse:
    def code(key: tuple[str, int]) -> Errors:
        error = results[key]
        too_new = error is Errors.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_WITH_LOAD_IN_PROGRESS
        return Errors.COORDINATOR_NOT_AVAILABLE if too_new else error

    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code((topic.name, partition.partition_index))
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
