"""Which checkpoints a flow emits, and which group offsets it writes to the target.

Once an interval a task reads the committed offsets of each of its groups at the source, takes the
partitions that the topic filter takes, translates the offsets, and names the partitions as the
target does (CP1). A topic that came from the target goes home: `B.orders` of A is `orders` at B.

A checkpoint is emitted if it is the first of its group and partition, if the group went back at the
source, or if the target's offset grew (CP2). A translation that became coarser is therefore not
emitted. Offsets before every sync (-1) are left out.

When a log of the target goes back, since it was made anew or has lost its end, the checkpoints of its
partition are withdrawn: the next one is the first again, and may lead a group back to where its records
are now. A group that stands before all that the new log has begins at 0, for its old offset would skip
records there. Which of the withdrawn offsets a group has at the target is not known, for not every
checkpoint became its offset. So all that were emitted are void, until the group is seen to have another.

With `sync.group.offsets.enabled` the newest checkpoints also become the group's offsets at the
target, for groups without members there, and only where they lead on (CP3, KIP-545). For a group
that has members, or does not exist, there are no offsets to compare with, and Kafka writes all
checkpoints: the coordinator refuses those of a group with members.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import Checkpoint
from kmirror.mirrormaker.offset_sync_store import TOO_OLD
from kmirror.mirrormaker.replication_policy import ReplicationPolicy
from kmirror.mirrormaker.topic_filters import GroupFilter, TopicFilter

EMPTY_GROUP_STATE = "Empty"
EMITTED_KEPT: Final = 64
"""How many offsets of a group and partition are remembered that it may have at the target."""

Translate = Callable[[TopicPartition, int], int | None]
"""`OffsetSyncStore.translate_downstream`."""
CommittedOffsets = Mapping[TopicPartition, OffsetAndMetadata | None]
"""By partition; None where the group has no offset."""


def groups_to_checkpoint(groups: Mapping[str, CommittedOffsets], group_filter: GroupFilter, topic_filter: TopicFilter) -> list[str]:
    """Returns the groups that the filter takes and that have an offset in a topic that is
    replicated (`findConsumerGroups`), in the order given.
    """
    return [
        group
        for group, offsets in groups.items()
        if group_filter.should_replicate_group(group) and any(topic_filter.should_replicate_topic(partition.topic) for partition in offsets)
    ]


def rename_topic_partition(policy: ReplicationPolicy, flow: SourceAndTarget, source: TopicPartition) -> TopicPartition:
    """Returns the partition's name at the target."""
    if policy.topic_source(source.topic) == flow.target:
        return TopicPartition(policy.original_topic(source.topic), source.partition)
    return TopicPartition(policy.format_remote_topic(flow.source, source.topic), source.partition)


