"""DescribeProducers (key 61, KIP-664). Served: v0.

Describes the producers that this replica's log remembers, with their last sequence and open
transaction. A follower answers, too (the tool's --broker-id). Without a replica here the answer is
NOT_LEADER_OR_FOLLOWER; for a topic that does not exist UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.server.request import Request
from kmirror.storage.producer_state_entry import ProducerStateEntry
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
        text: str | None = None
        problem = topic_name_problem(topic.name)
        if problem is not None:
            error, text = Errors.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}"
        elif not apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic.name):
            error = Errors.TOPIC_AUTHORIZATION_FAILED
        partitions = [
            _describe(apis, TopicPartition(topic.name, number)) if error is Errors.NONE else _failed(number, error, text or error.message)
            for number in topic.partition_indexes
        ]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _failed(number: int, error: Errors, text: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=number, error_code=error, error_message=text)


def _describe(apis: KafkaApis, topic_partition: TopicPartition) -> PartitionResponse:
    try:
        log = apis.replica_manager.get_partition_or_exception(topic_partition).local_log
    except ApiException as error:
        is_unknown = error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
        return _failed(topic_partition.partition, error.error, _unknown_text(apis, topic_partition) if is_unknown else error.message)
    entries = log.producer_state_manager.known_producers
    return PartitionResponse(partition_index=topic_partition.partition, active_producers=[_producer(entry) for entry in entries.values()])


def _unknown_text(apis: KafkaApis, topic_partition: TopicPartition) -> str | None:
    """Returns Kafka's text for an unknown topic; Kafka has none for an unknown partition of a known
    topic.
    """
    is_known = apis.metadata_cache.image.topics.topic(topic_partition.topic) is not None
    return None if is_known else Errors.UNKNOWN_TOPIC_OR_PARTITION.message


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
