"""Answers that are put together by topic, as Kafka's response builders do it.

A request may name a topic, or one of its partitions, more than once. Kafka collects most answers in
a map by partition, so a repeated one is answered once and the last of them counts. The answers to
commits of offsets are lists: a repeated partition is answered as often as it was named, under the
first entry of its topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import TopicImage

R = TypeVar("R")


class _Partition(Protocol):
    partition_index: int


P = TypeVar("P", bound=_Partition)


def by_topic(results: Mapping[TopicPartition, R]) -> dict[str, list[tuple[int, R]]]:
    """Returns the partitions with their results by topic name, both in the order of `results`."""
    topics: dict[str, list[tuple[int, R]]] = {}
    for topic_partition, result in results.items():
        topics.setdefault(topic_partition.topic, []).append((topic_partition.partition, result))
    return topics


def split_known(partitions: Iterable[P], image: TopicImage | None) -> tuple[list[P], list[P]]:
    """Splits a request's partitions into those that the topic has and those that it does not."""
    known: list[P] = []
    unknown: list[P] = []
    for partition in partitions:
        (known if image is not None and partition.partition_index in image.partitions else unknown).append(partition)
    return known, unknown


class TopicAnswers:
    """Response topics (structs with `name`, `partitions` and perhaps `topic_id`), one a topic.

    Kafka's OffsetCommitResponse.Builder, TxnOffsetCommitResponse.Builder and
    OffsetDeleteResponse.Builder: what is refused is added first, then the coordinator's answer.
    """

    def __init__(self) -> None:
        self._topics: dict[tuple[str, Any], Any] = {}

    def add(self, topic: Any) -> None:
        """Adds a topic's partitions to the entry of the topic, or makes the entry."""
        entry = self._topics.setdefault((topic.name, getattr(topic, "topic_id", None)), topic)
        if entry is not topic:
            entry.partitions += topic.partitions

    def merged(self, answered: Iterable[Any]) -> list[Any]:
        """Returns all topics. The coordinator's are as they came if nothing else was added."""
        if not self._topics:
            return list(answered)
        for topic in answered:
            self.add(topic)
        return list(self._topics.values())
