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
from kmirror.record.record import NO_SEQUENCE
from kmirror.server.add_partitions_to_txn_manager import TransactionSupportedOperation
from kmirror.server.apis.by_topic import TopicAnswers, split_known
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


async def handle_txn_offset_commit(apis: KafkaApis, request: Request) -> TxnOffsetCommitResponse:
    message: TxnOffsetCommitRequest = request.message
    authorize_transactional_id(apis, request, message.transactional_id)
    if not apis.authorize(request, AclOperation.READ, ResourceType.GROUP, message.group_id):
        raise ApiException(Errors.GROUP_AUTHORIZATION_FAILED)
    answers = TopicAnswers()
    accepted = _accepted(apis, request, message, answers)
    committed: TxnOffsetCommitRequest = TxnOffsetCommitRequest(
        transactional_id=message.transactional_id,
        group_id=message.group_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        topics=accepted,
    )
    answered: list[TxnOffsetCommitResponseTopic] = []
    if committed.topics:
        try:
            response = await _commit(apis, committed, TransactionSupportedOperation.of_txn_offset_commit(request.api_version))
        except ApiException as error:
            response = error_response(ApiKeys.TXN_OFFSET_COMMIT, request.api_version, committed, _translated(error))
        answered = response.topics
    return _response(answers.merged(answered), request.api_version)


def _accepted(
    apis: KafkaApis, request: Request, message: TxnOffsetCommitRequest, answers: TopicAnswers
) -> list[TxnOffsetCommitRequestTopic]:
    """Returns what the coordinator is asked; what is refused goes into `answers`."""
    names = [topic.name for topic in message.topics]
    allowed = apis.auth.filter_by_authorized(request, AclOperation.READ, ResourceType.TOPIC, names)
    accepted: list[TxnOffsetCommitRequestTopic] = []
    for topic in message.topics:
        error = Errors.UNKNOWN_TOPIC_OR_PARTITION if topic.name in allowed else Errors.TOPIC_AUTHORIZATION_FAILED
        image = apis.metadata_cache.image.topics.topic(topic.name)
        known, unknown = split_known(topic.partitions, image if topic.name in allowed else None)
        if unknown or image is None or topic.name not in allowed:
            partitions = [TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in unknown]
            answers.add(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        if known:
            accepted.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=known))
    return accepted


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


def _response(topics: list[TxnOffsetCommitResponseTopic], version: int) -> TxnOffsetCommitResponse:
    if version < FIRST_VERSION_WITH_LOAD_IN_PROGRESS:
        for partition in (partition for topic in topics for partition in topic.partitions):
            if partition.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = Errors.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=topics)
