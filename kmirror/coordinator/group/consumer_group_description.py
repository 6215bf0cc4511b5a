"""A consumer group as ConsumerGroupDescribe shows it. Partitions that a member still has to give up
are shown as its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import ConsumerGroupMember
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER_TYPE = 0
CONSUMER_MEMBER_TYPE = 1


def describe_consumer_group(group: ConsumerGroup, default_assignor: str, image: CoordinatorMetadataImage) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_server_assignor() or default_assignor,
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerGroupMember, image: CoordinatorMetadataImage) -> Member:
    owned: dict[Uuid, list[int]] = {}
    for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
        for topic_id, epochs in partitions.items():
            owned.setdefault(topic_id, []).extend(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(owned, image),
        target_assignment=_assignment(group.target_assignments.get(member.member_id, {}), image),
        member_type=CLASSIC_MEMBER_TYPE if member.uses_classic_protocol else CONSUMER_MEMBER_TYPE,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], image: CoordinatorMetadataImage) -> Assignment:
    """Returns the assignment without topics that no longer exist."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(partitions, key=lambda topic_id: topic_id.raw)
            if (name := image.topic_name(topic_id)) is not None
        ]
    )
