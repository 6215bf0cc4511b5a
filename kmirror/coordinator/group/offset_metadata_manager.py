"""Committed offsets of one shard: OffsetCommit, OffsetFetch, OffsetDelete and expiry (Kafka's
`OffsetMetadataManager`).

Offsets are kept by group, topic and partition, whatever the group's protocol, and change only in
`replay_*`. A group that was never joined ("simple") is created by its first commit.

A transactional commit is pending under its producer until the transaction's marker is replayed:
COMMIT makes it the offset unless a newer record was committed meanwhile, ABORT drops it. While it
is pending, a fetch that requires stable offsets gets UNSTABLE_OFFSET_COMMIT, and the offset does
not expire; a tombstone (deletion) drops it.

Expiry, by topics that nobody in the group subscribes to (Kafka's `OffsetExpirationCondition`):

    classic, never joined                   retention counts from each commit
    classic, empty                          from when it became empty
    classic "consumer", stable              from each commit
    classic, anything else                  nothing expires
    consumer                                from each commit
    a commit with a time of its own         ends then

A group that is empty and has no offset left is deleted, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, Literal

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.classic_group import ClassicGroup, ClassicGroupState
from kmirror.coordinator.group.consumer_group import CommitPartitionValidator
from kmirror.coordinator.group.group_metrics import GroupMetrics
from kmirror.coordinator.group.group_records import (
    NO_EXPIRE_TIMESTAMP,
    OffsetAndMetadata,
    offset_commit_record,
    offset_commit_tombstone,
)
from kmirror.coordinator.group.groups import Group, Groups
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
GROUP_ID_NOT_FOUND_VERSION = 9


class Unstable(Enum):
    """The result, while a transaction is open, of a fetch that requires stable offsets."""

    UNSTABLE = "unstable"


UNSTABLE: Final = Unstable.UNSTABLE
FetchedOffset = OffsetAndMetadata | Literal[Unstable.UNSTABLE] | None
"""None if nothing was committed."""


def _in_transaction(error: ApiException) -> ApiException:
    """Returns the error for a producer: producers know no member epochs, so a stale one becomes an
    illegal generation."""
    return ApiException(Errors.ILLEGAL_GENERATION) if error.error is Errors.STALE_MEMBER_EPOCH else error


def _retention_base(group: Group) -> int | None:
    """Returns the time in ms from which an offset's retention counts; 0 means its own commit time,
    None that it never expires."""
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
        return 0
    if group.is_empty:
        return group.current_state_timestamp_ms or 0
    knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
    return 0 if knows_topics and group.is_in(ClassicGroupState.STABLE) else None


class OffsetMetadataManager:
    """Owns the shard's offsets."""

    def __init__(self, groups: Groups, metrics: GroupMetrics, on_alive: Callable[[ClassicGroup, str], None]) -> None:
        self._groups = groups
        self._metrics = metrics
        self._on_alive = on_alive
        self._offsets: dict[str, dict[str, PartitionOffsets]] = {}
        self._pending: dict[int, dict[GroupTopicPartition, OffsetAndMetadata]] = {}
        self._open_transactions: dict[str, dict[tuple[str, int], set[int]]] = {}
        self.count = 0
        """How many partitions have a committed offset, over all groups."""

    # -- OffsetCommit ------------------------------------------------------------------------------

    def commit(self, request: OffsetCommitRequest, api_version: int, now_ms: int) -> CoordinatorResult[OffsetCommitResponse]:
        """Stores the offsets that a member, or a client outside the group, committed; raises
        ApiException if the group refuses."""
        validate = self._validate_commit(request, api_version)
        expire_ms = NO_EXPIRE_TIMESTAMP if request.retention_time_ms == -1 else now_ms + request.retention_time_ms
        records: list[CoordinatorRecord] = []
        topics: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                error = Errors.NONE
                if self._is_too_large(partition.committed_metadata):
                    error = Errors.OFFSET_METADATA_TOO_LARGE
                else:
                    if validate is not None:
                        validate(topic.name, topic.topic_id, partition.partition_index)
                    records.append(self._record(request.group_id, topic, partition, now_ms, expire_ms))
                partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error))
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        self._metrics.offset_commits(len(records))
        return CoordinatorResult(records, OffsetCommitResponse(topics=topics), atomic=True)

    def _is_too_large(self, metadata: str | None) -> bool:
        return len(metadata or "") > self._groups.config.offset_metadata_max_size

    def _validate_commit(self, request: OffsetCommitRequest, api_version: int) -> CommitPartitionValidator | None:
        group = self._groups.by_id.get(request.group_id)
        epoch = request.generation_id_or_member_epoch
        if group is None:
            if epoch < 0:
                return None
            if api_version >= GROUP_ID_NOT_FOUND_VERSION:
                raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise ApiException(Errors.ILLEGAL_GENERATION)
        validate = group.validate_offset_commit(
            request.member_id, request.group_instance_id, epoch, is_transactional=False, api_version=api_version
        )
        if isinstance(group, ClassicGroup):
            self._on_alive(group, request.member_id)
        return validate

    def commit_transactional(self, request: TxnOffsetCommitRequest, now_ms: int) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Stores offsets that count once the producer's transaction commits; the records must go
        into a transactional batch of that producer."""
        validate = self._validate_transactional_commit(request)
        records: list[CoordinatorRecord] = []
        topics: list[TxnOffsetCommitResponseTopic] = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                index, error = partition.partition_index, Errors.NONE
                if self._is_too_large(partition.committed_metadata):
                    error = Errors.OFFSET_METADATA_TOO_LARGE
                else:
                    if validate is not None:
                        self._validate_transactional_partition(validate, topic.name, index)
                    committed = OffsetAndMetadata(
                        partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata or "", now_ms
                    )
                    records.append(offset_commit_record(request.group_id, topic.name, index, committed))
                partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error))
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        self._metrics.offset_commits(len(records))
        return CoordinatorResult(records, TxnOffsetCommitResponse(topics=topics), atomic=True)

    def _validate_transactional_commit(self, request: TxnOffsetCommitRequest) -> CommitPartitionValidator | None:
        group = self._groups.by_id.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise ApiException(Errors.ILLEGAL_GENERATION)
            return None
        try:
            return group.validate_offset_commit(
                request.member_id, request.group_instance_id, request.generation_id, is_transactional=True, api_version=-1
            )
        except ApiException as error:
            raise _in_transaction(error) from error

    def _validate_transactional_partition(self, validate: CommitPartitionValidator, topic: str, partition: int) -> None:
        topic_id = self._groups.image.topic_id(topic)
        if topic_id is None:
            raise ApiException(Errors.ILLEGAL_GENERATION)
        try:
            validate(topic, topic_id, partition)
        except ApiException as error:
            raise _in_transaction(error) from error

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

    # -- OffsetFetch -----------------------------------------------------------------------------

    def fetch(
        self, group_id: str, wanted: Mapping[str, Sequence[int]] | None, *, member_id: str | None, member_epoch: int, require_stable: bool
    ) -> dict[str, dict[int, FetchedOffset]]:
        """Returns the offsets of `wanted` partitions (None: of all that have one). A group that
        does not exist has none.

        Raises ApiException if the member that asks is not who it claims to be (KIP-848).
        """
        group = self._groups.by_id.get(group_id)
        committed = self._offsets.get(group_id, {}) if group is not None else {}
        if group is not None:
            try:
                group.validate_offset_fetch(member_id, member_epoch)
            except ApiException as error:
                if error.error is not Errors.GROUP_ID_NOT_FOUND:
                    raise
                committed = {}
        if wanted is None:
            wanted = {topic: list(partitions) for topic, partitions in committed.items()}
        return {
            topic: {
                index: UNSTABLE
                if require_stable and self.has_open_transaction(group_id, topic, index)
                else committed.get(topic, {}).get(index)
                for index in indexes
            }
            for topic, indexes in wanted.items()
        }

    def offset(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        return self._offsets.get(group_id, {}).get(topic, {}).get(partition)

    def has_open_transaction(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transactional commit of this partition is pending, so that its offset is not
        stable."""
        return (topic, partition) in self._open_transactions.get(group_id, {})

    def offsets(self, group_id: str) -> dict[str, PartitionOffsets]:
        """Returns all committed offsets of the group, by topic and partition."""
        return self._offsets.get(group_id, {})

    # -- OffsetDelete and expiry -------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Deletes offsets of topics that nobody in the group subscribes to."""
        group = self._groups.group(request.group_id)
        group.validate_offset_delete()
        records: list[CoordinatorRecord] = []
        topics: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            error = Errors.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else Errors.NONE
            partitions = []
            for partition in topic.partitions:
                index = partition.partition_index
                if not subscribed and self._has_commit(request.group_id, topic.name, index):
                    records.append(offset_commit_tombstone(request.group_id, topic.name, index))
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        self._metrics.offset_deletions(len(records))
        return CoordinatorResult(records, OffsetDeleteResponse(topics=topics), atomic=True)

    def on_topics_deleted(self, topics: Mapping[str, Uuid]) -> CoordinatorResult[None]:
        """Deletes offsets of topics that were deleted (given with their ids by name), unless they
        were committed for a later topic of the same name."""
        found: dict[GroupTopicPartition, None] = {}
        for group_id, by_topic in self._offsets.items():
            for topic, topic_id in topics.items():
                for partition, committed in by_topic.get(topic, {}).items():
                    if committed.topic_id in (Uuid.ZERO, topic_id):
                        found[(group_id, topic, partition)] = None
        for pending in self._pending.values():
            for (group_id, topic, partition), committed in pending.items():
                if topic in topics and committed.topic_id in (Uuid.ZERO, topics[topic]):
                    found[(group_id, topic, partition)] = None
        return CoordinatorResult([offset_commit_tombstone(*each) for each in found], None)

    def _has_commit(self, group_id: str, topic: str, partition: int) -> bool:
        return self.offset(group_id, topic, partition) is not None or self.has_open_transaction(group_id, topic, partition)

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Returns the records that delete every offset of a group, even pending ones."""
        committed = [(topic, partition) for topic, partitions in self._offsets.get(group_id, {}).items() for partition in partitions]
        pending = [each for each in self._open_transactions.get(group_id, {}) if self.offset(group_id, *each) is None]
        return [offset_commit_tombstone(group_id, topic, partition) for topic, partition in committed + pending]

    def expired(self, group: Group, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Returns tombstones for the group's expired offsets, and whether none is left
        afterwards."""
        records: list[CoordinatorRecord] = []
        kept = 0
        base_ms = _retention_base(group)
        for topic, partitions in self._offsets.get(group.group_id, {}).items():
            may_expire = base_ms is not None and not group.is_subscribed_to(topic)
            for partition, committed in partitions.items():
                is_stable = not self.has_open_transaction(group.group_id, topic, partition)
                if may_expire and is_stable and self._is_expired(committed, base_ms or committed.commit_timestamp_ms, now_ms):
                    records.append(offset_commit_tombstone(group.group_id, topic, partition))
                else:
                    kept += 1
        self._metrics.offset_expirations(len(records))
        return records, kept == 0 and group.group_id not in self._open_transactions

    def _is_expired(self, committed: OffsetAndMetadata, base_ms: int, now_ms: int) -> bool:
        if committed.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - base_ms >= self._groups.config.offsets_retention_ms

    # -- replay ------------------------------------------------------------------------------------

    def replay_commit(self, offset: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        """Applies a commit; it is pending until the end of the transaction if `producer_id` is not
        -1."""
        committed = OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id or Uuid.ZERO,
            offset,
        )
        if key.group not in self._groups.by_id:
            self._groups.by_id[key.group] = ClassicGroup(key.group)
        if producer_id == -1:
            self._put(key.group, key.topic, key.partition, committed)
            return
        self._pending.setdefault(producer_id, {})[(key.group, key.topic, key.partition)] = committed
        self._open_transactions.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer_id)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool) -> None:
        """Applies the end of the producer's transaction: its pending offsets become valid or are
        dropped."""
        for (group_id, topic, partition), pending in self._pending.pop(producer_id, {}).items():
            open_transactions = self._open_transactions[group_id]
            producers = open_transactions[(topic, partition)]
            producers.discard(producer_id)
            if not producers:
                self._forget_open_transactions(group_id, topic, partition)
            existing = self.offset(group_id, topic, partition)
            if committed and (existing is None or pending.record_offset > existing.record_offset):
                self._put(group_id, topic, partition, pending)

    def _put(self, group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> None:
        partitions = self._offsets.setdefault(group_id, {}).setdefault(topic, {})
        self.count += partition not in partitions
        partitions[partition] = committed

    def _forget_open_transactions(self, group_id: str, topic: str, partition: int) -> set[int]:
        open_transactions = self._open_transactions.get(group_id, {})
        producers = open_transactions.pop((topic, partition), set())
        if not open_transactions:
            self._open_transactions.pop(group_id, None)
        return producers

    def replay_tombstone(self, key: OffsetCommitKey) -> None:
        topics = self._offsets.get(key.group, {})
        partitions = topics.get(key.topic, {})
        self.count -= partitions.pop(key.partition, None) is not None
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._offsets.pop(key.group, None)
        for producer_id in self._forget_open_transactions(key.group, key.topic, key.partition):
            self._pending[producer_id].pop((key.group, key.topic, key.partition), None)
