"""OffsetForLeaderEpoch (key 23). Served: v2-v4 (v3 replica id, v4 flexible).

Returns the end offset of the largest epoch that is not above the requested one, or -1 / -1 if that
is unknown. Only the leader answers. A current leader epoch that is not ours gives
FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH. `replica_id` makes no difference here: every request
needs Describe on the topic, or ClusterAction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.replica.partition_reader import last_offset_for_leader_epoch
from kmirror.replica.replica_types import EpochEndOffset
from kmirror.server.request import Request
from kmirror.wire.messages import offset_for_leader_epoch as messages

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_offset_for_leader_epoch(apis: KafkaApis, request: Request) -> messages.OffsetForLeaderEpochResponse:
    message: messages.OffsetForLeaderEpochRequest = request.message
    is_cluster_action = apis.authorize(request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    topics: list[messages.OffsetForLeaderTopicResult] = []
    for topic in message.topics:
        allowed = is_cluster_action or apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        answers = []
        for wanted in topic.partitions:
            end = _end_offset(apis, topic.topic, wanted) if allowed else EpochEndOffset(Errors.TOPIC_AUTHORIZATION_FAILED)
            answers.append(
                messages.EpochEndOffset(
                    error_code=end.error, partition=wanted.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset
                )
            )
        topics.append(messages.OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return messages.OffsetForLeaderEpochResponse(topics=topics)


def _end_offset(apis: KafkaApis, topic: str, wanted: messages.OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = apis.replica_manager.get_partition_or_exception(TopicPartition(topic, wanted.partition))
    except ApiException as error:
        return EpochEndOffset(error.error)
    current = None if wanted.current_leader_epoch == -1 else wanted.current_leader_epoch
    return last_offset_for_leader_epoch(partition, current_leader_epoch=current, leader_epoch=wanted.leader_epoch)
