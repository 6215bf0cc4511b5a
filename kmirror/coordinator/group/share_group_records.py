"""Records of `__consumer_offsets` that share groups need, types 10 to 15, as Kafka 4.3 writes them.

    10  ShareGroupMemberMetadata             a member's subscription
    11  ShareGroupMetadata                   the group epoch and the hash of its topics
    12  ShareGroupTargetAssignmentMetadata   the assignment epoch
    13  ShareGroupTargetAssignmentMember     a member's target
    14  ShareGroupCurrentMemberAssignment    a member's epoch and partitions
    15  ShareGroupStatePartitionMetadata     which partitions have persisted state

All values are version 0. Keys are an int16 type and the key message. Topics are written in the
iteration order of Java's hash tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kmirror.common.java_hash_map import java_hash_map_order, java_uuid_hash
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.share_group import ShareGroup, StatePartitions, TopicPartitions
from kmirror.wire.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kmirror.wire.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kmirror.wire.messages.share_group_metadata_key import ShareGroupMetadataKey
from kmirror.wire.messages.share_group_metadata_value import ShareGroupMetadataValue
from kmirror.wire.messages.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from kmirror.wire.messages.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kmirror.wire.messages.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from kmirror.wire.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from kmirror.wire.primitives import Writer

MEMBER_METADATA = 10
GROUP_METADATA = 11
TARGET_ASSIGNMENT_METADATA = 12
TARGET_ASSIGNMENT_MEMBER = 13
CURRENT_MEMBER_ASSIGNMENT = 14
STATE_PARTITION_METADATA = 15
VALUE_VERSION = 0


def _bytes(prefix: int, message: Any) -> bytes:
    out = Writer()
    message.write(out, VALUE_VERSION)
    return prefix.to_bytes(2, "big", signed=True) + out.to_bytes()


def share_group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(_bytes(GROUP_METADATA, ShareGroupMetadataKey(group_id=group_id)), _bytes(VALUE_VERSION, value))


def state_partitions_record(group_id: str, partitions: StatePartitions, topic_name: Callable[[Uuid], str]) -> CoordinatorRecord:
    """Returns the record of a group's partitions with state. `topic_name` returns the names of
    topics that are being deleted."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(partitions.initializing),
        initialized_topics=_topics(partitions.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=topic_name(topic_id))
            for topic_id in java_hash_map_order(partitions.deleting, java_uuid_hash)
        ],
    )
    key = ShareGroupStatePartitionMetadataKey(group_id=group_id)
    return CoordinatorRecord(_bytes(STATE_PARTITION_METADATA, key), _bytes(VALUE_VERSION, value))


def _topics(topics: Mapping[Uuid, TopicPartitions]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=list(topics[topic_id].partitions))
        for topic_id in java_hash_map_order(topics, java_uuid_hash)
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Returns the records that remove a member: its assignment, its target, its subscription."""
    return [
        CoordinatorRecord(_bytes(CURRENT_MEMBER_ASSIGNMENT, ShareGroupCurrentMemberAssignmentKey(group_id, member_id)), None),
        CoordinatorRecord(_bytes(TARGET_ASSIGNMENT_MEMBER, ShareGroupTargetAssignmentMemberKey(group_id, member_id)), None),
        CoordinatorRecord(_bytes(MEMBER_METADATA, ShareGroupMemberMetadataKey(group_id, member_id)), None),
    ]


def share_group_tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    """Returns the records that delete a group without members."""
    group_id = group.group_id
    return [
        CoordinatorRecord(_bytes(TARGET_ASSIGNMENT_METADATA, ShareGroupTargetAssignmentMetadataKey(group_id=group_id)), None),
        CoordinatorRecord(_bytes(STATE_PARTITION_METADATA, ShareGroupStatePartitionMetadataKey(group_id=group_id)), None),
        CoordinatorRecord(_bytes(GROUP_METADATA, ShareGroupMetadataKey(group_id=group_id)), None),
    ]
