"""ListOffsets (key 2).

Served: v1-v11.

    v2   isolation level                    v8   earliest local timestamp (KIP-405)
    v4   leader epochs (KIP-320)            v9   latest tiered timestamp (KIP-1005)
    v5   OFFSET_NOT_AVAILABLE               v10  timeout
    v7   max timestamp (KIP-734)            v11  earliest pending upload (KIP-1023)

Timestamps: -1 latest (the high watermark; the last stable offset for read_committed; the log end
for followers), -2 earliest, -3 the record with the largest timestamp, -4 earliest local (the same
as earliest, since there are no tiers), -5 and -6 (nothing is tiered: offset -1). A consumer is told
no leader epoch above the partition's own (`replica.client_epochs`). Only leaders answer, except to
the replica id -2 (debugging), which any replica answers. A partition that is named twice is
answered once, with INVALID_REQUEST. A negative timestamp that the version does not know answers
UNSUPPORTED_VERSION. Below v5 OFFSET_NOT_AVAILABLE becomes LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.partition_reader import fetch_offset_for_timestamp
from kmirror.replica.replica_types import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID, ListOffsetsResult
from kmirror.server.apis.by_topic import by_topic
from kmirror.server.apis.isolation import check_isolation_level
from kmirror.server.request import Request
from kmirror.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

NO_VERSION = 1 << 15
_FIRST_VERSION = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
FIRST_VERSION_WITH_LEADER_EPOCH = 4
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5


async def handle_list_offsets(apis: KafkaApis, request: Request) -> ListOffsetsResponse:
    message: ListOffsetsRequest = request.message
    if message.topics:
        check_isolation_level(message.isolation_level)
    counts = Counter((topic.name, partition.partition_index) for topic in message.topics for partition in topic.partitions)
    results: dict[TopicPartition, ListOffsetsResult] = {}
    for topic in message.topics:
        allowed = apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if not allowed:
                results[topic_partition] = ListOffsetsResult(Errors.TOPIC_AUTHORIZATION_FAILED)
            elif counts[topic.name, partition.partition_index] > 1:
                results[topic_partition] = ListOffsetsResult(Errors.INVALID_REQUEST)
            else:
                results[topic_partition] = _list_offset(apis, request, topic_partition, partition)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name, partitions=[_partition_response(index, result, request.api_version) for index, result in partitions]
            )
            for name, partitions in by_topic(results).items()
        ]
    )


def _list_offset(apis: KafkaApis, request: Request, topic_partition: TopicPartition, wanted: ListOffsetsPartition) -> ListOffsetsResult:
    message: ListOffsetsRequest = request.message
    if wanted.timestamp < 0 and request.api_version < _FIRST_VERSION.get(wanted.timestamp, NO_VERSION):
        return ListOffsetsResult(Errors.UNSUPPORTED_VERSION)
    try:
        partition = apis.replica_manager.get_partition_or_exception(topic_partition)
    except ApiException as error:
        return ListOffsetsResult(error.error)
    return fetch_offset_for_timestamp(
        partition,
        timestamp=wanted.timestamp,
        isolation_level=message.isolation_level if message.replica_id == CONSUMER_REPLICA_ID else None,
        current_leader_epoch=None if wanted.current_leader_epoch == -1 else wanted.current_leader_epoch,
        fetch_only_leader=message.replica_id != DEBUGGING_REPLICA_ID,
    )


def _partition_response(index: int, result: ListOffsetsResult, api_version: int) -> ListOffsetsPartitionResponse:
    error = result.error
    if error is Errors.OFFSET_NOT_AVAILABLE and api_version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
        error = Errors.LEADER_NOT_AVAILABLE
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=error,
        timestamp=result.timestamp,
        offset=result.offset,
        leader_epoch=result.leader_epoch if api_version >= FIRST_VERSION_WITH_LEADER_EPOCH else -1,
    )
