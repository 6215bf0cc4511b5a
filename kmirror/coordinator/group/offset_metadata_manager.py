"""Committed offsets of one shard: OffsetCommit, OffsetFetch, OffsetDelete and expiry (Kafka's `OffsetMetadataManager`).

Offsets live by group, topic and partition, and change only in `replay_*`. A group that was never joined ("simple") comes
into being with its first commit.

A transactional commit is pending, by its producer, until the transaction's marker is replayed: COMMIT moves it to the offsets
unless a newer record was committed meanwhile, ABORT forgets it. While it is pending, a fetch that requires stable offsets gets
UNSTABLE_OFFSET_COMMIT and the offset does not expire; a tombstone (deletion) drops it.

Expiry, as Kafka's `OffsetExpirationCondition`: a group with members keeps offsets of
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
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PartitionOffsets = dict[int, OffsetAndMetadata]
GroupTopicPartition = tuple[str, str, int]


class OffsetMetadataManager:
    """Owner of the shard's offsets."""

    def __init__(self, groups: GroupMetadataManager) -> None:
        self._groups = groups
        self._config = groups.config
        self._offsets: dict[str, dict[str, PartitionOffsets]] = {}
        self._pending: dict[int, dict[GroupTopicPartition, OffsetAndMetadata]] = {}
        self._open_transactions: dict[str, dict[tuple[str, int], set[int]]] = {}

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

    def commit_transactional(self, request: TxnOffsetCommitRequest, now_ms: int) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Offsets that count once the producer's transaction commits; to be written in a transactional batch of that producer."""
        self._validate_transactional_commit(request)
        records: list[CoordinatorRecord] = []
        topics: list[TxnOffsetCommitResponseTopic] = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                index, error = partition.partition_index, Errors.NONE
                if len(partition.committed_metadata or "") > self._config.offset_metadata_max_size:
                    error = Errors.OFFSET_METADATA_TOO_LARGE
                else:
                    committed = OffsetAndMetadata(
                        partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now_ms
                    )
                    records.append(offset_commit_record(request.group_id, topic.name, index, committed))
                partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return CoordinatorResult(records, TxnOffsetCommitResponse(topics=topics), atomic=True)

    def _validate_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        group = self._groups.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise ApiException(Errors.ILLEGAL_GENERATION)
            return
        if group.is_in(ClassicGroupState.DEAD):
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        if request.generation_id < 0 and group.is_in(ClassicGroupState.EMPTY):
            return
        if request.generation_id >= 0 or request.member_id or request.group_instance_id is not None:
            group.validate_member(request.member_id, request.group_instance_id, "txn-offset-commit")
            if request.generation_id != group.generation_id:
                raise ApiException(Errors.ILLEGAL_GENERATION)

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

    def has_open_transaction(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transactional commit of this partition is pending, so that its offset is not stable."""
        return (topic, partition) in self._open_transactions.get(group_id, {})

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
                if not subscribed and self._has_commit(request.group_id, topic.name, index):
                    records.append(offset_commit_tombstone(request.group_id, topic.name, index))
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return CoordinatorResult(records, OffsetDeleteResponse(topics=topics))

    def _has_commit(self, group_id: str, topic: str, partition: int) -> bool:
        return self.offset(group_id, topic, partition) is not None or self.has_open_transaction(group_id, topic, partition)

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """What deletes every offset of a group, pending ones too."""
        committed = [(topic, partition) for topic, partitions in self._offsets.get(group_id, {}).items() for partition in partitions]
        pending = [each for each in self._open_transactions.get(group_id, {}) if self.offset(group_id, *each) is None]
        return [offset_commit_tombstone(group_id, topic, partition) for topic, partition in committed + pending]

    def expired(self, group: ClassicGroup, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Tombstones of the group's expired offsets, and whether none is left then."""
        records: list[CoordinatorRecord] = []
        kept = 0
        for topic, partitions in self._offsets.get(group.group_id, {}).items():
            for partition, committed in partitions.items():
                is_stable = not self.has_open_transaction(group.group_id, topic, partition)
                if is_stable and self._is_expired(group, topic, committed, now_ms):
                    records.append(offset_commit_tombstone(group.group_id, topic, partition))
                else:
                    kept += 1
        return records, kept == 0 and group.group_id not in self._open_transactions

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

    def replay_commit(self, offset: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """A commit; pending until the end of the transaction if `producer_id` is not -1."""
        committed = OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id or Uuid.ZERO,
            offset,
        )
        if key.group not in self._groups.groups:
            self._groups.groups[key.group] = ClassicGroup(key.group)
        if producer_id == -1:
            self._offsets.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = committed
            return
        self._pending.setdefault(producer_id, {})[(key.group, key.topic, key.partition)] = committed
        self._open_transactions.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer_id)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """The end of the producer's transaction: its pending offsets count from now on, or never did."""
        for (group_id, topic, partition), pending in self._pending.pop(producer_id, {}).items():
            open_transactions = self._open_transactions[group_id]
            producers = open_transactions[(topic, partition)]
            producers.discard(producer_id)
            if not producers:
                self._forget_open_transactions(group_id, topic, partition)
            existing = self.offset(group_id, topic, partition)
            if committed and (existing is None or pending.record_offset > existing.record_offset):
                self._offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = pending

    def _forget_open_transactions(self, group_id: str, topic: str, partition: int) -> set[int]:
        open_transactions = self._open_transactions.get(group_id, {})
        producers = open_transactions.pop((topic, partition), set())
        if not open_transactions:
            self._open_transactions.pop(group_id, None)
        return producers

    def replay_tombstone(self, key: OffsetCommitKey) -> None:
        topics = self._offsets.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._offsets.pop(key.group, None)
        for producer_id in self._forget_open_transactions(key.group, key.topic, key.partition):
            self._pending[producer_id].pop((key.group, key.topic, key.partition), None)
