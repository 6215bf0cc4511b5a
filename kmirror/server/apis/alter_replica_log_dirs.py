"""AlterReplicaLogDirs (key 34). Served: v1-v2 (v2 flexible).

Moves replicas of this broker to other log directories (`replica.alter_log_dirs`). The answer comes
when the moves have begun; DescribeLogDirs shows their progress (`isFuture`). A partition that is
not here yet answers REPLICA_NOT_AVAILABLE, and is put into the directory when it arrives. Needs
Alter on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.server.request import Request
from kmirror.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_alter_replica_log_dirs(apis: KafkaApis, request: Request) -> AlterReplicaLogDirsResponse:
    message: AlterReplicaLogDirsRequest = request.message
    if not apis.authorize(request, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED)
    mover = apis.replica_manager.alter_log_dirs
    wanted = {
        TopicPartition(topic.name, partition): log_dir.path.rstrip("/") or "/"
        for log_dir in message.dirs
        for topic in log_dir.topics
        for partition in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for topic_partition, path in wanted.items():
        error = mover.alter_replica_log_dir(topic_partition, path)
        result = results.setdefault(topic_partition.topic, AlterReplicaLogDirTopicResult(topic_name=topic_partition.topic))
        result.partitions.append(AlterReplicaLogDirPartitionResult(topic_partition.partition, error))
    return AlterReplicaLogDirsResponse(results=list(results.values()))
