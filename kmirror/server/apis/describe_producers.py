"""DescribeProducers (key 61, KIP-664). Served: v0.

The producers that the leader's log remembers, with their last sequence and open transaction. Not the leader:
NOT_LEADER_OR_FOLLOWER; no such topic: UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.server.authorizer import AclOperation, ResourceType
from kmirror.server.request_context import Request
from kmirror.storage.producer_state_entry import ProducerStateEntry
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_describe_producers(apis: KafkaApis, request: Request) -> DescribeProducersResponse:
    message: DescribeProducersRequest = request.message
    topics: list[TopicResponse] = []
    for topic in message.topics:
        error = Errors.NONE
        if topic_name_problem(topic.name) is not None:
            error = Errors.INVALID_TOPIC_EXCEPTION
        elif not apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic.name):
            error = Errors.TOPIC_AUTHORIZATION_FAILED
        partitions = [
            _describe(apis, TopicPartition(topic.name, number))
            if error is Errors.NONE
            else _failed(number, ApiException(error, error.message))
            for number in topic.partition_indexes
        ]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _failed(number: int, error: ApiException) -> PartitionResponse:
    return PartitionResponse(partition_index=number, error_code=error.error, error_message=error.message)


def _describe(apis: KafkaApis, topic_partition: TopicPartition) -> PartitionResponse:
    try:
        log = apis.replica_manager.get_partition_or_exception(topic_partition).leader_log
    except ApiException as error:
        return _failed(topic_partition.partition, error)
    entries = log.producer_state_manager.active_producers
    return PartitionResponse(partition_index=topic_partition.partition, active_producers=[_producer(entry) for entry in entries.values()])


def _producer(entry: ProducerStateEntry) -> ProducerState:
    first_offset = entry.current_txn_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=-1 if first_offset is None else first_offset,
    )


HANDLERS = {ApiKeys.DESCRIBE_PRODUCERS: handle_describe_producers}
