"""One partition of `__consumer_offsets`: groups and offsets, replayed from its records (Kafka's
`GroupCoordinatorShard`).

Requests go to `groups` and `offsets` directly; deletion and expiry need both and are here.
"""

from __future__ import annotations

from collections.abc import Sequence

from kmirror.common.errors import ApiException
from kmirror.common.ports import Clock, Random
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, CoordinatorTimer
from kmirror.coordinator.group.group_coordinator_config import GroupConfigManager
from kmirror.coordinator.group.group_metadata_manager import GroupMetadataManager
from kmirror.coordinator.group.group_metrics import GroupCounts, GroupMetrics
from kmirror.coordinator.group.group_records import read_record
from kmirror.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from kmirror.coordinator.group.share_group import ShareGroup
from kmirror.wire.messages.delete_groups import DeletableGroupResult
from kmirror.wire.messages.group_metadata_key import GroupMetadataKey
from kmirror.wire.messages.offset_commit_key import OffsetCommitKey


class GroupCoordinatorShard:
    """Implements `CoordinatorShard`; requests go to `groups` and `offsets` directly."""

    def __init__(
        self, configs: GroupConfigManager, *, timer: CoordinatorTimer, clock: Clock, random: Random, metrics: GroupMetrics | None = None
    ) -> None:
        metrics = metrics or GroupMetrics()
        self._timer = timer
        self._clock = clock
        self.groups = GroupMetadataManager(configs, timer=timer, clock=clock, random=random, metrics=metrics)
        self.offsets = OffsetMetadataManager(self.groups.groups, metrics, self.groups.classic.reschedule_heartbeat)

    # -- CoordinatorShard --------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int, producer_epoch: int) -> None:
        """Applies a record. Unknown types (streams groups of other brokers) change nothing here."""
        known = read_record(record)
        if known is None:
            return
        key, value = known
        if isinstance(key, OffsetCommitKey):
            if value is None:
                self.offsets.replay_tombstone(key)
            else:
                self.offsets.replay_commit(offset, producer_id, key, value)
        elif isinstance(key, GroupMetadataKey):
            self.groups.replay_group_metadata(key, value)
        elif self.groups.share_replay.replays(key):
            self.groups.share_replay.replay(key, value)
        else:
            self.groups.replay_consumer_group(key, value)

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.offsets.replay_end_transaction_marker(producer_id, committed=committed)

    def on_loaded(self, now_ms: int) -> None:
        self.groups.on_loaded()
        self._schedule_expiry()

    def on_unloaded(self) -> None:
        self.groups.on_unloaded()

    def count(self, counts: GroupCounts) -> None:
        """Adds this shard's groups and offsets to `counts`."""
        self.groups.count(counts)
        counts.offsets += self.offsets.count

    # -- deletion and expiry -----------------------------------------------------------------------

    def delete_groups(self, group_ids: Sequence[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        """Deletes empty groups with their offsets, with one result per group."""
        records: list[CoordinatorRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in group_ids:
            try:
                group = self.groups.groups.group(group_id)
                group.validate_delete_group()
            except ApiException as error:
                results.append(DeletableGroupResult(group_id=group_id, error_code=error.error))
                continue
            records += [*self.offsets.tombstones(group_id), *self.groups.tombstones(group)]
            results.append(DeletableGroupResult(group_id=group_id))
        return CoordinatorResult(records, results)

    def _schedule_expiry(self) -> None:
        self._timer.schedule("expire-group-metadata", self.groups.groups.config.offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> CoordinatorResult[None]:
        """Returns tombstones for offsets past their retention, and for empty groups that have none
        left."""
        self._schedule_expiry()  # first, since the rest may fail
        now_ms = self._clock.time_ms()
        records: list[CoordinatorRecord] = []
        for group in self.groups.groups.by_id.values():
            if isinstance(group, ShareGroup):
                continue  # it has no consumer offsets, and stays
            expired, none_left = self.offsets.expired(group, now_ms)
            records += expired
            if none_left and group.is_empty:
                records += self.groups.tombstones(group)
        return CoordinatorResult(records, None)
