"""Which checkpoints a flow emits, and which group offsets it writes to the target.

Once an interval a task reads the committed offsets of each of its groups at the source, takes the
partitions that the topic filter takes, translates the offsets, and names the partitions as the
target does (CP1). A topic that came from the target goes home: `B.orders` of A is `orders` at B.

A checkpoint is emitted if it is the first of its group and partition, if the group went back at the
source, or if the target's offset grew (CP2). A translation that became coarser is therefore not
emitted. Offsets before every sync (-1) are left out.

When a log of the target goes back, since it was made anew or has lost its end, the checkpoints of its
partition are withdrawn: the next one is the first again, and may lead a group back to where its records
are now.

With `sync.group.offsets.enabled` the newest checkpoints also become the group's offsets at the
target, for groups without members there, and only where they lead on (CP3, KIP-545). For a group
that has members, or does not exist, there are no offsets to compare with, and Kafka writes all
checkpoints: the coordinator refuses those of a group with members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.formats import Checkpoint
from kmirror.mirrormaker.replication_policy import ReplicationPolicy
from kmirror.mirrormaker.topic_filters import GroupFilter, TopicFilter

EMPTY_GROUP_STATE = "Empty"

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
        self.withdrawn: dict[str, dict[TopicPartition, int]] = {}
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
            self._checkpoints.setdefault(checkpoint.consumer_group_id, {})[checkpoint.topic_partition] = checkpoint

    def withdraw(self, partition: TopicPartition, beyond: int) -> list[str]:
        """Forgets the checkpoints of a partition of the target, whose log went back, that lie beyond an
        offset; returns their groups.
        """
        groups = []
        for group, checkpoints in self._checkpoints.items():
            stale = checkpoints.get(partition)
            if stale is not None and stale.downstream_offset > beyond:
                self.withdrawn.setdefault(group, {})[partition] = stale.downstream_offset
                del checkpoints[partition]
                groups.append(group)
        return groups

    def replaced(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """The target has a group's new offsets instead of those that were withdrawn."""
        for partition in partitions:
            self.withdrawn.get(group, {}).pop(partition, None)

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

    def converted_upstream_offsets(self) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Returns the target's offsets of all groups, as the checkpoints have them."""
        return {
            group: {
                partition: OffsetAndMetadata(checkpoint.downstream_offset, checkpoint.metadata)
                for partition, checkpoint in checkpoints.items()
            }
            for group, checkpoints in self._checkpoints.items()
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
        downstream = translate(partition, committed.offset)
        if downstream is None or downstream < 0:
            continue
        renamed = rename_topic_partition(policy, flow, partition)
        checkpoint = Checkpoint(group, renamed, committed.offset, downstream, committed.metadata)
        if store.is_news(checkpoint):
            found.append(checkpoint)
    return found


def group_offsets_to_sync(
    converted: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]],
    idle_offsets: Mapping[str, CommittedOffsets],
    withdrawn: Mapping[str, Mapping[TopicPartition, int]] | None = None,
) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Returns the offsets to write at the target, by group (CP3).

    `converted` is what the checkpoints say. `idle_offsets` has the target's offsets of the groups
    whose state there is EMPTY_GROUP_STATE. A negative offset that some clients store arrives as
    None; it is replaced, and so is an offset that was `withdrawn`.
    """
    result: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
    for group, wanted in converted.items():
        present = idle_offsets.get(group)
        if present is None:
            result[group] = dict(wanted)
            continue
        void = (withdrawn or {}).get(group, {})
        ahead = {
            partition: offset
            for partition, offset in wanted.items()
            if (at_target := present.get(partition)) is None
            or at_target.offset < offset.offset
            or (at_target.offset == void.get(partition) and at_target.offset != offset.offset)
        }
        if ahead:
            result[group] = ahead
    return result
