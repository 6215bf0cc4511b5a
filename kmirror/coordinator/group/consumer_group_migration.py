"""Groups that change their protocol, with or without members (KIP-848's online migration; Kafka's
`GroupMetadataManager`).

    upgrade     A member of the consumer protocol sends a heartbeat to a classic group. An empty
                group is replaced. Members become classic members of a consumer group, with their
                generation as the epoch and their assignments as current and target ones; those that
                wait for a join or a sync are told to rejoin. This is only for groups of the
                "consumer" protocol type.
    downgrade   The last member of the consumer protocol leaves, is fenced, or is replaced by a
                static one of the classic protocol. The group becomes a classic one whose generation
                is the group epoch, and whose assignments are the targets. Then it rebalances,
                unless the target is that of the newest epoch. An empty consumer group is replaced
                when a classic member joins it.

`group.consumer.migration.policy` says which of the two is allowed for groups with members; empty
groups may always be converted. Each conversion is one batch: tombstones for all records of the old
group, then the records of the new one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.assignor import Assignment
from kmirror.coordinator.group.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicGroupMember, ClassicGroupState
from kmirror.coordinator.group.classic_group_manager import ClassicGroupManager
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import ClassicMember, ConsumerGroupMember
from kmirror.coordinator.group.consumer_group_records import group_records, group_tombstones
from kmirror.coordinator.group.consumer_group_timers import member_timer_keys
from kmirror.coordinator.group.consumer_protocol import (
    deserialize_assignment,
    deserialize_subscription,
    protocol_version,
    serialize_assignment,
)
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_change import GroupChange
from kmirror.coordinator.group.group_records import group_metadata_record, group_metadata_tombstone
from kmirror.coordinator.group.groups import Groups
from kmirror.coordinator.group.share_group import ShareGroup
from kmirror.wire.primitives import ProtocolReadError

_log = logging.getLogger(__name__)


class GroupMigration:
    """Converts groups of one shard. Its decisions go into a `GroupChange`."""

    def __init__(self, groups: Groups, classic: ClassicGroupManager) -> None:
        self._groups = groups
        self._classic = classic

    # -- upgrade -----------------------------------------------------------------------------------

    def consumer_group_for_heartbeat(self, group_id: str, change: GroupChange, *, joins: bool) -> ConsumerGroup:
        """Returns the group of a heartbeat; if the member joins, this may be a new or a converted
        one. Raises GROUP_ID_NOT_FOUND if that is impossible."""
        group = self._groups.by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            if not joins:
                raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
            return ConsumerGroup(group_id)
        if not joins or isinstance(group, ShareGroup):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if group.is_empty:
            change.records.append(group_metadata_tombstone(group_id))
            change.on_appended.append(functools.partial(self._classic.abandon, group))
            return ConsumerGroup(group_id)
        return self._convert_to_consumer_group(group, change)

    def _convert_to_consumer_group(self, classic: ClassicGroup, change: GroupChange) -> ConsumerGroup:
        group_id = classic.group_id
        cannot = f"Cannot upgrade classic group {group_id} to consumer group because"
        if not self._groups.config.consumer_migration_policy.is_upgrade_enabled:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"{cannot} online upgrade is disabled.")
        if not classic.uses_consumer_protocol:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"{cannot} the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._groups.config.consumer_max_size:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"{cannot} the group size exceeds the consumer group maximum size.")
        try:
            group = consumer_group_from_classic_group(classic, self._groups.image)
        except ProtocolReadError as error:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"{cannot} the embedded consumer protocol is malformed.") from error
        change.records += [group_metadata_tombstone(group_id), *group_records(group)]
        change.on_appended.append(functools.partial(self._classic.abandon, classic))
        change.session_timeouts_ms = {member_id: member.session_timeout_ms for member_id, member in classic.members.items()}
        change.needs_new_epoch = not classic.is_in(ClassicGroupState.STABLE)  # nobody would finish a rebalance that is under way
        _log.info("[GroupId %s] Converted the classic group to a consumer group.", group_id)
        return group

    # -- downgrade ---------------------------------------------------------------------------------

    def can_downgrade_without(self, group: ConsumerGroup, leaving: Collection[str]) -> bool:
        """Whether only members of the classic protocol are left once `leaving` are gone, and may
        form a classic group."""
        return len(group.members) > len(leaving) and self._can_downgrade(group, leaving, len(group.members) - len(leaving))

    def can_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
        """Like `can_downgrade_without`, when the last member of the consumer protocol comes back as
        a static one of the classic protocol."""
        return not replaced.uses_classic_protocol and self._can_downgrade(group, [replaced.member_id], len(group.members))

    def _can_downgrade(self, group: ConsumerGroup, excluded: Collection[str], size: int) -> bool:
        if not group.all_use_classic_protocol_except(excluded):
            return False
        config = self._groups.config
        if not config.consumer_migration_policy.is_downgrade_enabled:
            _log.info("Cannot downgrade consumer group %s to classic group because the online downgrade is disabled.", group.group_id)
            return False
        return size <= config.max_size

    def convert_to_classic_group(
        self,
        group: ConsumerGroup,
        leaving: Collection[str],
        joining: ConsumerGroupMember | None,
        change: GroupChange,
        *,
        rebalance: bool,
    ) -> ClassicGroup:
        """Returns the classic group of the members that stay. `joining` replaces the member with
        its instance id."""
        renamed: dict[str, str] = {}
        if joining is not None:
            replaced = group.static_member(joining.instance_id)
            assert replaced is not None, f"{joining.member_id} replaces nobody in {group.group_id}"
            renamed[replaced.member_id] = joining.member_id
        members = group.members_after(joining, removed=leaving)
        try:
            classic = self._classic_group(group, members)
        except ProtocolReadError as error:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group.group_id}: {error}.") from error
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        change.records += [*group_tombstones(group, renamed=renamed), group_metadata_record(classic, assignments)]
        change.on_appended.append(lambda: self._put_in_place(group, classic, rebalance=rebalance))
        _log.info("[GroupId %s] Converted the consumer group to a classic group.", group.group_id)
        return classic

    def _put_in_place(self, group: ConsumerGroup, classic: ClassicGroup, *, rebalance: bool) -> None:
        """Puts the classic group in the place of the consumer group. Its record has one protocol
        per member; the group in memory has all."""
        self._groups.by_id[group.group_id] = classic
        for member_id in [*group.members, *classic.members]:
            for key in member_timer_keys(group.group_id, member_id):
                self._groups.timer.cancel(key)
        self._classic.adopt(classic, rebalance=rebalance)

    def _classic_group(self, group: ConsumerGroup, members: dict[str, ConsumerGroupMember]) -> ClassicGroup:
        classic = ClassicGroup(
            group.group_id,
            state=ClassicGroupState.STABLE,
            current_state_timestamp_ms=self._groups.clock.time_ms(),
            generation_id=group.group_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
        )
        for member in members.values():
            assert member.classic is not None, f"{member.member_id} speaks the consumer protocol"
            classic.add(
                ClassicGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocols=list(member.classic.protocols),
                )
            )
        classic.protocol_name = classic.select_protocol()
        classic.subscribed_topics = classic.compute_subscribed_topics()
        for classic_member in classic.members.values():
            target = group.target_assignment(classic_member.member_id, classic_member.group_instance_id)
            version = protocol_version(classic_member.metadata(classic.protocol_name))
            classic_member.assignment = assignment_bytes(target, version, self._groups.image)
        return classic


def consumer_group_from_classic_group(classic: ClassicGroup, image: CoordinatorMetadataImage) -> ConsumerGroup:
    """Returns a consumer group with the members, generation and assignments of a classic group;
    raises ProtocolReadError or GROUP_ID_NOT_FOUND."""
    group = ConsumerGroup(classic.group_id)
    group.group_epoch = group.assignment_epoch = classic.generation_id
    for classic_member in classic.members.values():
        target = _target_of(classic, classic_member, image)
        subscription = deserialize_subscription(classic_member.metadata(_protocol_of(classic, classic_member)))
        member = ConsumerGroupMember(
            classic_member.member_id,
            member_epoch=classic.generation_id,
            previous_member_epoch=classic.generation_id,
            instance_id=classic_member.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=classic_member.rebalance_timeout_ms,
            client_id=classic_member.client_id,
            client_host=classic_member.client_host,
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            assigned_partitions={
                topic_id: dict.fromkeys(sorted(target[topic_id]), classic.generation_id)
                for topic_id in sorted(target, key=lambda topic_id: topic_id.raw)
            },
            classic=ClassicMember(classic_member.session_timeout_ms, tuple(classic_member.protocols)),
        )
        group.target_assignments[member.member_id] = target
        group.update_member(member)
    group.metadata_hash = image.metadata_hash(group.subscribed_topics())
    return group


def _protocol_of(classic: ClassicGroup, member: ClassicGroupMember) -> str:
    """Returns the group's protocol. Before the first generation there is none; then the member's
    favourite one has its subscription."""
    return classic.protocol_name if classic.protocol_name is not None else member.protocols[0][0]


def _target_of(classic: ClassicGroup, member: ClassicGroupMember, image: CoordinatorMetadataImage) -> Assignment:
    if not member.assignment:
        return {}
    assignment = deserialize_assignment(member.assignment)
    if assignment.user_data:
        raise ApiException(
            Errors.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {classic.group_id} to consumer group because an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
        )
    topics = [(image.topic_id(topic.topic), topic.partitions) for topic in assignment.assigned_partitions]
    return {topic_id: frozenset(partitions) for topic_id, partitions in topics if topic_id is not None and partitions}


def assignment_bytes(assignment: Assignment, version: int, image: CoordinatorMetadataImage) -> bytes:
    """Returns an assignment as a classic member reads it, without topics that no longer exist."""
    named = {name: sorted(partitions) for topic_id, partitions in assignment.items() if (name := image.topic_name(topic_id)) is not None}
    return serialize_assignment({name: named[name] for name in sorted(named)}, version)
