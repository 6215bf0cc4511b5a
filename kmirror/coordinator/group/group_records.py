"""Records of `__consumer_offsets`: offsets (types 0 and 1) and classic groups (type 2); and how a
record of any type is read.

A key is an int16 record type and the key message at version 0; a value is an int16 version and the
value message (Kafka's `GroupCoordinatorRecordHelpers`). They are written as Kafka 4.3 writes them:
OffsetCommitValue v4, or v1 when the client asked for an expiry time; GroupMetadataValue v3.
Consumer groups' records are in `consumer_group_records`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.classic_group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from kmirror.coordinator.group.share_group_replay import SHARE_GROUP_RECORDS
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
from kmirror.wire.messages.group_metadata_key import GroupMetadataKey
from kmirror.wire.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kmirror.wire.messages.offset_commit_key import OffsetCommitKey
from kmirror.wire.messages.offset_commit_value import OffsetCommitValue
from kmirror.wire.primitives import Writer

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION = 1
GROUP_METADATA_VERSION = 3
NO_EXPIRE_TIMESTAMP = -1


class OffsetAndMetadata(Struct, frozen=True):
    """A committed offset. Timestamps are milliseconds; `expire_timestamp_ms` -1 means the group's
    retention decides."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRE_TIMESTAMP
    topic_id: Uuid = Uuid.ZERO
    record_offset: int = -1
    """The offset of its record; -1 while it has none. It decides between a commit and an older
    transactional one that ends later."""


def _prefixed(number: int, write: Callable[[Writer], None]) -> bytes:
    out = Writer()
    write(out)
    return number.to_bytes(2, "big", signed=True) + out.to_bytes()


def offset_commit_key(group_id: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _prefixed(OFFSET_COMMIT, lambda out: key.write(out, OffsetCommitKey.HIGHEST_VERSION))


def group_metadata_key(group_id: str) -> bytes:
    key = GroupMetadataKey(group=group_id)
    return _prefixed(GROUP_METADATA, lambda out: key.write(out, GroupMetadataKey.HIGHEST_VERSION))


def offset_commit_record(group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> CoordinatorRecord:
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP
    version = OFFSET_COMMIT_WITH_EXPIRY_VERSION if has_expiry else OFFSET_COMMIT_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=-1 if has_expiry else committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=Uuid.ZERO if has_expiry else committed.topic_id,
    )
    return CoordinatorRecord(offset_commit_key(group_id, topic, partition), _prefixed(version, lambda out: value.write(out, version)))


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(offset_commit_key(group_id, topic, partition), None)


def group_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(group_metadata_key(group_id), None)


def group_metadata_record(group: ClassicGroup, assignments: dict[str, bytes]) -> CoordinatorRecord:
    """Returns the record of the group at the beginning of a generation, with the assignment that
    its leader gave each member."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name or ""),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.current_state_timestamp_ms is None else group.current_state_timestamp_ms,
        members=members,
    )
    return CoordinatorRecord(
        group_metadata_key(group.group_id), _prefixed(GROUP_METADATA_VERSION, lambda out: value.write(out, GROUP_METADATA_VERSION))
    )


def empty_group_metadata_record(group: ClassicGroup) -> CoordinatorRecord:
    """Returns the record of a group without members (just created, or just emptied)."""
    value = GroupMetadataValue(
        protocol_type="" if group.protocol_type is None else group.protocol_type,
        generation=group.generation_id,
        protocol=None,
        leader=None,
        current_state_timestamp=-1 if group.current_state_timestamp_ms is None else group.current_state_timestamp_ms,
        members=[],
    )
    return CoordinatorRecord(
        group_metadata_key(group.group_id), _prefixed(GROUP_METADATA_VERSION, lambda out: value.write(out, GROUP_METADATA_VERSION))
    )


_KEYS: dict[int, tuple[type[Any], type[Any]]] = {
    LEGACY_OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    **SHARE_GROUP_RECORDS,
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}


def read_record(record: CoordinatorRecord) -> tuple[Any, Any] | None:
    """Returns key and value of one record; a None value is a tombstone. Returns None for an unknown
    type (streams groups)."""
    key_view = memoryview(record.key)
    messages = _KEYS.get(int.from_bytes(key_view[:2], "big", signed=True))
    if messages is None:
        return None
    key_class, value_class = messages
    key, _ = key_class.read(key_view, 2, key_class.HIGHEST_VERSION)
    if record.value is None:
        return key, None
    value_view = memoryview(record.value)
    return key, value_class.read(value_view, 2, int.from_bytes(value_view[:2], "big", signed=True))[0]


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Returns the group that a record describes: its members wait for nothing and are in the
    record's generation."""
    group = ClassicGroup(
        group_id,
        state=ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
        current_state_timestamp_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        generation_id=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
    )
    for member in value.members:
        session_timeout_ms = member.session_timeout
        group.add(
            ClassicGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=session_timeout_ms if member.rebalance_timeout == -1 else member.rebalance_timeout,
                session_timeout_ms=session_timeout_ms,
                protocol_type=value.protocol_type,
                protocols=[(value.protocol or "", bytes(member.subscription))],
                assignment=bytes(member.assignment),
            )
        )
    group.leader_id = value.leader
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
