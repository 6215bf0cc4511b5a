"""Committed offsets of one shard: OffsetCommit, OffsetFetch, OffsetDelete and expiry (Kafka's `OffsetMetadataManager`).

Offsets live by group, topic and partition, and change only in `replay_*`. A group that was never joined ("simple") comes
into being with its first commit. Expiry, as Kafka's `OffsetExpirationCondition`: a group with members keeps offsets of
topics it subscribes to; an empty group that was once joined counts its retention from when it became empty; a simple
group from each commit; a commit with its own expiry time ends then.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.classic_group import ClassicGroup, ClassicGroupState
from kmirror.coordinator.group.group_metadata_manager import GroupMetadataManager
from kmirror.coordinator.group.group_records import (
    NO_EXPIRE_TIMESTAMP,
    OffsetAndMetadata,
    offset_commit_record,
    offset_commit_tombstone,
)
from kmirror.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kmirror.wire.messages.offset_commit_key import OffsetCommitKey
from kmirror.wire.messages.offset_commit_value import OffsetCommitValue
from kmirror.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

PartitionOffsets = dict[int, OffsetAndMetadata]


class OffsetMetadataManager:
    """Owner of the shard's offsets."""

    def __init__(self, groups: GroupMetadataManager) -> None:
        self._groups = groups
        self._config = groups.config
        self._offsets: dict[str, dict[str, PartitionOffsets]] = {}

    # -- OffsetCommit -----------------------------------------------------------------------------------------------

    def commit(self, request: OffsetCommitRequest, now_ms: int) -> CoordinatorResult[OffsetCommitResponse]:
        """Store what the member (or nobody in particular) committed; ApiException when the group refuses."""
        group = self._validate_commit(request)
        expire_ms = NO_EXPIRE_TIMESTAMP if request.retention_time_ms == -1 else now_ms + request.retention_time_ms
        records: list[CoordinatorRecord] = []
        topics: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                error = Errors.NONE
                if len(partition.committed_metadata or "") > self._config.offset_metadata_max_size:
                    error = Errors.OFFSET_METADATA_TOO_LARGE
                else:
                    records.append(self._record(request.group_id, topic, partition, now_ms, expire_ms))
                partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        if request.member_id:
            self._groups.reschedule_heartbeat(group, request.member_id)
        return CoordinatorResult(records, OffsetCommitResponse(topics=topics), atomic=True)

    def _record(
        self, group_id: str, topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition, now_ms: int, expire_ms: int
    ) -> CoordinatorRecord:
        committed = OffsetAndMetadata(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            now_ms,
            expire_ms,
            topic.topic_id,
        )
        return offset_commit_record(group_id, topic.name, partition.partition_index, committed)

    def _validate_commit(self, request: OffsetCommitRequest) -> ClassicGroup:
        generation = request.generation_id_or_member_epoch
        group = self._groups.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                raise ApiException(Errors.ILLEGAL_GENERATION)
            return ClassicGroup(request.group_id)
        if group.is_in(ClassicGroupState.DEAD):
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and group.is_in(ClassicGroupState.EMPTY):
            return group
        if generation >= 0 or request.member_id or request.group_instance_id is not None:
            group.validate_member(request.member_id, request.group_instance_id, "offset-commit")
            if generation != group.generation_id:
                raise ApiException(Errors.ILLEGAL_GENERATION)
        elif not group.is_in(ClassicGroupState.EMPTY):
            raise ApiException(Errors.UNKNOWN_MEMBER_ID)
        if group.is_in(ClassicGroupState.COMPLETING_REBALANCE):
            raise ApiException(Errors.REBALANCE_IN_PROGRESS)
        return group

    # -- OffsetFetch and DescribeGroups -----------------------------------------------------------------------------

    def offset(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        return self._offsets.get(group_id, {}).get(topic, {}).get(partition)

    def offsets(self, group_id: str) -> dict[str, PartitionOffsets]:
        """Everything that the group committed, by topic and partition."""
        return self._offsets.get(group_id, {})

    # -- OffsetDelete and expiry ------------------------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Forget offsets of topics that nobody in the group subscribes to."""
        group = self._groups.groups.get(request.group_id)
        if group is None:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND)
        if group.is_in(ClassicGroupState.DEAD):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND)
        if group.members and group.protocol_type != "consumer":
            raise ApiException(Errors.NON_EMPTY_GROUP)
        records: list[CoordinatorRecord] = []
        topics: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            subscribed = bool(group.members) and group.is_subscribed_to(topic.name)
            error = Errors.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else Errors.NONE
            partitions = []
            for partition in topic.partitions:
                index = partition.partition_index
                if not subscribed and self.offset(request.group_id, topic.name, index) is not None:
                    records.append(offset_commit_tombstone(request.group_id, topic.name, index))
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return CoordinatorResult(records, OffsetDeleteResponse(topics=topics))

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """What deletes every offset of a group."""
        return [
            offset_commit_tombstone(group_id, topic, partition)
            for topic, partitions in self._offsets.get(group_id, {}).items()
            for partition in partitions
        ]

    def expired(self, group: ClassicGroup, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Tombstones of the group's expired offsets, and whether none is left then."""
        records: list[CoordinatorRecord] = []
        kept = 0
        for topic, partitions in self._offsets.get(group.group_id, {}).items():
            for partition, committed in partitions.items():
                if self._is_expired(group, topic, committed, now_ms):
                    records.append(offset_commit_tombstone(group.group_id, topic, partition))
                else:
                    kept += 1
        return records, kept == 0

    def _is_expired(self, group: ClassicGroup, topic: str, committed: OffsetAndMetadata, now_ms: int) -> bool:
        if group.members and not (group.protocol_type == "consumer" and group.subscribed_topics is not None):
            return False
        if group.members and (not group.is_in(ClassicGroupState.STABLE) or group.is_subscribed_to(topic)):
            return False
        if committed.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
            return now_ms >= committed.expire_timestamp_ms
        base_ms = committed.commit_timestamp_ms
        if group.is_in(ClassicGroupState.EMPTY) and group.protocol_type is not None and group.current_state_timestamp_ms is not None:
            base_ms = group.current_state_timestamp_ms
        return now_ms - base_ms >= self._config.offsets_retention_ms

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay_commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        committed = OffsetAndMetadata(
            value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp, value.topic_id or Uuid.ZERO
        )
        if key.group not in self._groups.groups:
            self._groups.groups[key.group] = ClassicGroup(key.group)
        self._offsets.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = committed

    def replay_tombstone(self, key: OffsetCommitKey) -> None:
        topics = self._offsets.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._offsets.pop(key.group, None)
