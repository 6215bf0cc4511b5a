"""The consumer rebalance protocol (KIP-848): ConsumerGroupHeartbeat in three steps (Kafka's
`GroupMetadataManager`, consumer part).

A member's heartbeat says what it subscribes to and which partitions it owns; the answer says which
ones it should own. Each heartbeat

    1. stores the member's subscription, and bumps the group epoch if the subscription or the
       metadata of the group's topics has changed;
    2. computes a target assignment if the group epoch is ahead of the assignment epoch and the last
       assignment is old enough (`group.consumer.assignment.interval.ms`);
    3. brings the member one step nearer to its target (`CurrentAssignmentBuilder`).

Timers guard against silent members: `session-timeout-<group>-<member>`, and `rebalance-timeout-...`
while a member has to give up partitions. A member whose time is up is removed (fenced): its
partitions are free, and the group epoch goes up. A static member that leaves temporarily (epoch -2)
keeps its partitions until it comes back under the same instance id, or its session ends.

Patterns are not resolved within the heartbeat that brings them (`GroupPatterns`).

Handlers only decide; stored state changes in `ConsumerGroupReplay`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec import structs

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.group.assignor import Assignment, PartitionAssignor, PartitionAssignorException
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_heartbeat import (
    assignment_of,
    is_full_request,
    throw_if_instance_id_is_fenced,
    throw_if_member_epoch_is_invalid,
    with_request,
)
from kmirror.coordinator.group.consumer_group_member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from kmirror.coordinator.group.consumer_group_migration import GroupMigration
from kmirror.coordinator.group.consumer_group_patterns import GroupPatterns, RegexUpdate, Requester
from kmirror.coordinator.group.consumer_group_records import (
    current_assignment_record,
    group_epoch_record,
    member_subscription_record,
    member_tombstones,
    regular_expression_tombstone,
    subscription_metadata_tombstone,
    target_assignment_record,
)
from kmirror.coordinator.group.consumer_group_timers import join_timeout_key, rebalance_timeout_key, session_timeout_key, sync_timeout_key
from kmirror.coordinator.group.current_assignment_builder import CurrentAssignmentBuilder, OwnedTopicPartitions
from kmirror.coordinator.group.group_change import GroupChange
from kmirror.coordinator.group.group_metrics import GroupMetrics
from kmirror.coordinator.group.groups import Groups
from kmirror.coordinator.group.range_assignor import RangeAssignor
from kmirror.coordinator.group.target_assignment_builder import build_target_assignment
from kmirror.coordinator.group.uniform_assignor import UniformAssignor
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_log = logging.getLogger(__name__)
R = TypeVar("R")

ASSIGNORS: Final[dict[str, PartitionAssignor]] = {"uniform": UniformAssignor(), "range": RangeAssignor()}


class ConsumerGroupManager:
    """Handles the requests of consumer groups of one shard."""

    def __init__(self, groups: Groups, migration: GroupMigration, metrics: GroupMetrics) -> None:
        self._groups = groups
        self._migration = migration
        self._metrics = metrics
        self._timer = groups.timer
        self._clock = groups.clock
        self.patterns = GroupPatterns(groups, metrics)

    # -- ConsumerGroupHeartbeat --------------------------------------------------------------------

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, requester: Requester) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Lets a member join, go on, or leave; raises ApiException if the member is not who it
        claims to be, or if its request is invalid."""
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leave(request)
        joins = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        change = GroupChange()
        group = self._migration.consumer_group_for_heartbeat(request.group_id, change, joins=joins)
        self.throw_if_full(group, request.member_id)
        member_id = request.member_id or self._groups.new_member_id()
        if request.instance_id is None:
            member = self.dynamic_member(group, member_id, joins=joins)
        else:
            member = self.static_member(group, member_id, request.instance_id, change, joins=joins, is_classic=False)
        throw_if_member_epoch_is_invalid(member, request.member_epoch, request.topic_partitions)
        updated = with_request(member, request, requester)
        updated = self.update(group, member, updated, requester, request.topic_partitions, change)
        self.schedule_session_timeout(group.group_id, member_id, self._groups.configs.consumer_session_timeout_ms(group.group_id))
        for upgraded_id, timeout_ms in change.session_timeouts_ms.items():
            change.on_appended.append(functools.partial(self.schedule_session_timeout, group.group_id, upgraded_id, timeout_ms))
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=self._groups.configs.consumer_heartbeat_interval_ms(group.group_id),
        )
        if joins or is_full_request(request) or updated.assigned_partitions != member.assigned_partitions:
            response.assignment = assignment_of(updated)
        return change.result(response)

    def update(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        requester: Requester,
        owned: Sequence[OwnedTopicPartitions] | None,
        change: GroupChange,
    ) -> ConsumerGroupMember:
        """Makes the three steps for a member whose subscription changed from `member` to `updated`;
        returns the member after them."""
        names_changed = self.update_subscription(group, member, updated, change)
        regex = self.patterns.update(group, member, updated, requester, change)
        bump = names_changed or regex is RegexUpdate.RESOLVED or change.needs_new_epoch
        epoch = self.update_group_epoch(group, updated, change, bump=bump)
        target_epoch, target = self.update_target_assignment(group, epoch, updated, change)
        has_changed = names_changed or regex is not RegexUpdate.NO_CHANGE
        return self.reconcile(group, updated, target_epoch, target, owned, change, has_subscription_changed=has_changed)

    # -- members -----------------------------------------------------------------------------------

    def throw_if_full(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._groups.config.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise ApiException(Errors.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {limit} members.")

    def dynamic_member(self, group: ConsumerGroup, member_id: str, *, joins: bool) -> ConsumerGroupMember:
        """Returns the member, or a new one if it joins; raises UNKNOWN_MEMBER_ID otherwise."""
        return group.members.get(member_id) or ConsumerGroupMember(member_id) if joins else group.member(member_id)

    def static_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str, change: GroupChange, *, joins: bool, is_classic: bool
    ) -> ConsumerGroupMember:
        """Returns the member of an instance id. One that joins under a new member id replaces its
        former self and takes over its partitions."""
        existing = group.static_member(instance_id)
        if not joins:
            if existing is None:
                raise ApiException(Errors.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            throw_if_instance_id_is_fenced(existing, member_id, instance_id)
            return existing
        if existing is None:
            return group.members.get(member_id) or ConsumerGroupMember(member_id)
        if not is_classic and not existing.uses_classic_protocol and existing.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            raise ApiException(
                Errors.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is owned by "
                f"{existing.member_id} member.",
            )
        member = structs.replace(existing, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        change.records += [
            *member_tombstones(group.group_id, existing.member_id),
            member_subscription_record(group.group_id, member),
            target_assignment_record(group.group_id, member_id, group.target_assignment(existing.member_id)),
            current_assignment_record(group.group_id, member),
        ]
        if existing.member_id != member_id:
            change.on_appended.append(lambda: self.cancel_timers(group.group_id, existing.member_id))
        return member

    # -- step 1: subscription and group epoch ------------------------------------------------------

    def update_subscription(
        self, group: ConsumerGroup, member: ConsumerGroupMember, updated: ConsumerGroupMember, change: GroupChange
    ) -> bool:
        """Stores the member's subscription if it is new; returns whether its topics changed."""
        if updated == member:
            return False
        change.records.append(member_subscription_record(group.group_id, updated))
        return updated.subscribed_topic_names != member.subscribed_topic_names

    def update_group_epoch(self, group: ConsumerGroup, updated: ConsumerGroupMember, change: GroupChange, *, bump: bool) -> int:
        """Returns the group epoch: one higher if `bump` is set or if the metadata of the group's
        topics has changed."""
        if not bump and group.is_metadata_fresh:
            return group.group_epoch
        members = group.members_after(updated)
        metadata_hash = self._groups.image.metadata_hash(group.subscribed_topics(members))
        epoch = group.group_epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            change.records.append(group_epoch_record(group.group_id, epoch, metadata_hash))
            self._metrics.consumer_rebalance()
        if group.has_subscription_metadata_record:
            change.records.append(subscription_metadata_tombstone(group.group_id))
        change.on_appended.append(lambda: self._groups.mark_metadata_fresh(group.group_id))
        return epoch

    # -- step 2: target assignment -----------------------------------------------------------------

    def update_target_assignment(
        self, group: ConsumerGroup, group_epoch: int, updated: ConsumerGroupMember, change: GroupChange
    ) -> tuple[int, Assignment]:
        """Returns the assignment epoch and the member's target in it, newly computed if that is
        due."""
        if group.assignment_epoch >= group_epoch or not self.is_assignment_due(group):
            return group.assignment_epoch, group.target_assignment(updated.member_id, updated.instance_id)
        members = group.members_after(updated)
        name = group.preferred_server_assignor(members) or ""
        if name not in ASSIGNORS:  # no member asked for one, or only for one that the previous broker had
            name = self._groups.config.consumer_assignors[0]
        try:
            result = build_target_assignment(
                group,
                members,
                group_epoch=group_epoch,
                assignor=ASSIGNORS[name],
                image=self._groups.image,
                now_ms=self._clock.time_ms(),
            )
        except PartitionAssignorException as error:
            message = f"Failed to compute a new target assignment for epoch {group_epoch}: {error}"
            raise ApiException(Errors.UNKNOWN_SERVER_ERROR, message) from error
        change.records += result.records
        return group_epoch, result.assignments.get(updated.member_id, {})

    def is_assignment_due(self, group: ConsumerGroup) -> bool:
        """Whether the last target assignment is old enough for a new one."""
        interval_ms = self._groups.configs.consumer_assignment_interval_ms(group.group_id)
        last_ms = group.assignment_timestamp_ms
        return last_ms == 0 or interval_ms == 0 or self._clock.time_ms() >= last_ms + interval_ms

    # -- step 3: reconciliation --------------------------------------------------------------------

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Assignment,
        owned: Sequence[OwnedTopicPartitions] | None,
        change: GroupChange,
        *,
        has_subscription_changed: bool,
    ) -> ConsumerGroupMember:
        if not has_subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        updated = CurrentAssignmentBuilder(
            member,
            target_assignment_epoch=target_epoch,
            target_assignment=target,
            subscribed_topic_ids=self._groups.image.topic_ids(group.topics_of(member)),
            has_subscription_changed=has_subscription_changed,
            current_partition_epoch=group.current_partition_epoch,
            owned_topic_partitions=owned,
        ).build()
        if updated == member:
            return updated
        change.records.append(current_assignment_record(group.group_id, updated))
        if not updated.uses_classic_protocol:
            if updated.state is MemberState.UNREVOKED_PARTITIONS:
                self.schedule_rebalance_timeout(group.group_id, updated)
            else:
                self._timer.cancel(rebalance_timeout_key(group.group_id, updated.member_id))
        return updated

    # -- leaving and fencing -----------------------------------------------------------------------

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        group = self._groups.consumer_group(request.group_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if request.instance_id is None:
            return self.fence_members(group, [group.member(request.member_id)], response)
        member = group.static_member(request.instance_id)
        if member is None:
            raise ApiException(Errors.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
        throw_if_instance_id_is_fenced(member, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
            return self.fence_members(group, [member], response)
        away = structs.replace(
            member,
            member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH,
            partitions_pending_revocation={},
            assigned_partitions={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned_partitions.items()},
        )
        return CoordinatorResult([current_assignment_record(group.group_id, away)], response, atomic=True)

    def fence_members(self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], response: R) -> CoordinatorResult[R]:
        """Removes members. If only members of the classic protocol are left, the group becomes a
        classic one if that is allowed."""
        member_ids = [member.member_id for member in members]
        if not member_ids:
            return CoordinatorResult([], response)
        change = GroupChange()
        if self._migration.can_downgrade_without(group, member_ids):
            self._migration.convert_to_classic_group(group, member_ids, None, change, rebalance=True)
            return change.result(response)
        left = group.members_after(removed=member_ids)
        used = group.regular_expressions(left)
        for member_id in member_ids:
            change.records += member_tombstones(group.group_id, member_id)
        for pattern in group.regular_expressions():
            if pattern not in used:
                change.records.append(regular_expression_tombstone(group.group_id, pattern))
        metadata_hash = self._groups.image.metadata_hash(group.subscribed_topics(left))
        change.records.append(group_epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))
        for member_id in member_ids:
            change.on_appended.append(functools.partial(self.cancel_timers, group.group_id, member_id))
        return change.result(response)

    def _fence_if_there(self, group_id: str, member_id: str, reason: str) -> CoordinatorResult[None]:
        group = self._groups.by_id.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return CoordinatorResult([], None)
        _log.info("[GroupId %s] Member %s fenced from the group because %s.", group_id, member_id, reason)
        return self.fence_members(group, [group.members[member_id]], None)

    # -- timers ------------------------------------------------------------------------------------

    def schedule_session_timeout(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        key = session_timeout_key(group_id, member_id)
        self._timer.schedule(key, timeout_ms, lambda: self._fence_if_there(group_id, member_id, "the member session expired"))

    def schedule_rebalance_timeout(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Starts the timer until which the member must have left its epoch."""
        member_id, member_epoch, timeout_ms = member.member_id, member.member_epoch, member.rebalance_timeout_ms

        def over() -> CoordinatorResult[None]:
            group = self._groups.by_id.get(group_id)
            present = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if present is None or present.member_epoch != member_epoch:
                return CoordinatorResult([], None)
            return self._fence_if_there(group_id, member_id, f"it failed to transition from epoch {member_epoch} within {timeout_ms}ms")

        self._timer.schedule(rebalance_timeout_key(group_id, member_id), timeout_ms, over)

    def schedule_join_timeout_if_absent(self, group_id: str, member: ConsumerGroupMember) -> None:
        """Starts the timer of a classic member that was told to join again, unless it runs."""
        key = join_timeout_key(group_id, member.member_id)
        reason = "the classic member failed to join within the rebalance timeout"
        if not self._timer.is_scheduled(key):
            self._timer.schedule(key, member.rebalance_timeout_ms, lambda: self._fence_if_there(group_id, member.member_id, reason))

    def schedule_sync_timeout(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Starts the timer of a classic member that joined and has to fetch its assignment."""
        reason = "the member failed to sync within timeout"
        self._timer.schedule(sync_timeout_key(group_id, member_id), timeout_ms, lambda: self._fence_if_there(group_id, member_id, reason))

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for key in (session_timeout_key, rebalance_timeout_key, join_timeout_key, sync_timeout_key):
            self._timer.cancel(key(group_id, member_id))

    def on_loaded(self, group: ConsumerGroup) -> None:
        """Gives every member a whole session to report: this broker coordinates the group from now
        on."""
        timeout_ms = self._groups.configs.consumer_session_timeout_ms(group.group_id)
        for member in group.members.values():
            self.schedule_session_timeout(group.group_id, member.member_id, timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.schedule_rebalance_timeout(group.group_id, member)
