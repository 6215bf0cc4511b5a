"""Moves partitions to other brokers: how a reassignment changes the replica lists (Kafka's
`PartitionReassignmentReplicas` and `PartitionReassignmentRevert`, and the requests of
`ReplicationControlManager` around them).

A reassignment has three steps:

1. One record lists the target replicas, followed by the leaving ones, and names the new and the
   leaving ones (`adding_replicas`, `removing_replicas`).
2. The new replicas catch up. Nothing is written until the ISR without the leaving replicas holds
   every target replica.
3. The record of the ISR change that completes this also drops the leaving replicas and clears both
   lists (`PartitionChangeBuilder`). A leaving leader hands over in that record, under a new leader
   epoch.

If the ISR already fits (another order, fewer replicas), step 3 happens at once. Cancelling restores
the earlier replicas; if only new replicas are in sync, the first old one would have to lead
uncleanly, which the topic must allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.leader_updates import builder_for
from kmirror.controller.mirror_state_topic import check_replication, is_mirror_state_topic
from kmirror.controller.partition_change_builder import Election
from kmirror.metadata.image import TopicImage
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.wire.messages import alter_partition_reassignments as alter
from kmirror.wire.messages import list_partition_reassignments as listing


class PartitionReassignmentReplicas(NamedTuple):
    """The replica lists of a partition while it moves from `current` to `target`."""

    replicas: list[int]
    removing: list[int]
    adding: list[int]

    @classmethod
    def of(cls, current: Sequence[int], target: Sequence[int]) -> PartitionReassignmentReplicas:
        removing = sorted(set(current) - set(target))
        return cls([*target, *removing], removing, sorted(set(target) - set(current)))


class PartitionReassignmentRevert(NamedTuple):
    """The replica lists of a partition once its reassignment is cancelled; `unclean` if none of the
    old replicas is in sync."""

    replicas: list[int]
    isr: list[int]
    unclean: bool

    @classmethod
    def of(cls, partition: PartitionRegistration) -> PartitionReassignmentRevert:
        replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
        isr = [replica for replica in partition.isr if replica not in partition.adding_replicas]
        if not replicas:
            raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas.")
        return cls(replicas, isr or [replicas[0]], not isr)


class PartitionReassignments:
    """Decides about AlterPartitionReassignments and ListPartitionReassignments. `check_assignment`
    refuses impossible replica lists."""

    def __init__(self, state: ControllerState, check_assignment: Callable[[Sequence[int]], None]) -> None:
        self._state = state
        self._check_assignment = check_assignment

    def alter_partition_reassignments(
        self, request: alter.AlterPartitionReassignmentsRequest
    ) -> ControllerResult[alter.AlterPartitionReassignmentsResponse]:
        """Returns one result per partition, and the records of those that may move."""
        if not request.topics:
            return ControllerResult([], alter.AlterPartitionReassignmentsResponse())
        records: list[ApiMessageAndVersion] = []
        response = alter.AlterPartitionReassignmentsResponse(
            error_message=None, allow_replication_factor_change=request.allow_replication_factor_change
        )
        for topic in request.topics:
            results = []
            for target in topic.partitions:
                result = alter.ReassignablePartitionResponse(partition_index=target.partition_index, error_message=None)
                try:
                    records += self._alter_one(topic.name, target, may_change_factor=request.allow_replication_factor_change)
                except ApiException as error:
                    result.error_code = error.error
                    result.error_message = None if error.message == error.error.message else error.message
                results.append(result)
            response.responses.append(alter.ReassignableTopicResponse(name=topic.name, partitions=results))
        return ControllerResult(records, response)

    def _alter_one(self, name: str, target: alter.ReassignablePartition, *, may_change_factor: bool) -> list[ApiMessageAndVersion]:
        topic = self._state.image.topics.by_name.get(name)
        if topic is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        partition = topic.partitions.get(target.partition_index)
        if partition is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{target.partition_index}.")
        if target.replicas is None:
            return self._cancel(topic, target.partition_index, partition)
        return self._change(topic, target.partition_index, partition, target.replicas, may_change_factor=may_change_factor)

    def _cancel(self, topic: TopicImage, partition_id: int, partition: PartitionRegistration) -> list[ApiMessageAndVersion]:
        if not partition.is_reassigning:
            raise ApiException(Errors.NO_REASSIGNMENT_IN_PROGRESS, Errors.NO_REASSIGNMENT_IN_PROGRESS.message)
        revert = PartitionReassignmentRevert.of(partition)
        if revert.unclean and not self._state.unclean_election_enabled(topic.name):
            text = f"Unable to revert partition assignment for {topic.name}:{partition_id} because it would require an unclean leader election."
            raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, text)
        builder = builder_for(self._state, topic.name, topic.id, partition_id, partition)
        builder.target_isr, builder.target_replicas = revert.isr, revert.replicas
        builder.target_removing, builder.target_adding = [], []
        record = builder.build()
        return [] if record is None else [record]

    def _change(
        self, topic: TopicImage, partition_id: int, partition: PartitionRegistration, target: Sequence[int], *, may_change_factor: bool
    ) -> list[ApiMessageAndVersion]:
        self._check_assignment(target)
        if not may_change_factor:
            _check_factor_unchanged(partition, target)
        if is_mirror_state_topic(topic.name):
            check_replication(partition, len(target), self._state.config.mirror_topic_replication_factor)
        moved = PartitionReassignmentReplicas.of(partition.replicas, target)
        builder = builder_for(self._state, topic.name, topic.id, partition_id, partition)
        builder.election = Election.ONLINE
        builder.target_replicas = moved.replicas
        builder.target_removing = moved.removing or None
        builder.target_adding = moved.adding or None
        record = builder.build()
        return [] if record is None else [record]

    def list_partition_reassignments(
        self, request: listing.ListPartitionReassignmentsRequest
    ) -> listing.ListPartitionReassignmentsResponse:
        """Lists the partitions that are moving, of the requested topics (null: of all topics)."""
        response = listing.ListPartitionReassignmentsResponse(error_message=None)
        topics = self._state.image.topics
        if request.topics is None:
            wanted = [(topic, sorted(topic.partitions)) for topic in topics.by_id.values()]
        else:
            wanted = [(topics.by_name[asked.name], asked.partition_indexes) for asked in request.topics if asked.name in topics.by_name]
        for topic, partition_ids in wanted:
            moving = [_ongoing(topic, partition_id) for partition_id in partition_ids if _is_reassigning(topic, partition_id)]
            if moving:
                response.topics.append(listing.OngoingTopicReassignment(name=topic.name, partitions=moving))
        return response


def _is_reassigning(topic: TopicImage, partition_id: int) -> bool:
    partition = topic.partitions.get(partition_id)
    return partition is not None and partition.is_reassigning


def _ongoing(topic: TopicImage, partition_id: int) -> listing.OngoingPartitionReassignment:
    partition = topic.partitions[partition_id]
    return listing.OngoingPartitionReassignment(
        partition_index=partition_id,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )


def _check_factor_unchanged(partition: PartitionRegistration, target: Sequence[int]) -> None:
    """Compares with the number of replicas that the partition will have once a reassignment under
    way is done (KIP-860)."""
    present = len(({*partition.replicas, *partition.adding_replicas}) - set(partition.removing_replicas))
    if present != len(target):
        text = f"The replication factor is changed from {present} to {len(target)}"
        raise ApiException(Errors.INVALID_REPLICATION_FACTOR, text)
