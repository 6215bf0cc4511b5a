"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
on its state (KIP-848's online migration).

To such a member the group looks like a classic one whose leader is another member: the generation
is its member epoch, a join corresponds to a heartbeat of the consumer protocol (subscription and
owned partitions are in the first protocol's metadata), and a sync fetches the coordinator's
assignment. The member is told to rejoin (REBALANCE_IN_PROGRESS) when there is a newer target for
it, when it has to give up partitions, and when partitions that it waits for became free. It is also
told to rejoin when a new target is due, since perhaps only its join computes one (Kafka 4.3 waits
for a heartbeat of the consumer protocol, which never comes if a downgrade is not allowed).

Timers besides the session's: `consumer-group-join-...` from the first REBALANCE_IN_PROGRESS until
it joins, `consumer-group-sync-...` from the join until it syncs.
"""

from __future__ import annotations

from msgspec import Struct, structs

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorResult
from kmirror.coordinator.group.classic_group import CONSUMER_PROTOCOL_TYPE, JoinCallback, SyncCallback
from kmirror.coordinator.group.classic_group_manager import KNOWN_MEMBER_ID_REQUIRED_VERSION
from kmirror.coordinator.group.classic_rebalance import GroupResult, append_error, nothing
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_heartbeat import throw_if_instance_id_is_fenced
from kmirror.coordinator.group.consumer_group_manager import ConsumerGroupManager
from kmirror.coordinator.group.consumer_group_member import ClassicMember, ConsumerGroupMember, MemberState
from kmirror.coordinator.group.consumer_group_migration import GroupMigration, assignment_bytes
from kmirror.coordinator.group.consumer_group_patterns import RegexUpdate, Requester
from kmirror.coordinator.group.consumer_group_timers import join_timeout_key, sync_timeout_key
from kmirror.coordinator.group.consumer_protocol import deserialize_subscription, protocol_version
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_change import GroupChange
from kmirror.coordinator.group.groups import Groups
from kmirror.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kmirror.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kmirror.wire.primitives import ProtocolReadError


class OwnedPartitions(Struct, frozen=True):
    """Partitions of a topic that a member reports as owned."""

    topic_id: Uuid
    partitions: list[int]


class ClassicMembers:
    """Handles the classic protocol's requests to consumer groups."""

    def __init__(self, groups: Groups, consumer: ConsumerGroupManager, migration: GroupMigration) -> None:
        self._groups = groups
        self._consumer = consumer
        self._migration = migration

    # -- JoinGroup ---------------------------------------------------------------------------------

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, api_version: int, requester: Requester, respond: JoinCallback
    ) -> GroupResult:
        """Answers through `respond` when the member's new state is stored; raises ApiException if
        it cannot join."""
        is_unknown = not request.member_id
        member_id = request.member_id or self._groups.new_member_id()
        instance_id = request.group_instance_id
        self._consumer.throw_if_full(group, member_id)
        if not group.supports_classic_protocols(request.protocol_type, [protocol.name for protocol in request.protocols]):
            raise ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
        if is_unknown and instance_id is None and api_version >= KNOWN_MEMBER_ID_REQUIRED_VERSION:
            respond(JoinGroupResponse(member_id=member_id, error_code=Errors.MEMBER_ID_REQUIRED))
            return nothing()
        change = GroupChange()
        replaced = group.static_member(instance_id)
        if instance_id is None:
            member = self._consumer.dynamic_member(group, member_id, joins=True)
        else:
            member = self._consumer.static_member(group, member_id, instance_id, change, joins=is_unknown, is_classic=True)
        subscription = _subscription(request)
        updated = _with_join(member, request, subscription, requester)
        owned = _owned(subscription, self._groups.image)
        if replaced is not None and self._migration.can_downgrade_replacing(group, replaced):
            updated = self._join_as_the_last(group, member, updated, requester, owned, change)
            is_downgraded = True
        else:
            updated = self._consumer.update(group, member, updated, requester, owned, change)
            is_downgraded = False
        response = JoinGroupResponse(
            member_id=member_id,
            generation_id=updated.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        )
        return self._answer_when_stored(group, request, response, change, respond, is_downgraded=is_downgraded)

    def _join_as_the_last(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        requester: Requester,
        owned: list[OwnedPartitions],
        change: GroupChange,
    ) -> ConsumerGroupMember:
        """Converts the group to a classic group: the last member of the consumer protocol came back
        with the classic one."""
        names_changed = self._consumer.update_subscription(group, member, updated, change)
        regex = self._consumer.patterns.update(group, member, updated, requester, change)
        has_changed = names_changed or regex is not RegexUpdate.NO_CHANGE
        epoch = self._consumer.update_group_epoch(group, updated, change, bump=has_changed)
        is_stale = group.assignment_epoch < epoch
        if not is_stale:
            target = group.target_assignment(updated.member_id, updated.instance_id)
            updated = self._consumer.reconcile(
                group, updated, group.assignment_epoch, target, owned, change, has_subscription_changed=has_changed
            )
        self._migration.convert_to_classic_group(group, (), updated, change, rebalance=is_stale)
        return updated

    def _answer_when_stored(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        response: JoinGroupResponse,
        change: GroupChange,
        respond: JoinCallback,
        *,
        is_downgraded: bool,
    ) -> GroupResult:
        group_id, member_id = group.group_id, response.member_id

        def stored(error: Errors) -> None:
            if error is not Errors.NONE:
                respond(JoinGroupResponse(error_code=append_error(error)))
                return
            self._groups.timer.cancel(join_timeout_key(group_id, member_id))
            if not is_downgraded:
                self._consumer.schedule_session_timeout(group_id, member_id, request.session_timeout_ms)
                self._consumer.schedule_sync_timeout(group_id, member_id, request.rebalance_timeout_ms)
            respond(response)

        return CoordinatorResult(change.records, stored, atomic=True, on_appended=change.result(None).on_appended)

    # -- SyncGroup and Heartbeat -------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, respond: SyncCallback) -> GroupResult:
        """Answers with the member's partitions; raises ApiException (REBALANCE_IN_PROGRESS, for
        example) if it must do something else first."""
        member = self._member(group, request.member_id, request.group_instance_id)
        classic = _classic(member)
        _throw_if_generation_differs(member, request.generation_id)
        _throw_if_protocol_differs(member, classic, request.protocol_type, request.protocol_name)
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._consumer.schedule_join_timeout_if_absent(group.group_id, member)
            raise ApiException(
                Errors.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin to catch up.",
            )
        version = protocol_version(classic.protocols[0][1])
        assignment = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned_partitions.items()}

        def stored(error: Errors) -> None:
            if error is not Errors.NONE:
                respond(SyncGroupResponse(error_code=append_error(error)))
                return
            self._groups.timer.cancel(sync_timeout_key(group.group_id, member.member_id))
            self._consumer.schedule_session_timeout(group.group_id, member.member_id, classic.session_timeout_ms)
            respond(
                SyncGroupResponse(
                    protocol_type=request.protocol_type,
                    protocol_name=request.protocol_name,
                    assignment=assignment_bytes(assignment, version, self._groups.image),
                )
            )

        return CoordinatorResult([], stored)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatResponse:
        """Keeps the session alive; REBALANCE_IN_PROGRESS tells the member to join again."""
        member = self._member(group, request.member_id, request.group_instance_id)
        classic = _classic(member)
        _throw_if_generation_differs(member, request.generation_id)
        self._consumer.schedule_session_timeout(group.group_id, member.member_id, classic.session_timeout_ms)
        has_news = (
            member.member_epoch < group.assignment_epoch
            or (group.assignment_epoch < group.group_epoch and self._consumer.is_assignment_due(group))
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting_on_unreleased_partition(member))
        )
        if has_news:
            self._consumer.schedule_join_timeout_if_absent(group.group_id, member)
        return HeartbeatResponse(error_code=Errors.REBALANCE_IN_PROGRESS if has_news else Errors.NONE)

    def _member(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
        if instance_id is None:
            return group.member(member_id)
        member = group.static_member(instance_id)
        if member is None:
            raise ApiException(
                Errors.UNKNOWN_MEMBER_ID, f"Member with instance id {instance_id} is not a member of group {group.group_id}."
            )
        throw_if_instance_id_is_fenced(member, member_id, instance_id)
        return member

    # -- LeaveGroup --------------------------------------------------------------------------------

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Removes members of either protocol at once, with one result per member."""
        leaving: dict[str, ConsumerGroupMember] = {}
        responses = []
        for identity in request.members:
            error = Errors.NONE
            try:
                member = self._leaving_member(group, identity)
                leaving[member.member_id] = member
            except ApiException as refused:
                error = refused.error
            responses.append(MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error))
        return self._consumer.fence_members(group, list(leaving.values()), LeaveGroupResponse(members=responses))

    def _leaving_member(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
        if identity.group_instance_id is None:
            return group.member(identity.member_id)
        member = group.static_member(identity.group_instance_id)
        if member is None:
            raise ApiException(Errors.UNKNOWN_MEMBER_ID, f"Instance id {identity.group_instance_id} is unknown.")
        if identity.member_id:
            throw_if_instance_id_is_fenced(member, identity.member_id, identity.group_instance_id)
        return member


def _classic(member: ConsumerGroupMember) -> ClassicMember:
    if member.classic is None:
        raise ApiException(Errors.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    return member.classic


def _throw_if_generation_differs(member: ConsumerGroupMember, generation_id: int) -> None:
    if member.member_epoch != generation_id:
        raise ApiException(
            Errors.ILLEGAL_GENERATION,
            f"The request generation id {generation_id} is not equal to the member epoch {member.member_epoch} "
            f"of member {member.member_id}.",
        )


def _throw_if_protocol_differs(
    member: ConsumerGroupMember, classic: ClassicMember, protocol_type: str | None, protocol_name: str | None
) -> None:
    expected = classic.protocols[0][0]
    if protocol_type is not None and protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise ApiException(
            Errors.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol type {protocol_type} from member {member.member_id} request is not equal to the group protocol type "
            f"{CONSUMER_PROTOCOL_TYPE}.",
        )
    if protocol_name is not None and protocol_name != expected:
        raise ApiException(
            Errors.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol name {protocol_name} from member {member.member_id} request is not equal to the protocol name {expected} "
            "returned in the join response.",
        )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return deserialize_subscription(bytes(request.protocols[0].metadata))
    except ProtocolReadError as error:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, message) from error


def _with_join(
    member: ConsumerGroupMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, requester: Requester
) -> ConsumerGroupMember:
    """Returns the member, updated from its join. A classic member has its own protocols and uses
    none of the coordinator's assignors."""
    timeout_ms = request.rebalance_timeout_ms
    return structs.replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        client_id=requester.client_id,
        client_host=requester.client_host,
        classic=ClassicMember(
            request.session_timeout_ms, tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
        ),
    )


def _owned(subscription: ConsumerProtocolSubscription, image: CoordinatorMetadataImage) -> list[OwnedPartitions]:
    named = [(image.topic_id(topic.topic), topic.partitions) for topic in subscription.owned_partitions]
    return [OwnedPartitions(topic_id, list(partitions)) for topic_id, partitions in named if topic_id is not None]
