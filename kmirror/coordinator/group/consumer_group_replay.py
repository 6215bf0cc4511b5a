"""Applies records of consumer groups: the only place where a `ConsumerGroup` changes (Kafka's
`GroupMetadataManager.replay`).

A record is applied in the same way whether it was just written or is read back. Compaction may have
removed any older record of a key. A tombstone for something that does not exist changes nothing. A
group is created by its first record, and replaces a classic group that only has offsets; the
tombstone of its epoch removes it. Neither changes offsets.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from kmirror.common.sentinels import NO_EPOCH
from kmirror.coordinator.group.classic_group import ClassicGroup
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import LEAVE_GROUP_MEMBER_EPOCH, ConsumerGroupMember
from kmirror.coordinator.group.consumer_group_records import current_assignment_changes, subscription_changes
from kmirror.coordinator.group.groups import Groups
from kmirror.coordinator.group.share_group import ShareGroup
from kmirror.coordinator.group.topic_regex import ResolvedRegularExpression
from kmirror.wire.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kmirror.wire.messages.consumer_group_current_member_assignment_value import ConsumerGroupCurrentMemberAssignmentValue
from kmirror.wire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kmirror.wire.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kmirror.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kmirror.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kmirror.wire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kmirror.wire.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from kmirror.wire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kmirror.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kmirror.wire.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kmirror.wire.messages.consumer_group_target_assignment_member_value import ConsumerGroupTargetAssignmentMemberValue
from kmirror.wire.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from kmirror.wire.messages.consumer_group_target_assignment_metadata_value import ConsumerGroupTargetAssignmentMetadataValue


class ConsumerGroupReplay:
    """Applies the records of types 3 to 8 and 16 to the groups of a shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._appliers: dict[type, Any] = {
            ConsumerGroupMetadataKey: self._group_epoch,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._member_metadata,
            ConsumerGroupTargetAssignmentMetadataKey: self._target_assignment_metadata,
            ConsumerGroupTargetAssignmentMemberKey: self._target_assignment_member,
            ConsumerGroupCurrentMemberAssignmentKey: self._current_member_assignment,
            ConsumerGroupRegularExpressionKey: self._regular_expression,
        }

    def replay(self, key: Any, value: Any) -> None:
        """Applies a record; a `value` of None is a tombstone."""
        group = self._group(key.group_id, may_create=value is not None)
        if group is not None:
            self._appliers[type(key)](group, key, value)

    def _group(self, group_id: str, *, may_create: bool) -> ConsumerGroup | None:
        group = self._groups.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if not may_create or isinstance(group, ShareGroup) or (isinstance(group, ClassicGroup) and not group.is_simple):
            return None
        created = self._groups.by_id[group_id] = ConsumerGroup(group_id)
        return created

    def _group_epoch(self, group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is None:
            del self._groups.by_id[group.group_id]
            for topics in group.named_topics():
                self._groups.by_topic.remove(group.group_id, topics)
        else:
            group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash

    def _partition_metadata(
        self, group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
    ) -> None:
        group.has_subscription_metadata_record = value is not None

    def _member_metadata(
        self, group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
        self._groups.by_topic.remove(group.group_id, member.subscribed_topic_names)
        if value is None:
            group.remove_member(key.member_id)
        else:
            changed = structs.replace(member, **subscription_changes(value))
            group.update_member(changed)
            self._groups.by_topic.add(group.group_id, changed.subscribed_topic_names)

    def _target_assignment_metadata(
        self,
        group: ConsumerGroup,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        group.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _target_assignment_member(
        self, group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            group.target_assignments.pop(key.member_id, None)
        else:
            group.target_assignments[key.member_id] = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}

    def _current_member_assignment(
        self,
        group: ConsumerGroup,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        member = group.members.get(key.member_id)
        if value is not None:
            group.update_member(structs.replace(member or ConsumerGroupMember(key.member_id), **current_assignment_changes(value)))
        elif member is not None:
            gone = LEAVE_GROUP_MEMBER_EPOCH
            left = structs.replace(
                member, member_epoch=gone, previous_member_epoch=gone, assigned_partitions={}, partitions_pending_revocation={}
            )
            group.update_member(left)

    def _regular_expression(
        self, group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        before = group.resolved_regular_expressions.pop(key.regular_expression, None)
        if before is not None:
            self._groups.by_topic.remove(group.group_id, before.topics)
        if value is not None:
            resolved = ResolvedRegularExpression(tuple(sorted(value.topics)), value.version, value.timestamp)
            group.resolved_regular_expressions[key.regular_expression] = resolved
            self._groups.by_topic.add(group.group_id, resolved.topics)
