"""One partition of `__consumer_offsets`: groups and offsets, replayed from its records (Kafka's `GroupCoordinatorShard`).

The group's record is written at the end of a rebalance, while the members live in memory; so replaying a group's own new
record changes nothing here, and replaying it after a restart brings the group back. Tombstones remove it either way.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock, Random
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, CoordinatorTimer
from kmirror.coordinator.group.classic_group import ClassicGroup, ClassicGroupState
from kmirror.coordinator.group.group_metadata_manager import GroupConfig, GroupMetadataManager
from kmirror.coordinator.group.group_records import group_from_record, group_metadata_tombstone, read_record
from kmirror.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from kmirror.wire.messages.delete_groups import DeletableGroupResult
from kmirror.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kmirror.wire.messages.group_metadata_key import GroupMetadataKey
from kmirror.wire.messages.group_metadata_value import GroupMetadataValue
from kmirror.wire.messages.list_groups import ListedGroup
from kmirror.wire.messages.offset_commit_key import OffsetCommitKey
from kmirror.wire.messages.offset_commit_value import OffsetCommitValue

CLASSIC_GROUP_TYPE = "Classic"
DESCRIBE_NOT_FOUND_VERSION = 6


class GroupCoordinatorShard:
    """Implements `CoordinatorShard`; requests reach `groups` and `offsets` directly."""

    def __init__(self, config: GroupConfig, *, timer: CoordinatorTimer, clock: Clock, random: Random) -> None:
        self._config = config
        self._timer = timer
        self._clock = clock
        self._loaded = False
        self.groups = GroupMetadataManager(config, timer=timer, clock=clock, random=random)
        self.offsets = OffsetMetadataManager(self.groups)

    # -- CoordinatorShard -------------------------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int, producer_epoch: int) -> None:
        key, value = read_record(record)
        if isinstance(key, OffsetCommitKey):
            if isinstance(value, OffsetCommitValue):
                self.offsets.replay_commit(offset, producer_id, key, value)
            else:
                self.offsets.replay_tombstone(key)
        elif isinstance(value, GroupMetadataValue):
            self._replay_group(key, value)
        else:
            group = self.groups.groups.pop(key.group, None)
            if group is not None:
                group.state = ClassicGroupState.DEAD

    def _replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue) -> None:
        if not self._loaded or key.group not in self.groups.groups:
            self.groups.groups[key.group] = group_from_record(key.group, value)

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.offsets.replay_end_transaction_marker(producer_id, committed=committed)

    def on_loaded(self, now_ms: int) -> None:
        self._loaded = True
        self.groups.on_loaded()
        self._schedule_expiry()

    def on_unloaded(self) -> None:
        self.groups.on_unloaded()

    # -- questions and deletion -------------------------------------------------------------------------------------

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Groups in one of `states` and of one of `types`, case ignored; empty filters let all pass."""
        wanted_states = {state.lower() for state in states}
        if types and CLASSIC_GROUP_TYPE.lower() not in {kind.lower() for kind in types}:
            return []
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC_GROUP_TYPE.lower(),
            )
            for group in self.groups.groups.values()
            if not wanted_states or group.state.value.lower() in wanted_states
        ]

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        """A missing group is Dead; since v6 it is also GROUP_ID_NOT_FOUND."""
        group = self.groups.groups.get(group_id)
        if group is None or group.is_in(ClassicGroupState.DEAD):
            missing = api_version >= DESCRIBE_NOT_FOUND_VERSION
            return DescribedGroup(
                group_id=group_id,
                group_state=ClassicGroupState.DEAD.value,
                error_code=Errors.GROUP_ID_NOT_FOUND if missing else Errors.NONE,
                error_message=f"Group {group_id} not found." if missing else None,
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

    def delete_groups(self, group_ids: Sequence[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        """Delete empty groups with their offsets; each group gets its own result."""
        records: list[CoordinatorRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in group_ids:
            try:
                self._validate_delete(group_id)
            except ApiException as error:
                results.append(DeletableGroupResult(group_id=group_id, error_code=error.error))
                continue
            records += [*self.offsets.tombstones(group_id), group_metadata_tombstone(group_id)]
            results.append(DeletableGroupResult(group_id=group_id))
        return CoordinatorResult(records, results)

    def _validate_delete(self, group_id: str) -> ClassicGroup:
        group = self.groups.groups.get(group_id)
        if group is None or group.is_in(ClassicGroupState.DEAD):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND)
        if not group.is_in(ClassicGroupState.EMPTY):
            raise ApiException(Errors.NON_EMPTY_GROUP)
        return group

    # -- expiry -----------------------------------------------------------------------------------------------------

    def _schedule_expiry(self) -> None:
        self._timer.schedule("expire-group-metadata", self._config.offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> CoordinatorResult[None]:
        """Tombstones for offsets past their retention, and for empty groups that have none left."""
        now_ms = self._clock.time_ms()
        records: list[CoordinatorRecord] = []
        for group in self.groups.groups.values():
            expired, none_left = self.offsets.expired(group, now_ms)
            records += expired
            if none_left and group.is_in(ClassicGroupState.EMPTY):
                records.append(group_metadata_tombstone(group.group_id))
        self._schedule_expiry()
        return CoordinatorResult(records, None)
