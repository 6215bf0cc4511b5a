"""Applies records of share groups: the only place where a `ShareGroup` changes (Kafka's
`GroupMetadataManager.replay`).

A group is created by its first record of any type (the first alteration of its offsets writes no
epoch) and removed by the tombstone of its epoch. Tombstones for something that does not exist
change nothing. If another kind of group has the id, that group stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.groups import Groups
from kmirror.coordinator.group.share_group import ShareGroup, ShareGroupMember, StatePartitions, TopicPartitions
from kmirror.wire.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kmirror.wire.messages.share_group_current_member_assignment_value import ShareGroupCurrentMemberAssignmentValue
from kmirror.wire.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kmirror.wire.messages.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from kmirror.wire.messages.share_group_metadata_key import ShareGroupMetadataKey
from kmirror.wire.messages.share_group_metadata_value import ShareGroupMetadataValue
from kmirror.wire.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kmirror.wire.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from kmirror.wire.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kmirror.wire.messages.share_group_target_assignment_member_value import ShareGroupTargetAssignmentMemberValue
from kmirror.wire.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kmirror.wire.messages.share_group_target_assignment_metadata_value import ShareGroupTargetAssignmentMetadataValue

SHARE_GROUP_RECORDS: dict[int, tuple[type[Any], type[Any]]] = {
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}


class ShareGroupReplay:
    """Applies the records of types 10 to 15 to the groups of a shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._appliers: dict[type, Callable[[ShareGroup, Any, Any], None]] = {
            ShareGroupMemberMetadataKey: self._member_metadata,
            ShareGroupMetadataKey: self._group_metadata,
            ShareGroupTargetAssignmentMetadataKey: self._target_assignment_metadata,
            ShareGroupTargetAssignmentMemberKey: self._target_assignment_member,
            ShareGroupCurrentMemberAssignmentKey: self._current_member_assignment,
            ShareGroupStatePartitionMetadataKey: self._state_partition_metadata,
        }

    def replays(self, key: Any) -> bool:
        """Whether this key belongs to a record of a share group."""
        return type(key) in self._appliers

    def replay(self, key: Any, value: Any) -> None:
        """Applies a record; a `value` of None is a tombstone."""
        group = self._groups.by_id.get(key.group_id)
        if group is None and value is not None:
            group = self._groups.by_id[key.group_id] = ShareGroup(key.group_id)
        if isinstance(group, ShareGroup):
            self._appliers[type(key)](group, key, value)

    def _member_metadata(self, group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None) -> None:
        if value is None:
            group.members.pop(key.member_id, None)
            return
        member = group.members.get(key.member_id) or ShareGroupMember(key.member_id)
        group.members[key.member_id] = structs.replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=tuple(sorted(value.subscribed_topic_names)),
        )

    def _group_metadata(self, group: ShareGroup, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
        if value is None:
            del self._groups.by_id[key.group_id]
        else:
            group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash

    def _target_assignment_metadata(
        self, group: ShareGroup, key: ShareGroupTargetAssignmentMetadataKey, value: ShareGroupTargetAssignmentMetadataValue | None
    ) -> None:
        group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch

    def _target_assignment_member(
        self, group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue | None
    ) -> None:
        """Does nothing: only a broker that assigns partitions needs a member's target, and none
        does here."""

    def _current_member_assignment(
        self, group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member = group.members.get(key.member_id)
        if value is not None:
            group.members[key.member_id] = structs.replace(
                member or ShareGroupMember(key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                assigned_partitions={topic.topic_id: tuple(topic.partitions) for topic in value.assigned_partitions},
            )
        elif member is not None:
            group.members[key.member_id] = structs.replace(
                member, member_epoch=NO_EPOCH, previous_member_epoch=NO_EPOCH, assigned_partitions={}
            )

    def _state_partition_metadata(
        self, group: ShareGroup, key: ShareGroupStatePartitionMetadataKey, value: ShareGroupStatePartitionMetadataValue | None
    ) -> None:
        group.state_partitions = (
            None
            if value is None
            else StatePartitions(
                initializing=_topics(value.initializing_topics),
                initialized=_topics(value.initialized_topics),
                deleting=tuple(topic.topic_id for topic in value.deleting_topics),
            )
        )


def _topics(topics: list[TopicPartitionsInfo]) -> dict[Uuid, TopicPartitions]:
    return {topic.topic_id: TopicPartitions(topic.topic_name, tuple(sorted(topic.partitions))) for topic in topics}
