"""Rebalances of classic groups: the join phase, pending syncs, sessions, and their timers (Kafka's
`GroupMetadataManager`, classic part).

A generation begins when all its members wait for a join response. The leader gets everyone's
metadata, computes the assignment, and sends it with its SyncGroup; the assignment is stored as one
record and then given to all. What can go wrong is that a member stays silent, and a timer guards
each such case:

    join-<group>                the join phase: the rebalance timeout, or the initial delay while
                                first members arrive
    heartbeat-<group>-<member>  a member's session (or a pending member's time to come back with its
                                new id)
    sync-<group>                members that got a join response and never synced

A function that may have to store something returns a `GroupResult`: records, and a function to call
with Errors.NONE when they are committed, or with the error of the append.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kmirror.common.errors import Errors
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.group.classic_group import (
    UNKNOWN_MEMBER_ID,
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
)
from kmirror.coordinator.group.group_metrics import GroupMetrics
from kmirror.coordinator.group.group_records import empty_group_metadata_record
from kmirror.coordinator.group.groups import Groups
from kmirror.wire.messages.join_group import JoinGroupResponse
from kmirror.wire.messages.sync_group import SyncGroupResponse

_log = logging.getLogger(__name__)

OnCommitted = Callable[[Errors], None]
GroupResult = CoordinatorResult[OnCommitted | None]

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD


_APPEND_ERRORS: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.INVALID_FETCH_SIZE: Errors.UNKNOWN_SERVER_ERROR,
}


def nothing() -> GroupResult:
    return CoordinatorResult([], None)


def append_error(error: Errors) -> Errors:
    """Returns the error that a client gets if the group's record could not be appended."""
    return _APPEND_ERRORS.get(error, error)


