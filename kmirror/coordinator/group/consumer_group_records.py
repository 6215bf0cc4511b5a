"""Records of `__consumer_offsets` that consumer groups need, types 3 to 8 and 16, as Kafka 4.3
writes them.

    3   ConsumerGroupMetadata                   the group epoch and the hash of its topics
    4   ConsumerGroupPartitionMetadata          written by older brokers; only its tombstone is written here
    5   ConsumerGroupMemberMetadata             a member's subscription, and its classic protocols if it speaks that protocol
    6   ConsumerGroupTargetAssignmentMetadata   the assignment epoch and when it was computed
    7   ConsumerGroupTargetAssignmentMember     a member's target
    8   ConsumerGroupCurrentMemberAssignment    a member's epoch, state and partitions
    16  ConsumerGroupRegularExpression          the topics that a pattern names

All values are version 0. Keys are an int16 type and the key message. Lists that are sets in memory
are written sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.assignor import Assignment
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import ClassicMember, ConsumerGroupMember, MemberState, Partitions
from kmirror.coordinator.group.topic_regex import ResolvedRegularExpression
from kmirror.wire.messages.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from kmirror.wire.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kmirror.wire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kmirror.wire.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kmirror.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kmirror.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kmirror.wire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kmirror.wire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kmirror.wire.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from kmirror.wire.messages.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from kmirror.wire.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kmirror.wire.messages.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from kmirror.wire.messages.consumer_group_target_assignment_metadata_value import ConsumerGroupTargetAssignmentMetadataValue
from kmirror.wire.primitives import Writer

GROUP_EPOCH = 3
PARTITION_METADATA = 4
MEMBER_METADATA = 5
TARGET_ASSIGNMENT_METADATA = 6
TARGET_ASSIGNMENT_MEMBER = 7
CURRENT_MEMBER_ASSIGNMENT = 8
REGULAR_EXPRESSION = 16
VALUE_VERSION = 0


class _Message(Protocol):
    def write(self, out: Writer, version: int) -> None: ...


def _bytes(prefix: int, write: Callable[[Writer, int], None]) -> bytes:
    out = Writer()
    write(out, VALUE_VERSION)
    return prefix.to_bytes(2, "big", signed=True) + out.to_bytes()


def _record(kind: int, key: _Message, value: _Message | None) -> CoordinatorRecord:
    return CoordinatorRecord(_bytes(kind, key.write), None if value is None else _bytes(VALUE_VERSION, value.write))


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(GROUP_EPOCH, ConsumerGroupMetadataKey(group_id=group_id), value)


def member_subscription_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )
    return _record(MEMBER_METADATA, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_assignment_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    topics = [TopicPartition(topic_id=topic_id, partitions=sorted(assignment[topic_id])) for topic_id in sorted(assignment, key=_raw)]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return _record(TARGET_ASSIGNMENT_MEMBER, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_assignment_metadata_record(group_id: str, assignment_epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms)
    return _record(TARGET_ASSIGNMENT_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned_partitions),
        partitions_pending_revocation=_topic_partitions(member.partitions_pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(CURRENT_MEMBER_ASSIGNMENT, key, value)


def _topic_partitions(partitions: Partitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions[topic_id]),
            assignment_epochs=[partitions[topic_id][partition] for partition in sorted(partitions[topic_id])],
        )
        for topic_id in sorted(partitions, key=_raw)
    ]


def _raw(topic_id: Uuid) -> bytes:
    return topic_id.raw


def regular_expression_record(group_id: str, pattern: str, resolved: ResolvedRegularExpression) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms)
    return _record(REGULAR_EXPRESSION, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


# -- tombstones ------------------------------------------------------------------------------------


def regular_expression_tombstone(group_id: str, pattern: str) -> CoordinatorRecord:
    return _record(REGULAR_EXPRESSION, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def subscription_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return _record(PARTITION_METADATA, ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return _record(CURRENT_MEMBER_ASSIGNMENT, key, None)


def target_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(TARGET_ASSIGNMENT_MEMBER, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def member_subscription_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return _record(MEMBER_METADATA, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Returns the records that remove one member: its partitions first, then its target, then its
    subscription."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_assignment_tombstone(group_id, member_id),
        member_subscription_tombstone(group_id, member_id),
    ]


def group_tombstones(group: ConsumerGroup, *, renamed: dict[str, str] | None = None) -> list[CoordinatorRecord]:
    """Returns the records that remove a whole group, in Kafka's order. `renamed`: members that
    earlier records put under another id."""
    group_id = group.group_id
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.members]
    return [
        *(current_assignment_tombstone(group_id, member_id) for member_id in member_ids),
        *(target_assignment_tombstone(group_id, member_id) for member_id in member_ids),
        _record(TARGET_ASSIGNMENT_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(member_subscription_tombstone(group_id, member_id) for member_id in member_ids),
        *(regular_expression_tombstone(group_id, pattern) for pattern in group.resolved_regular_expressions),
        subscription_metadata_tombstone(group_id),
        _record(GROUP_EPOCH, ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Returns the records that create a whole group (one that was just converted from a classic
    group), in Kafka's order."""
    group_id = group.group_id
    return [
        *(member_subscription_record(group_id, member) for member in group.members.values()),
        group_epoch_record(group_id, group.group_epoch, group.metadata_hash),
        *(target_assignment_record(group_id, member_id, group.target_assignment(member_id)) for member_id in group.members),
        target_assignment_metadata_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_assignment_record(group_id, member) for member in group.members.values()),
    ]


# -- reading stored values -------------------------------------------------------------------------


def subscription_changes(value: ConsumerGroupMemberMetadataValue) -> dict[str, object]:
    """Returns the fields of a `ConsumerGroupMember` that a member's subscription sets."""
    classic = value.classic_member_metadata
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topic_names": tuple(sorted(set(value.subscribed_topic_names))),
        "subscribed_topic_regex": value.subscribed_topic_regex or "",
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "server_assignor": value.server_assignor,
        "classic": None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms, tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols)
        ),
    }


def current_assignment_changes(value: ConsumerGroupCurrentMemberAssignmentValue) -> dict[str, object]:
    """Returns the fields of a `ConsumerGroupMember` that its current assignment sets. Brokers
    before 4.2 stored no epochs of partitions."""
    default_epoch = max(value.member_epoch, 0)
    return {
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "state": MemberState.of(value.state),
        "assigned_partitions": _partitions(value.assigned_partitions, default_epoch),
        "partitions_pending_revocation": _partitions(value.partitions_pending_revocation, default_epoch),
    }


def _partitions(topics: list[TopicPartitions], default_epoch: int) -> Partitions:
    result: Partitions = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default_epoch] * len(topic.partitions)
        result[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return result
