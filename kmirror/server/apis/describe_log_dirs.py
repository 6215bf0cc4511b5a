"""DescribeLogDirs (key 35).

Served: v1-v5 (v3 top-level error, v4 sizes of the volume, v5 cordoned).

There is one result per log directory; an offline one answers KAFKA_STORAGE_ERROR. Sizes are the
bytes of the segments. A null `topics` means all partitions; a topic may be named twice. The offset lag is how far the high
watermark lies ahead of the log's end. For a log that is being moved here (`isFuture`) it is what is
still to be copied. No directory is ever cordoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.server.request import Request
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_describe_log_dirs(apis: KafkaApis, request: Request) -> DescribeLogDirsResponse:
    message: DescribeLogDirsRequest = request.message
    if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED if request.api_version >= 3 else Errors.NONE)
    wanted = None
    if message.topics is not None:
        named = message.topics
        wanted = {(topic.topic, number) for topic in named for number in topic.partitions}
    results = [_describe(apis, log_dir, wanted) for log_dir in apis.replica_manager.log_manager.live_log_dirs]
    live = {result.log_dir for result in results}
    offline = [log_dir for log_dir in apis.config.log_dirs if log_dir not in live]
    results += [DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=log_dir) for log_dir in offline]
    return DescribeLogDirsResponse(results=results)


def _describe(apis: KafkaApis, log_dir: str, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic_partition, log in apis.replica_manager.log_manager.logs_in_dir(log_dir).items():
        name, number = topic_partition
        if wanted is not None and (name, number) not in wanted:
            continue
        topics.setdefault(name, DescribeLogDirsTopic(name=name)).partitions.append(
            DescribeLogDirsPartition(
                partition_index=number,
                partition_size=log.size,
                offset_lag=_offset_lag(apis, log),
                is_future_key=log.is_future,
            )
        )
    total_bytes, usable_bytes = apis.runtime.files.free_bytes(log_dir)
    return DescribeLogDirsResult(log_dir=log_dir, topics=list(topics.values()), total_bytes=total_bytes, usable_bytes=usable_bytes)


def _offset_lag(apis: KafkaApis, log: UnifiedLog) -> int:
    """Returns what a future log has still to copy, or how far the high watermark is ahead of a
    current one.
    """
    current = apis.replica_manager.log_manager.get_log(log.topic_partition)
    if log.is_future:
        return -1 if current is None else current.log_end_offset - log.log_end_offset
    return max(0, log.high_watermark - log.log_end_offset)
