"""All groups of one shard: each request goes to the manager of its group's protocol (Kafka's
`GroupMetadataManager`).

    classic_group_manager       the classic protocol in classic groups
    classic_rebalance           rebalances and timers of classic groups
    consumer_group_manager      the consumer protocol (KIP-848) in consumer groups
    classic_members             classic members of consumer groups that move between the protocols
    consumer_group_migration    groups that change their protocol
    consumer_group_replay       records of consumer groups
    share_group_manager         share groups (KIP-932), as far as their offsets need it
    share_group_replay          records of share groups

A classic group's members are kept in memory, and its record is written at the end of a rebalance.
So replaying a group's own new record changes nothing here, and replaying it after a restart
restores the group. Tombstones remove it in both cases. Consumer groups change only in replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock, Random
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, CoordinatorTimer
from kmirror.coordinator.group.classic_group import ClassicGroup, ClassicGroupState, JoinCallback, SyncCallback
from kmirror.coordinator.group.classic_group_manager import ClassicGroupManager
from kmirror.coordinator.group.classic_members import ClassicMembers
from kmirror.coordinator.group.classic_rebalance import GroupResult
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_description import describe_consumer_group
from kmirror.coordinator.group.consumer_group_manager import ConsumerGroupManager
from kmirror.coordinator.group.consumer_group_migration import GroupMigration
from kmirror.coordinator.group.consumer_group_patterns import Requester
from kmirror.coordinator.group.consumer_group_records import group_tombstones
from kmirror.coordinator.group.consumer_group_replay import ConsumerGroupReplay
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_coordinator_config import GroupConfigManager
from kmirror.coordinator.group.group_metrics import GroupCounts, GroupMetrics
from kmirror.coordinator.group.group_records import group_from_record, group_metadata_tombstone
from kmirror.coordinator.group.groups import Group, Groups
from kmirror.coordinator.group.share_group import ShareGroup
from kmirror.coordinator.group.share_group_manager import ShareGroupManager
from kmirror.coordinator.group.share_group_records import share_group_tombstones
from kmirror.coordinator.group.share_group_replay import ShareGroupReplay
from kmirror.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kmirror.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kmirror.wire.messages.group_metadata_key import GroupMetadataKey
from kmirror.wire.messages.group_metadata_value import GroupMetadataValue
from kmirror.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kmirror.wire.messages.list_groups import ListedGroup
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

CLASSIC_GROUP_TYPE = "classic"
CONSUMER_GROUP_TYPE = "consumer"
SHARE_GROUP_TYPE = "share"
DESCRIBE_NOT_FOUND_VERSION = 6


class GroupMetadataManager:
    """Owner of all groups of one shard."""

    def __init__(
        self, configs: GroupConfigManager, *, timer: CoordinatorTimer, clock: Clock, random: Random, metrics: GroupMetrics | None = None
    ) -> None:
        self.groups = Groups(configs, timer=timer, clock=clock, random=random)
        metrics = metrics or GroupMetrics()
        self.classic = ClassicGroupManager(self.groups, metrics)
        migration = GroupMigration(self.groups, self.classic)
        self.consumer = ConsumerGroupManager(self.groups, migration, metrics)
        self._classic_members = ClassicMembers(self.groups, self.consumer, migration)
        self._replay = ConsumerGroupReplay(self.groups)
        self.share = ShareGroupManager(self.groups)
        self.share_replay = ShareGroupReplay(self.groups)
        self._is_loaded = False

    # -- the rebalance protocols -------------------------------------------------------------------

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, requester: Requester
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        return self.consumer.heartbeat(request, requester)

    def join(self, request: JoinGroupRequest, api_version: int, requester: Requester, respond: JoinCallback) -> GroupResult:
        """Answers through `respond`, now or when the generation begins."""
        group = self.groups.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self._classic_members.join(group, request, api_version, requester, respond)
        if isinstance(group, ShareGroup):
            respond(JoinGroupResponse(member_id="", error_code=Errors.INCONSISTENT_GROUP_PROTOCOL))
            return CoordinatorResult([], None)
        return self.classic.join(request, api_version, requester.client_id, requester.client_host, respond)

    def sync(self, request: SyncGroupRequest, respond: SyncCallback) -> GroupResult:
        """Answers through `respond`, now or when the leader's assignment is stored."""
        group = self.groups.by_id.get(request.group_id)
        if group is None or group.is_empty or isinstance(group, ShareGroup):
            respond(SyncGroupResponse(error_code=Errors.UNKNOWN_MEMBER_ID))
            return CoordinatorResult([], None)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(group, request, respond)
        return self.classic.sync(group, request, respond)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        group = self._group_of_member(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(group, request)
        return self.classic.heartbeat(group, request)

    def leave(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        group = self._group_of_member(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(group, request)
        return self.classic.leave(group, request)

    def _group_of_member(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        group = self.groups.by_id.get(group_id)
        if group is None or isinstance(group, ShareGroup):
            raise ApiException(Errors.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")
        return group

    # -- queries -----------------------------------------------------------------------------------

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Returns the groups in one of `states` and of one of `types`, case ignored; empty filters
        match all."""
        wanted_states = {state.lower().strip() for state in states}
        wanted_types = {kind.lower() for kind in types}
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=_group_type(group),
            )
            for group in self.groups.by_id.values()
        ]
        return [
            group
            for group in listed
            if (not wanted_states or group.group_state.lower() in wanted_states) and (not wanted_types or group.group_type in wanted_types)
        ]

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        """Describes a classic group. A group that is not one is described as Dead, and since v6
        also with GROUP_ID_NOT_FOUND."""
        try:
            group = self.groups.classic_group(group_id)
        except ApiException as error:
            missing = api_version >= DESCRIBE_NOT_FOUND_VERSION
            return DescribedGroup(
                group_id=group_id,
                group_state=ClassicGroupState.DEAD.value,
                error_code=Errors.GROUP_ID_NOT_FOUND if missing else Errors.NONE,
                error_message=error.message if missing else None,
            )
        stable = group.is_in(ClassicGroupState.STABLE)
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if stable and group.protocol_name else b"",
                    member_assignment=member.assignment if stable else b"",
                )
                for member in group.members.values()
            ],
        )

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """Describes a consumer group; raises GROUP_ID_NOT_FOUND for anything else."""
        try:
            group = self.groups.consumer_group(group_id)
        except ApiException as error:
            return DescribedConsumerGroup(group_id=group_id, error_code=error.error, error_message=error.message)
        return describe_consumer_group(group, self.groups.config.consumer_assignors[0], self.groups.image)

    def count(self, counts: GroupCounts) -> None:
        for group in self.groups.by_id.values():
            kind = counts.of_type(_group_type(group))
            kind[group.state.value] = kind.get(group.state.value, 0) + 1

    # -- deletion ----------------------------------------------------------------------------------

    def tombstones(self, group: Group) -> list[CoordinatorRecord]:
        """Returns the records that delete a group, except its offsets. Its timers end when these
        records are replayed."""
        if isinstance(group, ShareGroup):
            return share_group_tombstones(group)
        return group_tombstones(group) if isinstance(group, ConsumerGroup) else [group_metadata_tombstone(group.group_id)]

    # -- replay, loading and unloading -------------------------------------------------------------

    def replay_group_metadata(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self.groups.by_id.get(key.group)
        if value is not None:
            if not self._is_loaded or not isinstance(group, ClassicGroup):
                self.groups.by_id[key.group] = group_from_record(key.group, value)
        elif isinstance(group, ClassicGroup):
            del self.groups.by_id[key.group]
            if self._is_loaded:
                self.classic.abandon(group)

    def replay_consumer_group(self, key: Any, value: Any) -> None:
        self._replay.replay(key, value)

    def on_loaded(self) -> None:
        self._is_loaded = True
        for group in list(self.groups.by_id.values()):
            if isinstance(group, ShareGroup):
                self.share.on_loaded(group)
            elif isinstance(group, ConsumerGroup):
                self.consumer.on_loaded(group)
            else:
                self.classic.on_loaded(group)

    def on_unloaded(self) -> None:
        for group in self.groups.by_id.values():
            if isinstance(group, ClassicGroup):
                self.classic.on_unloaded(group)

    def on_metadata_update(self, image: CoordinatorMetadataImage, changed_topics: Iterable[str], *, has_new_topics: bool) -> None:
        """Makes groups that subscribe to one of `changed_topics` compare their metadata hash at the
        next heartbeat."""
        self.groups.image = image
        if has_new_topics or self.groups.last_image_with_new_topics == -1:
            self.groups.last_image_with_new_topics = image.version
        for topic in changed_topics:
            for group_id in self.groups.by_topic.groups(topic):
                group = self.groups.by_id.get(group_id)
                if isinstance(group, ConsumerGroup):
                    group.is_metadata_fresh = False


def _group_type(group: Group) -> str:
    if isinstance(group, ShareGroup):
        return SHARE_GROUP_TYPE
    return CONSUMER_GROUP_TYPE if isinstance(group, ConsumerGroup) else CLASSIC_GROUP_TYPE
