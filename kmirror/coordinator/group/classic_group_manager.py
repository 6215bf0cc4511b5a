"""The classic rebalance protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (Kafka's
`GroupMetadataManager`, classic part).

Handlers are synchronous. A join or a sync may be answered much later, after another member's
request or by a timer, so they take a callback, which is kept with the member. If a record must be
stored first, the result's `response` is a function that is called with Errors.NONE when the record
is committed, or with the error of the append. `classic_rebalance` describes rebalances.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.classic_group import (
    UNKNOWN_MEMBER_ID,
    ClassicGroup,
    ClassicGroupMember,
    JoinCallback,
    SyncCallback,
)
from kmirror.coordinator.group.classic_rebalance import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    STABLE,
    ClassicRebalance,
    GroupResult,
    append_error,
    nothing,
)
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_records import group_tombstones
from kmirror.coordinator.group.group_records import empty_group_metadata_record, group_metadata_record
from kmirror.coordinator.group.share_group import ShareGroup
from kmirror.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

KNOWN_MEMBER_ID_REQUIRED_VERSION: Final = 4
SKIP_ASSIGNMENT_VERSION: Final = 9


class ClassicGroupManager(ClassicRebalance):
    """Handles the requests of classic groups of one shard; `ClassicRebalance` carries out what
    follows from them."""

    # -- JoinGroup ---------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, api_version: int, client_id: str, client_host: str, respond: JoinCallback) -> GroupResult:
        """Answers through `respond`, now or when the generation begins."""
        is_unknown_member = request.member_id == UNKNOWN_MEMBER_ID
        group, replaced = self._group_to_join(request.group_id, may_create=is_unknown_member)
        if group is None:
            respond(JoinGroupResponse(member_id=request.member_id, error_code=Errors.UNKNOWN_MEMBER_ID))
            return nothing()
        is_new_group = not self._is_current(group)
        self._groups.by_id[request.group_id] = group
        if not self._accepts(group, request.member_id):
            group.remove(request.member_id)
            respond(JoinGroupResponse(member_id=UNKNOWN_MEMBER_ID, error_code=Errors.GROUP_MAX_SIZE_REACHED))
            result = nothing()
        elif is_unknown_member:
            result = self._join_new(group, request, api_version, client_id, client_host, respond)
        else:
            result = self._join_existing(group, request, client_id, client_host, respond)
        if is_new_group and not result.records:
            return self._store_new_group(group, replaced, respond)
        return result

    def _group_to_join(self, group_id: str, *, may_create: bool) -> tuple[ClassicGroup | None, ConsumerGroup | None]:
        """Returns the classic group, a new one if there is none, and the empty consumer group that
        it replaces."""
        group = self._groups.by_id.get(group_id)
        if isinstance(group, ClassicGroup):
            return group, None
        if not may_create or isinstance(group, ShareGroup):
            return None, None
        return ClassicGroup(group_id, current_state_timestamp_ms=self._clock.time_ms()), group

    def _store_new_group(self, group: ClassicGroup, replaced: ConsumerGroup | None, respond: JoinCallback) -> GroupResult:
        def stored(error: Errors) -> None:
            if error is not Errors.NONE:
                if replaced is None:
                    self._groups.by_id.pop(group.group_id, None)
                else:
                    self._groups.by_id[group.group_id] = replaced
                respond(JoinGroupResponse(error_code=append_error(error)))

        tombstones: list[CoordinatorRecord] = [] if replaced is None else group_tombstones(replaced)
        return CoordinatorResult([*tombstones, empty_group_metadata_record(group)], stored, atomic=True)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        if group.is_in(EMPTY, DEAD):
            return True
        member = group.members.get(member_id)
        if group.is_in(PREPARING):
            waiting = sum(other.awaiting_join is not None for other in group.members.values())
            return (member is not None and member.awaiting_join is not None) or waiting < self._groups.config.max_size
        return member is not None or len(group.members) < self._groups.config.max_size

    def _join_new(
        self, group: ClassicGroup, request: JoinGroupRequest, api_version: int, client_id: str, client_host: str, respond: JoinCallback
    ) -> GroupResult:
        if group.is_in(DEAD):
            respond(JoinGroupResponse(member_id=UNKNOWN_MEMBER_ID, error_code=Errors.COORDINATOR_NOT_AVAILABLE))
            return nothing()
        if not group.supports_protocols(request.protocol_type, {protocol.name for protocol in request.protocols}):
            respond(JoinGroupResponse(member_id=UNKNOWN_MEMBER_ID, error_code=Errors.INCONSISTENT_GROUP_PROTOCOL))
            return nothing()
        new_member_id = self._new_member_id(request.group_instance_id or client_id)
        if request.group_instance_id is not None:
            existing = group.static_members.get(request.group_instance_id)
            if existing is not None:
                return self._update_static(group, request, api_version, existing, new_member_id, respond)
            return self._add_member(group, request, new_member_id, client_id, client_host, respond)
        if api_version >= KNOWN_MEMBER_ID_REQUIRED_VERSION:
            group.pending_join_members[new_member_id] = None
            self._schedule_heartbeat(group, new_member_id, request.session_timeout_ms)
            respond(JoinGroupResponse(member_id=new_member_id, error_code=Errors.MEMBER_ID_REQUIRED))
            return nothing()
        return self._add_member(group, request, new_member_id, client_id, client_host, respond)

    def _join_existing(
        self, group: ClassicGroup, request: JoinGroupRequest, client_id: str, client_host: str, respond: JoinCallback
    ) -> GroupResult:
        member_id = request.member_id
        if group.is_in(DEAD):
            respond(JoinGroupResponse(member_id=member_id, error_code=Errors.COORDINATOR_NOT_AVAILABLE))
            return nothing()
        if not group.supports_protocols(request.protocol_type, {protocol.name for protocol in request.protocols}):
            respond(JoinGroupResponse(member_id=member_id, error_code=Errors.INCONSISTENT_GROUP_PROTOCOL))
            return nothing()
        if member_id in group.pending_join_members:
            return self._add_member(group, request, member_id, client_id, client_host, respond)
        try:
            group.validate_member(member_id, request.group_instance_id, "join-group")
        except ApiException as error:
            respond(JoinGroupResponse(member_id=member_id, error_code=error.error, protocol_type=None, protocol_name=None))
            return nothing()
        member = group.members[member_id]
        unchanged = member.matches([(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols])
        if group.is_in(PREPARING) or not unchanged or (group.is_in(STABLE) and group.leader_id == member_id):
            if group.is_in(EMPTY):
                respond(JoinGroupResponse(member_id=member_id, error_code=Errors.UNKNOWN_MEMBER_ID))
                return nothing()
            self._update_member(member, request, respond)
            return self._maybe_prepare_rebalance(group)
        if group.is_in(EMPTY):
            respond(JoinGroupResponse(member_id=member_id, error_code=Errors.UNKNOWN_MEMBER_ID))
            return nothing()
        respond(self._join_response(group, member_id))
        return nothing()

    def _new_member_id(self, prefix: str) -> str:
        raw = bytearray(self._groups.random.token_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _add_member(
        self, group: ClassicGroup, request: JoinGroupRequest, member_id: str, client_id: str, client_host: str, respond: JoinCallback
    ) -> GroupResult:
        member = ClassicGroupMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=self._rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=[(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols],
            is_new=True,
        )
        if group.is_in(PREPARING) and group.previous_state is EMPTY:
            group.new_member_added = True
        group.add(member, respond)
        self._schedule_heartbeat(group, member_id, self._groups.config.new_member_join_timeout_ms)
        return self._maybe_prepare_rebalance(group)

    def _update_member(self, member: ClassicGroupMember, request: JoinGroupRequest, respond: JoinCallback | None) -> None:
        member.protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
        member.rebalance_timeout_ms = self._rebalance_timeout_ms(request)
        member.session_timeout_ms = request.session_timeout_ms
        if respond is not None:
            member.awaiting_join = respond

    @staticmethod
    def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
        return request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms

    def _update_static(
        self, group: ClassicGroup, request: JoinGroupRequest, api_version: int, old_id: str, new_id: str, respond: JoinCallback
    ) -> GroupResult:
        """Handles the restart of a known static member: if its protocol is unchanged, it keeps its
        assignment and nobody else notices."""
        assert request.group_instance_id is not None, "only static members are replaced"
        current_leader = group.leader_id or ""
        self._timer.cancel(self._heartbeat_key(group.group_id, old_id))
        member = group.replace_static_member(request.group_instance_id, old_id, new_id)
        old = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update_member(member, request, respond)
        self._reschedule_heartbeat(group, member)
        if group.is_in(COMPLETING):
            return self._prepare_rebalance(group)
        if not group.is_in(STABLE):
            return self._maybe_complete_join(group)
        if group.select_protocol() != group.protocol_name:
            return self._maybe_prepare_rebalance(group)

        def stored(error: Errors) -> None:
            if error is not Errors.NONE:
                member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = old
                member.awaiting_join = None
                group.replace_static_member(request.group_instance_id or "", new_id, old_id)
                respond(JoinGroupResponse(member_id=UNKNOWN_MEMBER_ID, error_code=append_error(error)))
                return
            skips = api_version >= SKIP_ASSIGNMENT_VERSION
            is_leader = skips and group.leader_id == new_id
            response = JoinGroupResponse(
                members=group.member_list() if is_leader else [],
                member_id=new_id,
                generation_id=group.generation_id,
                protocol_name=group.protocol_name,
                protocol_type=group.protocol_type,
                leader=(group.leader_id or "") if skips else current_leader,
                skip_assignment=is_leader,
            )
            group.complete_join(member, response)

        assignments = {other.member_id: other.assignment for other in group.members.values()}
        return CoordinatorResult([group_metadata_record(group, assignments)], stored)

    # -- SyncGroup ---------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, respond: SyncCallback) -> GroupResult:
        """Answers through `respond`, now or when the leader's assignment is stored."""
        error = self._validate_sync(group, request)
        if error is not Errors.NONE or group.is_in(PREPARING):
            respond(SyncGroupResponse(error_code=Errors.REBALANCE_IN_PROGRESS if error is Errors.NONE else error))
            return nothing()
        member = group.members[request.member_id]
        if group.is_in(STABLE):
            self._remove_pending_sync(group, request.member_id)
            respond(self._sync_response(group, member))
            self._reschedule_heartbeat(group, member)
            return nothing()
        member.awaiting_sync = respond
        self._remove_pending_sync(group, request.member_id)
        if group.leader_id != request.member_id:
            return nothing()
        given = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

        def stored(error: Errors) -> None:
            if not group.is_in(COMPLETING) or request.generation_id != group.generation_id:
                return
            if error is not Errors.NONE:
                self._fail_syncs(group, append_error(error))
                self._maybe_prepare_rebalance(group)
                return
            for each in group.members.values():
                each.assignment = assignments.get(each.member_id, b"")
            self._propagate_assignments(group)
            group.transition_to(STABLE, self._clock.time_ms())
            self._metrics.classic_rebalance()

        return CoordinatorResult([group_metadata_record(group, assignments)], stored)

    def _validate_sync(self, group: ClassicGroup, request: SyncGroupRequest) -> Errors:
        if group.is_in(EMPTY):
            return Errors.UNKNOWN_MEMBER_ID
        if group.is_in(DEAD):
            return Errors.COORDINATOR_NOT_AVAILABLE
        try:
            group.validate_member(request.member_id, request.group_instance_id, "sync-group")
        except ApiException as error:
            return error.error
        if request.generation_id != group.generation_id:
            return Errors.ILLEGAL_GENERATION
        type_differs = request.protocol_type is not None and request.protocol_type != group.protocol_type
        name_differs = request.protocol_name is not None and request.protocol_name != group.protocol_name
        return Errors.INCONSISTENT_GROUP_PROTOCOL if type_differs or name_differs else Errors.NONE

    # -- Heartbeat and LeaveGroup ------------------------------------------------------------------

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> HeartbeatResponse:
        """Keeps the session alive; REBALANCE_IN_PROGRESS tells the member to join again."""
        if group.is_in(DEAD):
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        group.validate_member(request.member_id, request.group_instance_id, "heartbeat")
        if request.generation_id != group.generation_id:
            raise ApiException(Errors.ILLEGAL_GENERATION)
        if group.is_in(EMPTY):
            raise ApiException(Errors.UNKNOWN_MEMBER_ID)
        self._reschedule_heartbeat(group, group.members[request.member_id])
        return HeartbeatResponse(error_code=Errors.REBALANCE_IN_PROGRESS if group.is_in(PREPARING) else Errors.NONE)

    def leave(self, group: ClassicGroup, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Removes members at once, with one result per member."""
        if group.is_in(DEAD):
            return CoordinatorResult([], LeaveGroupResponse(error_code=Errors.COORDINATOR_NOT_AVAILABLE))
        responses = [self._leave_one(group, member) for member in request.members]
        records = []
        if any(response.error_code == Errors.NONE for response in responses):
            if group.is_in(STABLE, COMPLETING):
                records = self._maybe_prepare_rebalance(group).records
            elif group.is_in(PREPARING):
                records = self._maybe_complete_join(group).records
        return CoordinatorResult(records, LeaveGroupResponse(members=responses))

    def _leave_one(self, group: ClassicGroup, leaving: MemberIdentity) -> MemberResponse:
        member_id = leaving.member_id
        error = Errors.NONE
        if member_id == UNKNOWN_MEMBER_ID:
            found = group.static_members.get(leaving.group_instance_id or "") if leaving.group_instance_id is not None else None
            error = Errors.UNKNOWN_MEMBER_ID if found is None else Errors.NONE
            if found is not None:
                self._remove_member(group, found)
        elif member_id in group.pending_join_members:
            group.remove(member_id)
            self._timer.cancel(self._heartbeat_key(group.group_id, member_id))
        else:
            try:
                group.validate_member(member_id, leaving.group_instance_id, "leave-group")
                self._remove_member(group, member_id)
            except ApiException as refused:
                error = refused.error
        return MemberResponse(member_id=member_id, group_instance_id=leaving.group_instance_id, error_code=error)

    # -- loading, unloading and conversion ---------------------------------------------------------

    def on_loaded(self, group: ClassicGroup) -> None:
        """Gives every member a whole session to report: this broker coordinates the group from now
        on."""
        for member in group.members.values():
            self._reschedule_heartbeat(group, member)
        if len(group.members) > self._groups.config.max_size:
            self._prepare_rebalance(group)  # only the members that rejoin in time stay

    def on_unloaded(self, group: ClassicGroup) -> None:
        """Sends all waiting members to the new coordinator: another broker coordinates from now
        on."""
        self._fail_waiting(group, Errors.NOT_COORDINATOR)
        group.state = DEAD

    def abandon(self, group: ClassicGroup) -> None:
        """Ends the group's timers and tells waiting members to start again: the group became a
        consumer group, or is deleted."""
        self._fail_waiting(group, Errors.REBALANCE_IN_PROGRESS)
        group.state = DEAD
        self._timer.cancel(f"join-{group.group_id}")
        self._timer.cancel(f"sync-{group.group_id}")
        for member_id in [*group.members, *group.pending_join_members]:
            self._timer.cancel(self._heartbeat_key(group.group_id, member_id))

    def adopt(self, group: ClassicGroup, *, rebalance: bool) -> None:
        """Starts the sessions of members of a group that was a consumer group, and a rebalance if
        its assignment is stale."""
        for member in group.members.values():
            self._reschedule_heartbeat(group, member)
        if rebalance:
            self._prepare_rebalance(group)

    @staticmethod
    def _fail_waiting(group: ClassicGroup, error: Errors) -> None:
        for member in group.members.values():
            group.complete_join(member, JoinGroupResponse(member_id=member.member_id, error_code=error))
            group.complete_sync(member, SyncGroupResponse(error_code=error))
