"""Changes to topics and partitions that records make (Kafka's `TopicsDelta`), and what they mean
for one broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace as replace_struct

from kmirror.common.uuid import Uuid
from kmirror.metadata.image import (
    TopicImage,
    TopicsImage,
)
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.metadata.replay_error import MetadataReplayError
from kmirror.metadata.shared_map import shared

if TYPE_CHECKING:
    from kmirror.wire.messages.clear_elr_record import ClearElrRecord
    from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
    from kmirror.wire.messages.partition_record import PartitionRecord
    from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
    from kmirror.wire.messages.topic_record import TopicRecord


@dataclass(slots=True)
class TopicDelta:
    """The change of one topic: `image` is the topic before, `partition_changes` has the new
    partitions by number."""

    image: TopicImage
    partition_changes: dict[int, PartitionRegistration] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.image.name

    @property
    def id(self) -> Uuid:
        return self.image.id

    def partition(self, partition_id: int) -> PartitionRegistration | None:
        changed = self.partition_changes.get(partition_id)
        return self.image.partitions.get(partition_id) if changed is None else changed

    def apply(self) -> TopicImage:
        if not self.partition_changes:
            return self.image
        return TopicImage(self.image.name, self.image.id, shared(self.image.partitions).updated(self.partition_changes))


@dataclass(slots=True)
class LocalReplicaChanges:
    """What a topics delta means for one broker. Values: (topic id, partition after the change).

    `deletes`: replicas this broker no longer has. `elected_leaders`: partitions it leads under a
    new leader epoch. `leaders`: all changed partitions that it leads. `followers`: all changed
    partitions that it follows.
    """

    deletes: list[tuple[str, int, Uuid]] = field(default_factory=list)
    elected_leaders: dict[tuple[str, int], tuple[Uuid, PartitionRegistration]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], tuple[Uuid, PartitionRegistration]] = field(default_factory=dict)
    followers: dict[tuple[str, int], tuple[Uuid, PartitionRegistration]] = field(default_factory=dict)
    directory_changes: dict[tuple[str, int], Uuid] = field(default_factory=dict)


class TopicsDelta:
    """Created, changed and deleted topics. `changed` includes created topics. A topic that was
    deleted and created again (with another id) is in `deleted_ids` under the old id and in
    `changed` under the new one."""

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed: dict[Uuid, TopicDelta] = {}
        self.deleted_ids: dict[Uuid, str] = {}
        self._deleted_names: set[str] = set()
        self.created: dict[str, Uuid] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self.changed or self.deleted_ids)

    def topic_was_deleted(self, name: str) -> bool:
        """Whether the topic of this name from before the delta is gone (a new one of the same name
        may exist)."""
        return name in self._deleted_names

    def topic_name(self, topic_id: Uuid) -> str | None:
        if topic_id in self.deleted_ids:
            return None
        if topic_id in self.changed:
            return self.changed[topic_id].name
        topic = self.image.by_id.get(topic_id)
        return None if topic is None else topic.name

    def _delta_of(self, topic_id: Uuid, what: str) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            image = None if topic_id in self.deleted_ids else self.image.by_id.get(topic_id)
            if image is None:
                raise MetadataReplayError(f"Tried to {what} of topic id {topic_id}, but no topic with that id was found.")
            delta = self.changed[topic_id] = TopicDelta(image)
        return delta

    def replay_topic(self, record: TopicRecord) -> None:
        self.changed[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id))
        self.created[record.name] = record.topic_id

    def replay_remove(self, record: RemoveTopicRecord) -> str:
        name = self._delta_of(record.topic_id, "remove the topic").name
        del self.changed[record.topic_id]
        if self.created.get(name) == record.topic_id:
            del self.created[name]
        if record.topic_id in self.image.by_id:
            self.deleted_ids[record.topic_id] = name
            self._deleted_names.add(name)
        return name

    def replay_partition(self, record: PartitionRecord) -> None:
        delta = self._delta_of(record.topic_id, "add a partition")
        delta.partition_changes[record.partition_id] = PartitionRegistration.from_record(record)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        delta = self._delta_of(record.topic_id, f"change partition {record.partition_id}")
        partition = delta.partition(record.partition_id)
        if partition is None:
            raise MetadataReplayError(f"Unable to find partition {record.topic_id}:{record.partition_id}")
        delta.partition_changes[record.partition_id] = partition.merge(record)

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        topics = self.apply().by_name
        for name in [record.topic_name] if record.topic_name else list(topics):
            topic = topics.get(name)
            if topic is None:
                raise MetadataReplayError(f"Unable to clear elr for topic with name {name}.")
            for partition_id, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    cleared = replace_struct(partition, elr=(), last_known_elr=())
                    self._delta_of(topic.id, "clear the elr").partition_changes[partition_id] = cleared

    def take_all(self, topics: TopicsImage) -> None:
        for topic_id, topic in topics.by_id.items():
            self.changed[topic_id] = TopicDelta(TopicImage(topic.name, topic_id), dict(topic.partitions))
            self.created[topic.name] = topic_id

    def finish_snapshot(self) -> None:
        for topic_id, topic in self.image.by_id.items():
            if topic_id not in self.changed:
                self.deleted_ids[topic_id] = topic.name
                self._deleted_names.add(topic.name)

    def apply(self) -> TopicsImage:
        if not self.is_changed:
            return self.image
        changed = [delta.apply() for delta in self.changed.values()]
        return TopicsImage(
            shared(self.image.by_id).updated({topic.id: topic for topic in changed}, self.deleted_ids),
            shared(self.image.by_name).updated({topic.name: topic for topic in changed}, dict.fromkeys(self.deleted_ids.values())),
        )

    def local_changes(self, broker_id: int) -> LocalReplicaChanges:
        """Returns what changed for the replicas of `broker_id` (Kafka's
        `TopicsDelta.localChanges`)."""
        changes = LocalReplicaChanges()
        for topic_id, name in self.deleted_ids.items():
            for number, partition in self.image.by_id[topic_id].partitions.items():
                if broker_id in partition.replicas:
                    changes.deletes.append((name, number, topic_id))
        for delta in self.changed.values():
            before_topic = self.image.by_id.get(delta.id)
            for number, partition in delta.partition_changes.items():
                before = None if before_topic is None else before_topic.partitions.get(number)
                self._classify(changes, broker_id, delta, number, before, partition)
        return changes

    @staticmethod
    def _classify(
        changes: LocalReplicaChanges,
        broker_id: int,
        delta: TopicDelta,
        number: int,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        key, value = (delta.name, number), (delta.id, after)
        if broker_id not in after.replicas:
            if before is not None and broker_id in before.replicas:
                changes.deletes.append((delta.name, number, delta.id))
            return
        if after.leader == broker_id:
            if before is None or before.partition_epoch != after.partition_epoch:
                changes.leaders[key] = value
            if before is None or before.leader_epoch != after.leader_epoch:
                changes.elected_leaders[key] = value
        elif before is None or before.partition_epoch != after.partition_epoch:
            changes.followers[key] = value
        directory = after.directory(broker_id)
        if before is None or before.directory(broker_id) != directory:
            changes.directory_changes[key] = directory
