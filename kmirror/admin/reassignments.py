"""AdminClient calls about where replicas are and who leads: reassignments and leader elections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kmirror.admin.admin_requests import AdminRequests, by_topic, error_of, raise_for
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from kmirror.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kmirror.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics


class ElectionType(IntEnum):
    """`ElectionType`."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """An ongoing reassignment."""

    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


async def alter_partition_reassignments(
    cluster: AdminRequests, reassignments: Mapping[TopicPartition, list[int] | None], *, allow_replication_factor_change: bool = True
) -> dict[TopicPartition, ApiException | None]:
    """Starts (or, with None, cancels) the reassignment of each partition; returns the outcomes."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for name, replicas in reassignments.items():
        row = ReassignablePartition(partition_index=name.partition, replicas=replicas)
        topics.setdefault(name.topic, []).append(row)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=[ReassignableTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): error_of(row.error_code, row.error_message)
        for topic in response.responses
        for row in topic.partitions
    }


async def list_partition_reassignments(
    cluster: AdminRequests, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionReassignment]:
    """Returns the ongoing reassignments, of `partitions` or of all."""
    topics = None
    if partitions is not None:
        topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=rows) for name, rows in by_topic(partitions).items()]
    request = ListPartitionReassignmentsRequest(timeout_ms=cluster.timeout_ms, topics=topics)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): PartitionReassignment(
            list(row.replicas), list(row.adding_replicas), list(row.removing_replicas)
        )
        for topic in response.topics
        for row in topic.partitions
    }


async def elect_leaders(
    cluster: AdminRequests, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ApiException | None]:
    """Elects leaders of `partitions` (None: all that need one); returns the outcomes."""
    topic_partitions = None
    if partitions is not None:
        topic_partitions = [TopicPartitions(topic=topic, partitions=rows) for topic, rows in by_topic(partitions).items()]
    request = ElectLeadersRequest(election_type=int(election_type), topic_partitions=topic_partitions, timeout_ms=cluster.timeout_ms)
    response = await cluster.ask_any(request)
    raise_for(response.error_code, None)
    return {
        TopicPartition(topic.topic, row.partition_id): error_of(row.error_code, row.error_message)
        for topic in response.replica_election_results
        for row in topic.partition_result
    }