class ClassicRebalance:
    """Rebalances, syncs and sessions of all classic groups of one shard."""

    def __init__(self, groups: Groups, metrics: GroupMetrics) -> None:
        self._groups = groups
        self._metrics = metrics
        self._timer = groups.timer
        self._clock = groups.clock

    def _is_current(self, group: ClassicGroup) -> bool:
        """Whether the group still exists: it may have been deleted, or converted, while a timer
        ran."""
        return self._groups.by_id.get(group.group_id) is group

    def _join_response(self, group: ClassicGroup, member_id: str) -> JoinGroupResponse:
        """Returns the present generation as one member sees it; only the leader gets the
        members."""
        return JoinGroupResponse(
            members=group.member_list() if group.leader_id == member_id and group.is_in(COMPLETING) else [],
            member_id=member_id,
            generation_id=group.generation_id,
            protocol_name=group.protocol_name,
            protocol_type=group.protocol_type,
            leader=group.leader_id or "",
        )

    # -- the join phase ----------------------------------------------------------------------------

    def _maybe_prepare_rebalance(self, group: ClassicGroup) -> GroupResult:
        return self._prepare_rebalance(group) if group.can_rebalance else self._maybe_complete_join(group)

    def _prepare_rebalance(self, group: ClassicGroup) -> GroupResult:
        if group.is_in(COMPLETING):
            self._fail_syncs(group, Errors.REBALANCE_IN_PROGRESS)
        group.pending_sync_members.clear()
        self._timer.cancel(f"sync-{group.group_id}")
        is_initial = group.is_in(EMPTY)
        group.transition_to(PREPARING, self._clock.time_ms())
        if not is_initial:
            return self._complete_join_or_schedule(group)
        delay_ms = self._groups.config.initial_rebalance_delay_ms
        self._schedule_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        return nothing()

    def _schedule_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def arrived() -> CoordinatorResult[None]:
            if not self._is_current(group) or not group.is_in(PREPARING):
                return CoordinatorResult([], None)
            if group.new_member_added and remaining_ms != 0:
                group.new_member_added = False
                next_delay_ms = min(self._groups.config.initial_rebalance_delay_ms, remaining_ms)
                self._schedule_initial(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
                return CoordinatorResult([], None)
            return self._from_timer(self._complete_join(group))

        self._timer.schedule(f"join-{group.group_id}", delay_ms, arrived)

    def _complete_join_or_schedule(self, group: ClassicGroup) -> GroupResult:
        if group.has_all_members_joined:
            return self._complete_join(group)
        self._schedule_join_timeout(group)
        return nothing()

    def _schedule_join_timeout(self, group: ClassicGroup) -> None:
        def over() -> CoordinatorResult[None]:
            if not self._is_current(group) or not group.is_in(PREPARING):
                return CoordinatorResult([], None)
            return self._from_timer(self._complete_join(group))

        self._timer.schedule(f"join-{group.group_id}", group.rebalance_timeout_ms, over)

    def _maybe_complete_join(self, group: ClassicGroup) -> GroupResult:
        if not group.is_in(PREPARING) or group.previous_state is EMPTY or not group.has_all_members_joined:
            return nothing()
        return self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> GroupResult:
        """Ends the join phase: dynamic members that have not rejoined are removed, and the next
        generation begins."""
        self._timer.cancel(f"join-{group.group_id}")
        for member in [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]:
            group.remove(member.member_id)
            self._timer.cancel(self._heartbeat_key(group.group_id, member.member_id))
        if group.is_in(DEAD):
            return nothing()
        if group.members and not group.maybe_elect_new_joined_leader():
            self._schedule_join_timeout(group)
            return nothing()
        group.init_next_generation(self._clock.time_ms())
        if group.is_in(EMPTY):
            return CoordinatorResult([empty_group_metadata_record(group)], None)
        for member in list(group.members.values()):
            group.complete_join(member, self._join_response(group, member.member_id))
            self._reschedule_heartbeat(group, member)
            member.is_new = False
            group.pending_sync_members[member.member_id] = None
        self._schedule_pending_sync(group)
        return nothing()

    # -- syncs -------------------------------------------------------------------------------------

    @staticmethod
    def _sync_response(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResponse:
        return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment)

    def _propagate_assignments(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            if member.awaiting_sync is not None:
                group.complete_sync(member, self._sync_response(group, member))
                self._reschedule_heartbeat(group, member)

    def _fail_syncs(self, group: ClassicGroup, error: Errors) -> None:
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                group.complete_sync(member, SyncGroupResponse(error_code=error))
                self._reschedule_heartbeat(group, member)

    def _remove_pending_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync_members.pop(member_id, None)
        if not group.pending_sync_members:
            self._timer.cancel(f"sync-{group.group_id}")

    def _schedule_pending_sync(self, group: ClassicGroup) -> None:
        generation_id = group.generation_id

        def over() -> CoordinatorResult[None]:
            if not self._is_current(group) or group.generation_id != generation_id:
                return CoordinatorResult([], None)
            if not group.is_in(COMPLETING, STABLE) or not group.pending_sync_members:
                return CoordinatorResult([], None)
            for member_id in list(group.pending_sync_members):
                group.remove(member_id)
                self._timer.cancel(self._heartbeat_key(group.group_id, member_id))
            return self._from_timer(self._prepare_rebalance(group))

        self._timer.schedule(f"sync-{group.group_id}", group.rebalance_timeout_ms, over)

    # -- sessions ----------------------------------------------------------------------------------

    @staticmethod
    def _heartbeat_key(group_id: str, member_id: str) -> str:
        return f"heartbeat-{group_id}-{member_id}"

    def reschedule_heartbeat(self, group: ClassicGroup, member_id: str) -> None:
        """Extends a member's session: another request (OffsetCommit) showed that it is alive."""
        member = group.members.get(member_id)
        if member is not None and group.is_in(STABLE, PREPARING):
            self._reschedule_heartbeat(group, member)

    def _reschedule_heartbeat(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        self._schedule_heartbeat(group, member.member_id, member.session_timeout_ms)

    def _schedule_heartbeat(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        def expired() -> CoordinatorResult[None]:
            if not self._is_current(group):
                return CoordinatorResult([], None)
            return self._from_timer(self._expire(group, member_id))

        self._timer.schedule(self._heartbeat_key(group.group_id, member_id), timeout_ms, expired)

    def _expire(self, group: ClassicGroup, member_id: str) -> GroupResult:
        if member_id in group.pending_join_members:
            group.remove(member_id)
            return self._maybe_complete_join(group)
        member = group.members.get(member_id)
        if group.is_in(DEAD) or member is None or member.has_satisfied_heartbeat:
            return nothing()
        _log.info("Member %s of group %s has failed, removing it from the group", member_id, group.group_id)
        self._remove_member(group, member_id)
        if group.is_in(STABLE, COMPLETING):
            return self._maybe_prepare_rebalance(group)
        return self._maybe_complete_join(group)

    @staticmethod
    def _from_timer(result: GroupResult) -> CoordinatorResult[None]:
        return CoordinatorResult(result.records, None)

    def _remove_member(self, group: ClassicGroup, member_id: str) -> None:
        self._timer.cancel(self._heartbeat_key(group.group_id, member_id))
        member = group.members[member_id]
        group.complete_join(member, JoinGroupResponse(member_id=UNKNOWN_MEMBER_ID, error_code=Errors.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
