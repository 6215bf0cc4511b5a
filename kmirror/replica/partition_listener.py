"""Listeners of single partitions: coordinators and mirrors hear what happens to the logs they use."""

from __future__ import annotations

from typing import Protocol

from kmirror.common.topic_partition import TopicPartition


class PartitionListener(Protocol):
    """Told what happens to one partition."""

    def on_high_watermark_updated(self, topic_partition: TopicPartition, offset: int) -> None: ...

    def on_failed(self, topic_partition: TopicPartition) -> None:
        """Its log directory went offline."""
        ...

    def on_deleted(self, topic_partition: TopicPartition) -> None: ...

    def on_becoming_follower(self, topic_partition: TopicPartition) -> None: ...


class PartitionListeners:
    """Owns the listeners of each partition, in the order in which they were added."""

    def __init__(self) -> None:
        self._listeners: dict[TopicPartition, list[PartitionListener]] = {}

    def add(self, topic_partition: TopicPartition, listener: PartitionListener) -> None:
        listeners = self._listeners.setdefault(topic_partition, [])
        if listener not in listeners:
            listeners.append(listener)

    def remove(self, topic_partition: TopicPartition, listener: PartitionListener) -> None:
        listeners = self._listeners.get(topic_partition, [])
        if listener in listeners:
            listeners.remove(listener)

    def of(self, topic_partition: TopicPartition) -> list[PartitionListener]:
        """A copy: a listener may remove itself while it is told."""
        return list(self._listeners.get(topic_partition, ()))

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is gone, and its listeners have been told so."""
        self._listeners.pop(topic_partition, None)

    def on_high_watermark_updated(self, topic_partition: TopicPartition, offset: int) -> None:
        for listener in self.of(topic_partition):
            listener.on_high_watermark_updated(topic_partition, offset)
