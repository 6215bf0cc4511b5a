"""Decides about the share groups of one shard, as far as their offsets need it (Kafka's share side
of `GroupMetadataManager`).

The share coordinator may be another broker, so each change has two steps here and one there between
them:

    alter    initializing += partitions ── states are made ──> initialized += those that were made
    delete   initialized -= topics, deleting += topics ── states are deleted ──> deleting -= topics
    (group)  all of it deleting ── states are deleted ──> the group's tombstones

After a crash between the steps, the partitions stay in "initializing" or "deleting"; repeating the
request finishes the change. Altering the offsets of a group that does not exist creates it. A group
with members refuses with NON_EMPTY_GROUP, a group of another kind with GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.group.groups import Groups
from kmirror.coordinator.group.share_group import ShareGroup, StatePartitions, TopicPartitions
from kmirror.coordinator.group.share_group_records import member_tombstones, share_group_epoch_record, state_partitions_record
from kmirror.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kmirror.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponseTopic
from kmirror.wire.messages.share_group_describe import Assignment, DescribedGroup, Member
from kmirror.wire.messages.share_group_describe import TopicPartitions as DescribedTopicPartitions

ASSIGNOR_NAME = "simple"
UNKNOWN_TOPIC_NAME = "<UNKNOWN>"
NOTHING_TO_DELETE = "There is no offset information to delete."
_log = logging.getLogger(__name__)

Partitions = dict[Uuid, tuple[int, ...]]


class Alteration(NamedTuple):
    """The answer so far, and the states to create: the start offset of each partition under
    `state_epoch`."""

    topics: list[AlterShareGroupOffsetsResponseTopic]
    state_epoch: int
    start_offsets: dict[Uuid, dict[int, int]]


class Deletion(NamedTuple):
    """The answers for refused topics, and the states to delete."""

    refused: list[DeleteShareGroupOffsetsResponseTopic]
    partitions: Partitions


class ShareGroupManager:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def _topic_name(self, topic_id: Uuid) -> str:
        return self._groups.image.topic_name(topic_id) or UNKNOWN_TOPIC_NAME

    def _record(self, group_id: str, partitions: StatePartitions) -> CoordinatorRecord:
        return state_partitions_record(group_id, partitions, self._topic_name)

    def _state_partitions(self, group_id: str) -> StatePartitions | None:
        group = self._groups.by_id.get(group_id)
        return group.state_partitions if isinstance(group, ShareGroup) else None

    # -- queries -----------------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedGroup:
        """Describes a group; raises GROUP_ID_NOT_FOUND for anything but a share group."""
        try:
            group = self._groups.share_group(group_id)
        except ApiException as error:
            return DescribedGroup(group_id=group_id, error_code=error.error, error_message=error.message)
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=ASSIGNOR_NAME,
            members=[
                Member(
                    member_id=member.member_id,
                    rack_id=member.rack_id,
                    member_epoch=member.member_epoch,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    subscribed_topic_names=list(member.subscribed_topic_names),
                    assignment=self._assignment(member.assigned_partitions),
                )
                for member in group.members.values()
            ],
        )

    def _assignment(self, partitions: Mapping[Uuid, tuple[int, ...]]) -> Assignment:
        """Returns the assignment without topics that no longer exist."""
        named = [(topic_id, self._groups.image.topic_name(topic_id), numbers) for topic_id, numbers in partitions.items()]
        return Assignment(
            topic_partitions=[
                DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=list(numbers))
                for topic_id, name, numbers in named
                if name is not None
            ]
        )

    def initialized_partitions(self, group_id: str) -> Partitions:
        """Returns the partitions that have persisted state; none for anything but a share group."""
        known = self._state_partitions(group_id)
        return {} if known is None else {topic_id: topic.partitions for topic_id, topic in known.initialized.items()}

    # -- AlterShareGroupOffsets --------------------------------------------------------------------

    def alter(self, group_id: str, topics: Sequence[AlterShareGroupOffsetsRequestTopic]) -> CoordinatorResult[Alteration]:
        group = self._groups.by_id.get(group_id) or ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            raise ApiException(Errors.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        group.validate_empty()
        answers: list[AlterShareGroupOffsetsResponseTopic] = []
        start_offsets: dict[Uuid, dict[int, int]] = {}
        for topic in topics:
            topic_id = self._groups.image.topic_id(topic.topic_name)
            count = 0 if topic_id is None else self._groups.image.partition_count(topic_id) or 0
            known = {partition.partition_index for partition in topic.partitions if 0 <= partition.partition_index < count}
            answers.append(
                AlterShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    topic_id=topic_id or Uuid.ZERO,
                    partitions=[_alter_answer(partition.partition_index, known) for partition in topic.partitions],
                )
            )
            if topic_id is not None and known:
                offsets = {partition.partition_index: partition.start_offset for partition in topic.partitions}
                start_offsets[topic_id] = {number: offsets[number] for number in sorted(known)}
        records = self._begin_initializing(group, start_offsets) if start_offsets else []
        return CoordinatorResult(records, Alteration(answers, group.group_epoch, start_offsets))

    def _begin_initializing(self, group: ShareGroup, partitions: Mapping[Uuid, Iterable[int]]) -> list[CoordinatorRecord]:
        known = group.state_partitions or StatePartitions()
        begun = StatePartitions(
            initializing=self._plus(known.initializing, partitions),
            initialized=known.initialized,
            deleting=tuple(topic_id for topic_id in known.deleting if topic_id not in partitions),
        )
        return [self._record(group.group_id, begun)]

    def _plus(self, known: Mapping[Uuid, TopicPartitions], partitions: Mapping[Uuid, Iterable[int]]) -> dict[Uuid, TopicPartitions]:
        more = dict(known)
        for topic_id, numbers in partitions.items():
            name = self._topic_name(topic_id)
            more[topic_id] = more.get(topic_id, TopicPartitions(name, ())).plus(name, numbers)
        return more

    def end_initializing(
        self, group_id: str, made: Mapping[Uuid, Iterable[int]], failed: Mapping[Uuid, Iterable[int]]
    ) -> CoordinatorResult[None]:
        """Records that the states of `made` exist now, and that those of `failed` do not."""
        known = self._state_partitions(group_id)
        if known is None or not (made or failed):
            return CoordinatorResult([], None)
        initializing = _minus(_minus(known.initializing, made), failed)
        ended = StatePartitions(initializing, self._plus(known.initialized, made), known.deleting)
        return CoordinatorResult([self._record(group_id, ended)], None)

    # -- DeleteShareGroupOffsets -------------------------------------------------------------------

    def begin_deleting_offsets(self, group_id: str, topic_names: Iterable[str]) -> CoordinatorResult[Deletion]:
        group = self._groups.share_group(group_id)
        group.validate_empty()
        known = group.state_partitions
        if known is None:
            return CoordinatorResult([], Deletion([], {}))
        initialized, deleting = dict(known.initialized), dict.fromkeys(known.deleting)
        refused: list[DeleteShareGroupOffsetsResponseTopic] = []
        partitions: Partitions = {}
        for name in topic_names:
            topic_id = self._groups.image.topic_id(name)
            if topic_id is None:
                refused.append(_refused(name, Errors.UNKNOWN_TOPIC_OR_PARTITION.message))
            elif topic_id in initialized:
                partitions[topic_id] = initialized.pop(topic_id).partitions
                deleting[topic_id] = None
            elif topic_id in deleting:
                partitions[topic_id] = self._all_partitions(topic_id)
            else:
                refused.append(_refused(name, NOTHING_TO_DELETE))
        begun = StatePartitions(known.initializing, initialized, tuple(deleting))
        return CoordinatorResult([self._record(group_id, begun)], Deletion(refused, partitions))

    def _all_partitions(self, topic_id: Uuid) -> tuple[int, ...]:
        return tuple(range(self._groups.image.partition_count(topic_id) or 0))

    def end_deleting_offsets(self, group_id: str, topic_ids: Iterable[Uuid]) -> CoordinatorResult[None]:
        known = self._state_partitions(group_id)
        if known is None:
            return CoordinatorResult([], None)
        gone = set(topic_ids)
        left = tuple(topic_id for topic_id in known.deleting if topic_id not in gone)
        return CoordinatorResult([self._record(group_id, StatePartitions(known.initializing, known.initialized, left))], None)

    # -- DeleteGroups ------------------------------------------------------------------------------

    def begin_deleting_group(self, group_id: str) -> CoordinatorResult[Partitions]:
        """Returns the states to delete before the group; none for other groups. Raises
        NON_EMPTY_GROUP if it has members."""
        group = self._groups.by_id.get(group_id)
        if not isinstance(group, ShareGroup):
            return CoordinatorResult([], {})
        group.validate_delete_group()
        known = group.state_partitions
        if known is None:
            return CoordinatorResult([], {})
        doomed = self._plus(known.initialized, {topic_id: topic.partitions for topic_id, topic in known.initializing.items()})
        present = {topic_id: self._all_partitions(topic_id) for topic_id in known.deleting if self._groups.image.topic_name(topic_id)}
        doomed = self._plus(doomed, present)
        begun = StatePartitions(deleting=tuple(doomed))
        return CoordinatorResult([self._record(group_id, begun)], {topic_id: topic.partitions for topic_id, topic in doomed.items()})

    # -- work without a request --------------------------------------------------------------------

    def on_topics_deleted(self, topic_ids: Iterable[Uuid]) -> CoordinatorResult[None]:
        """Drops these topics; the share coordinator deletes their states itself."""
        deleted = set(topic_ids)
        records: list[CoordinatorRecord] = []
        for group in self._groups.by_id.values():
            known = group.state_partitions if isinstance(group, ShareGroup) else None
            if known is not None and not deleted.isdisjoint([*known.initializing, *known.initialized, *known.deleting]):
                left = StatePartitions(
                    {topic_id: topic for topic_id, topic in known.initializing.items() if topic_id not in deleted},
                    {topic_id: topic for topic_id, topic in known.initialized.items() if topic_id not in deleted},
                    tuple(topic_id for topic_id in known.deleting if topic_id not in deleted),
                )
                records.append(self._record(group.group_id, left))
        return CoordinatorResult(records, None)

    def on_loaded(self, group: ShareGroup) -> None:
        timeout_ms = self._groups.configs.share_session_timeout_ms(group.group_id)
        for member_id in group.members:
            fence: Callable[[], CoordinatorResult[None]] = functools.partial(self._fence, group.group_id, member_id)
            self._groups.timer.schedule(f"share-session-timeout-{group.group_id}-{member_id}", timeout_ms, fence)

    def _fence(self, group_id: str, member_id: str) -> CoordinatorResult[None]:
        group = self._groups.by_id.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return CoordinatorResult([], None)
        _log.info("[GroupId %s] Member %s fenced from the group because the member session expired.", group_id, member_id)
        topics = {name for other in group.members.values() if other.member_id != member_id for name in other.subscribed_topic_names}
        metadata_hash = self._groups.image.metadata_hash(topics)
        epoch = share_group_epoch_record(group_id, group.group_epoch + 1, metadata_hash)
        return CoordinatorResult([*member_tombstones(group_id, member_id), epoch], None, atomic=True)


def _alter_answer(partition: int, known: set[int]) -> AlterShareGroupOffsetsResponsePartition:
    if partition in known:
        return AlterShareGroupOffsetsResponsePartition(partition_index=partition)
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    return AlterShareGroupOffsetsResponsePartition(partition_index=partition, error_code=error, error_message=error.message)


def _refused(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION, error_message=message)


def _minus(known: Mapping[Uuid, TopicPartitions], partitions: Mapping[Uuid, Iterable[int]]) -> dict[Uuid, TopicPartitions]:
    """Returns `known` without `partitions`; topics without remaining partitions are dropped."""
    left = {topic_id: topic.minus(partitions.get(topic_id, ())) for topic_id, topic in known.items()}
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
