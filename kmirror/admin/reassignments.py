"""AdminClient on where replicas are and who leads: reassignments and leader elections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_for
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages import alter_partition_reassignments, elect_leaders, list_partition_reassignments


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


class ReassignmentAdmin(AdminRequests):
    """Move partitions between brokers, and leaders between replicas."""

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, list[int] | None], *, allow_replication_factor_change: bool = True
    ) -> dict[TopicPartition, ApiException | None]:
        """Start (or, with None, cancel) the reassignment of each partition; what came of each."""
        topics: dict[str, list[alter_partition_reassignments.ReassignablePartition]] = {}
        for name, replicas in reassignments.items():
            row = alter_partition_reassignments.ReassignablePartition(partition_index=name.partition, replicas=replicas)
            topics.setdefault(name.topic, []).append(row)
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[alter_partition_reassignments.ReassignableTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        response = await self._ask_any(request, self._timeout_ms)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): error_of(row.error_code, row.error_message)
            for topic in response.responses
            for row in topic.partitions
        }

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The reassignments that go on, of `partitions` or of all."""
        topics = None
        if partitions is not None:
            wanted: dict[str, list[int]] = {}
            for name in partitions:
                wanted.setdefault(name.topic, []).append(name.partition)
            topics = [
                list_partition_reassignments.ListPartitionReassignmentsTopics(name=name, partition_indexes=rows)
                for name, rows in wanted.items()
            ]
        request = list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=topics)
        response = await self._ask_any(request, self._timeout_ms)
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): PartitionReassignment(
                list(row.replicas), list(row.adding_replicas), list(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, ApiException | None]:
        """Elect leaders of `partitions` (None: all that need it); what came of each."""
        topic_partitions = None
        if partitions is not None:
            wanted: dict[str, list[int]] = {}
            for name in partitions:
                wanted.setdefault(name.topic, []).append(name.partition)
            topic_partitions = [elect_leaders.TopicPartitions(topic=topic, partitions=rows) for topic, rows in wanted.items()]
        request = elect_leaders.ElectLeadersRequest(
            election_type=int(election_type), topic_partitions=topic_partitions, timeout_ms=self._timeout_ms
        )
        response = await self._ask_any(request, self._timeout_ms)
        raise_for(response.error_code, None)
        return {
            TopicPartition(topic.topic, row.partition_id): error_of(row.error_code, row.error_message)
            for topic in response.replica_election_results
            for row in topic.partition_result
        }
