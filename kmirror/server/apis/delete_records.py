"""DeleteRecords (key 21). Served: v0-v2 (v2 flexible).

Raises the log start offset (offset -1: to the high watermark) and answers with the low watermark
when all live replicas have done the same. A topic whose only cleanup policy is compaction answers
POLICY_VIOLATION. An internal topic answers INVALID_TOPIC_EXCEPTION unless the client is the admin
client. A read-only mirror partition answers READ_ONLY_TOPIC (NOT_LEADER_OR_FOLLOWER while its state
is not known).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.replica_types import DeleteRecordsResult
from kmirror.server.apis.by_topic import by_topic
from kmirror.server.apis.produce import ADMIN_CLIENT_ID
from kmirror.server.request import Request
from kmirror.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_delete_records(apis: KafkaApis, request: Request) -> DeleteRecordsResponse:
    message: DeleteRecordsRequest = request.message
    results: dict[TopicPartition, DeleteRecordsResult] = {}
    offsets: dict[TopicPartition, int] = {}
    named: dict[TopicPartition, None] = {}
    for topic in message.topics:
        allowed = apis.authorize(request, AclOperation.DELETE, ResourceType.TOPIC, topic.name)
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            named[topic_partition] = None
            if not allowed:
                results[topic_partition] = DeleteRecordsResult(Errors.TOPIC_AUTHORIZATION_FAILED)
            elif not apis.metadata_cache.contains(topic_partition):
                results[topic_partition] = DeleteRecordsResult(Errors.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                offsets[topic_partition] = partition.offset
    if offsets:
        results |= await apis.replica_manager.delete_records(
            message.timeout_ms, offsets, internal_topics_allowed=request.client_id == ADMIN_CLIENT_ID
        )
    topics = [
        DeleteRecordsTopicResult(name=name, partitions=[_partition_result(index, result) for index, result in partitions])
        for name, partitions in by_topic({asked: results[asked] for asked in named}).items()
    ]
    return DeleteRecordsResponse(topics=topics)


def _partition_result(index: int, result: DeleteRecordsResult) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=result.low_watermark, error_code=result.error)
