"""Which topics and partitions a flow makes at its target (RT2 to RT4).

A remote topic has as many partitions as its source, with the same numbers, and
`replication.factor` replicas. It is created when it is missing, and gets more partitions when its
source has more. Partitions are never removed, and what is removed at the source stays.

A flow knows the target's topics by the policy: those whose source is the flow's (`topicSource`),
but not its checkpoints. With the identity policy that is every topic, or none if
`source.cluster.alias` is not configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.cycles import TopicSelection

DEFAULT_REPLICATION_FACTOR = 2
INTERNAL_TOPIC_REPLICATION_FACTOR = 3
INTERNAL_TOPIC_CONFIGS = {"cleanup.policy": "compact"}
"""Heartbeats, checkpoints and offset syncs (IT1 to IT3)."""


class NewRemoteTopic(NamedTuple):
    """A topic to create at the target."""

    source_topic: str
    name: str
    partitions: int
    replication_factor: int


class TopicChanges(NamedTuple):
    """What to do at the target. `new_partitions` maps remote topics to the count they grow to."""

    new_topics: list[NewRemoteTopic]
    new_partitions: dict[str, int]


def source_topics(topics: TopicSelection, names: Iterable[str]) -> list[str]:
    """Returns the source's topics that the flow copies."""
    return [name for name in names if topics.should_replicate_topic(name)]


def target_topics(topics: TopicSelection, names: Iterable[str]) -> list[str]:
    """Returns the target's topics that the flow counts as its own."""
    checkpoints = topics.policy.checkpoints_topic(topics.flow.source)
    return [name for name in names if topics.policy.topic_source(name) == topics.flow.source and name != checkpoints]


def topic_changes(
    topics: TopicSelection,
    source_partitions: Mapping[str, int],
    target_partitions: Mapping[str, int],
    *,
    replication_factor: int = DEFAULT_REPLICATION_FACTOR,
) -> TopicChanges:
    """Returns what is missing at the target. Both mappings are topic to number of partitions, of
    `source_topics` and `target_topics`.
    """
    new_topics, new_partitions = [], {}
    for topic, count in source_partitions.items():
        remote = topics.remote_topic(topic)
        present = target_partitions.get(remote)
        if present is None:
            new_topics.append(NewRemoteTopic(topic, remote, count, replication_factor))
        elif count > present:
            new_partitions[remote] = count
    return TopicChanges(new_topics, new_partitions)


def topics_changed(
    topics: TopicSelection,
    known_source: Mapping[str, int],
    source_partitions: Mapping[str, int],
    target_partitions: Mapping[str, int],
) -> bool:
    """Whether a refresh makes or assigns anything: the source has other topics or partitions than
    were known, or the target lacks some (MC11: tasks are configured anew).
    """
    if known_source != source_partitions:
        return True
    changes = topic_changes(topics, source_partitions, target_partitions)
    return bool(changes.new_topics or changes.new_partitions)


def task_partitions(partitions: Iterable[TopicPartition], max_tasks: int) -> list[list[TopicPartition]]:
    """Returns the partitions of each source task, dealt one by one (MC10); no task without one."""
    every = list(partitions)
    count = min(max_tasks, len(every))
    return [every[index::count] for index in range(count)]


def task_groups(groups: Iterable[str], max_tasks: int) -> list[list[str]]:
    """Returns the groups of each checkpoint task: runs of nearly equal length, the longer ones first
    (MC10; Kafka's `ConnectorUtils.groupPartitions`).
    """
    every = list(groups)
    count = min(max_tasks, len(every))
    result, start = [], 0
    for index in range(count):
        size = len(every) // count + (1 if index < len(every) % count else 0)
        result.append(every[start : start + size])
        start += size
    return result