class CheckpointStore:
    """The newest checkpoint of each group and partition (Kafka's class of this name).

    It begins with what the checkpoints topic holds of the task's groups, and is updated with what
    the task emits.
    """

    def __init__(self, groups: Iterable[str] = ()) -> None:
        self._groups = frozenset(groups)
        self._checkpoints: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._emitted: dict[tuple[str, TopicPartition], deque[int]] = {}
        self._begin_anew: set[tuple[str, TopicPartition]] = set()
        self.withdrawn: dict[str, dict[TopicPartition, set[int]]] = {}
        """Offsets at the target, by group and partition, that were right before its log went back."""

    def handle_record(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the checkpoints topic was read; SchemaException for a torn one, which readers
        log and skip.
        """
        checkpoint = Checkpoint.deserialize_record(key, value)
        if checkpoint.consumer_group_id in self._groups:
            self.update([checkpoint])

    def update(self, checkpoints: Iterable[Checkpoint]) -> None:
        for checkpoint in checkpoints:
            group, partition = checkpoint.consumer_group_id, checkpoint.topic_partition
            self._checkpoints.setdefault(group, {})[partition] = checkpoint
            self._begin_anew.discard((group, partition))
            self._emitted.setdefault((group, partition), deque(maxlen=EMITTED_KEPT)).append(checkpoint.downstream_offset)

    def withdraw(self, partition: TopicPartition, beyond: int) -> list[str]:
        """Forgets what was emitted beyond an offset for a partition of the target, whose log went back;
        returns the groups whose last checkpoint that is.
        """
        groups = []
        for (group, of), offsets in self._emitted.items():
            void = {offset for offset in offsets if offset > beyond} if of == partition else set()
            if not void:
                continue
            self.withdrawn.setdefault(group, {}).setdefault(partition, set()).update(void)
            kept = [offset for offset in offsets if offset <= beyond]
            offsets.clear()
            offsets.extend(kept)
            last = self.get(group).get(partition)
            if last is not None and last.downstream_offset > beyond:
                del self._checkpoints[group][partition]
                self._begin_anew.add((group, partition))
                groups.append(group)
        return groups

    def begins_anew(self, group: str, partition: TopicPartition) -> bool:
        """Whether the group's last checkpoint there was withdrawn, and none was emitted since."""
        return (group, partition) in self._begin_anew

    def is_at(self, group: str, offsets: CommittedOffsets) -> None:
        """The group has these offsets at the target. What is not among those withdrawn has replaced
        them, and it does not go back to what was emitted before it.
        """
        void = self.withdrawn.get(group, {})
        for partition, found in offsets.items():
            if found is None:
                continue
            if found.offset not in void.get(partition, ()):
                void.pop(partition, None)
            emitted = self._emitted.get((group, partition), deque())
            while found.offset in emitted and emitted[0] != found.offset:
                emitted.popleft()

    def get(self, group: str) -> Mapping[TopicPartition, Checkpoint]:
        return self._checkpoints.get(group, {})

    def is_news(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is emitted (CP2)."""
        last = self.get(checkpoint.consumer_group_id).get(checkpoint.topic_partition)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset
            or checkpoint.downstream_offset > last.downstream_offset
        )  # fmt: skip

    @property
    def groups(self) -> list[str]:
        """The groups that have checkpoints."""
        return [group for group, checkpoints in self._checkpoints.items() if checkpoints]

    def converted_upstream_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the group's offsets at the target, as its checkpoints have them."""
        return {
            partition: OffsetAndMetadata(checkpoint.downstream_offset, checkpoint.metadata)
            for partition, checkpoint in self.get(group).items()
        }


def checkpoints_for_group(
    group: str,
    offsets: CommittedOffsets,
    *,
    flow: SourceAndTarget,
    policy: ReplicationPolicy,
    topic_filter: TopicFilter,
    translate: Translate,
    store: CheckpointStore,
) -> list[Checkpoint]:
    """Returns the checkpoints to emit for the group's committed offsets (CP1, CP2). The caller
    updates the store with what it emitted.
    """
    found = []
    for partition, committed in offsets.items():
        if committed is None or not topic_filter.should_replicate_topic(partition.topic):
            continue
        renamed = rename_topic_partition(policy, flow, partition)
        downstream = translate(partition, committed.offset)
        if downstream == TOO_OLD and store.begins_anew(group, renamed):
            downstream = 0
        if downstream is None or downstream < 0:
            continue
        checkpoint = Checkpoint(group, renamed, committed.offset, downstream, committed.metadata)
        if store.is_news(checkpoint):
            found.append(checkpoint)
    return found


def group_offsets_to_sync(
    wanted: Mapping[TopicPartition, OffsetAndMetadata],
    present: CommittedOffsets | None,
    void: Mapping[TopicPartition, Collection[int]],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets of a group to write at the target (CP3).

    `wanted` is what its checkpoints say. `present` has its offsets at the target if its state there
    is EMPTY_GROUP_STATE. A negative offset that some clients store arrives as None; it is replaced,
    and so is an offset that is `void`.
    """
    if present is None:
        return dict(wanted)
    return {
        partition: offset
        for partition, offset in wanted.items()
        if (at_target := present.get(partition)) is None
        or at_target.offset < offset.offset
        or (at_target.offset in void.get(partition, ()) and at_target.offset != offset.offset)
    }
