"""DescribeTopicPartitions (key 75, KIP-966). Served: v0.

Lists topics in alphabetical order from the cursor on, with at most `response_partition_limit`
partitions (and never more than `max.request.partition.size.limit`). When that cuts the list,
`next_cursor` says where to go on. A request that names no topics means all topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors, IllegalArgumentException
from kmirror.metadata.image import TopicImage
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.server.apis.topic_metadata import is_internal, view_partition
from kmirror.server.request import Request
from kmirror.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_describe_topic_partitions(apis: KafkaApis, request: Request) -> DescribeTopicPartitionsResponse:
    message: DescribeTopicPartitionsRequest = request.message
    names = _names(apis, message)
    cursor = message.cursor
    remaining = max(1, min(apis.config.max_request_partition_size_limit, message.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            if message.topics:
                denied.append(DescribeTopicPartitionsResponseTopic(error_code=Errors.TOPIC_AUTHORIZATION_FAILED, name=name))
            continue
        if remaining == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        image = apis.metadata_cache.image.topics.topic(name)
        if image is None:
            error = Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_name_problem(name) is None else Errors.INVALID_TOPIC_EXCEPTION
            operations = apis.auth.authorized_operations(request, ResourceType.TOPIC, name)
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=error, name=name, is_internal=is_internal(name), topic_authorized_operations=operations
                )
            )
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        topic, next_partition = _describe(apis, request, image, first, remaining)
        response.topics.append(topic)
        remaining -= len(topic.partitions)
        if next_partition is not None:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=next_partition)
            break
    response.topics += denied
    return response


def _names(apis: KafkaApis, message: DescribeTopicPartitionsRequest) -> list[str]:
    cursor = message.cursor
    first = "" if cursor is None else cursor.topic_name
    asked = [topic.name for topic in message.topics] or list(apis.metadata_cache.image.topics.by_name)
    names = sorted({name for name in asked if name >= first})
    if cursor is not None and message.topics and cursor.topic_name not in names:
        text = f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}"
        raise ApiException(Errors.INVALID_REQUEST, text)
    if cursor is not None and cursor.partition_index < 0:
        raise ApiException(Errors.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}")
    if cursor is None and "" in names:
        raise IllegalArgumentException("A topic without a name cannot be described")
    return names


def _describe(
    apis: KafkaApis, request: Request, image: TopicImage, first: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Returns at most `limit` of the topic's partitions from `first` on, and the first that did not
    fit.
    """
    numbers = [number for number in sorted(image.partitions) if number >= first]
    partitions = []
    for number in numbers[:limit]:
        registration = image.partitions[number]
        view = view_partition(apis.metadata_cache, registration, request.listener_name)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=view.error,
                partition_index=number,
                leader_id=view.leader_id,
                leader_epoch=registration.leader_epoch,
                replica_nodes=list(registration.replicas),
                isr_nodes=list(registration.isr),
                eligible_leader_replicas=list(registration.elr),
                last_known_elr=list(registration.last_known_elr),
                offline_replicas=view.offline_replicas,
            )
        )
    operations = apis.auth.authorized_operations(request, ResourceType.TOPIC, image.name)
    topic = DescribeTopicPartitionsResponseTopic(
        name=image.name,
        topic_id=image.id,
        is_internal=is_internal(image.name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )
    return topic, numbers[limit] if len(numbers) > limit else None
