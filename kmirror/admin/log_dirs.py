"""AdminClient calls about log directories: what they hold, and moves between a broker's
directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_for
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from kmirror.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica in a log dir: bytes, and how far a future replica is behind."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log dir of a broker; bytes are -1 when the broker does not say."""

    path: str
    error: ApiException | None
    replica_infos: dict[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool = False


async def describe_log_dirs(cluster: AdminRequests, brokers: Iterable[int]) -> dict[int, list[LogDirDescription]]:
    """Returns every log dir of each of `brokers`."""
    result = {}
    for node_id in brokers:
        response = await cluster.ask_node(node_id, DescribeLogDirsRequest(topics=None))
        raise_for(response.error_code, None)
        result[node_id] = [_description(row) for row in response.results]
    return result


async def alter_replica_log_dirs(
    cluster: AdminRequests, assignment: Mapping[tuple[TopicPartition, int], str]
) -> dict[tuple[TopicPartition, int], ApiException | None]:
    """Moves replicas, given by partition and broker, to a log dir of their broker.

    Returns the outcome of each.
    """
    by_broker: dict[int, dict[str, dict[str, list[int]]]] = {}
    for (name, node_id), path in assignment.items():
        by_broker.setdefault(node_id, {}).setdefault(path, {}).setdefault(name.topic, []).append(name.partition)
    result: dict[tuple[TopicPartition, int], ApiException | None] = {}
    for node_id, paths in sorted(by_broker.items()):
        dirs = [
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=p) for topic, p in topics.items()])
            for path, topics in paths.items()
        ]
        response = await cluster.ask_node(node_id, AlterReplicaLogDirsRequest(dirs=dirs))
        for topic in response.results:
            for row in topic.partitions:
                result[TopicPartition(topic.topic_name, row.partition_index), node_id] = error_of(row.error_code, None)
    return result


def _description(row: DescribeLogDirsResult) -> LogDirDescription:
    infos = {
        TopicPartition(topic.name, entry.partition_index): ReplicaInfo(entry.partition_size, entry.offset_lag, entry.is_future_key)
        for topic in row.topics
        for entry in topic.partitions
    }
    return LogDirDescription(row.log_dir, error_of(row.error_code, None), infos, row.total_bytes, row.usable_bytes, row.is_cordoned)
