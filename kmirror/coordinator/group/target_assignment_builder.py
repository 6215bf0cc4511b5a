"""A new target assignment: the assignor's result, and the records for its changes (Kafka's
`TargetAssignmentBuilder`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.assignor import Assignment, GroupSpec, MemberSpec, PartitionAssignor
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import ConsumerGroupMember
from kmirror.coordinator.group.consumer_group_records import target_assignment_metadata_record, target_assignment_record
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage


class TargetAssignmentResult(NamedTuple):
    records: list[CoordinatorRecord]
    assignments: dict[str, Assignment]


def build_target_assignment(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerGroupMember],
    *,
    group_epoch: int,
    assignor: PartitionAssignor,
    image: CoordinatorMetadataImage,
    now_ms: int,
) -> TargetAssignmentResult:
    """Returns the target of `group_epoch` for `members` (as they will be stored). The assignor may
    raise PartitionAssignorException."""
    specs = {
        member_id: MemberSpec(
            topic_ids=image.topic_ids(group.topics_of(members[member_id])),
            assignment=group.target_assignment(member_id, members[member_id].instance_id),
            instance_id=members[member_id].instance_id,
            rack_id=members[member_id].rack_id,
        )
        for member_id in sorted(members)
    }
    topic_ids = {topic_id for spec in specs.values() for topic_id in spec.topic_ids}
    counts = {topic_id: count for topic_id in topic_ids if (count := image.partition_count(topic_id)) is not None}
    spec = GroupSpec(members=specs, subscription_type=group.subscription_type(members), partition_counts=counts)
    assignments = assignor.assign(spec)
    records = [
        target_assignment_record(group.group_id, member_id, assignments[member_id])
        for member_id in specs
        if assignments[member_id] != group.target_assignments.get(member_id)
    ]
    records.append(target_assignment_metadata_record(group.group_id, group_epoch, now_ms))
    return TargetAssignmentResult(records, assignments)
