"""What a client knows of a cluster: brokers, topics, partitions and their leaders (Kafka's
`Metadata` and `MetadataSnapshot`). Pure data with rules; nothing here waits or asks.

Rules for a partition's leader:

    Metadata with an older leader epoch       ignored: another broker knew more
    Metadata with another topic id            taken, whatever its epoch: the topic was made anew
    Metadata without epochs (below v7)        taken
    a response that names a newer leader      taken if its epoch is newer (KIP-951)
    the caller forgot the leader              unknown until the next Metadata, which is taken

An error of a topic is kept beside it: what was known of a topic that is briefly unavailable stays.
A topic that the cluster does not know loses its partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.admin.results import Node
from kmirror.common.errors import Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


class LeaderAndEpoch(NamedTuple):
    """A partition's leader; the epoch is -1 where the cluster does not tell epochs."""

    leader: Node
    epoch: int


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """Kafka's `PartitionInfo`. `leader` is None while there is none; `leader_epoch` is -1 if
    unknown.
    """

    topic: str
    partition: int
    leader: Node | None
    replicas: list[Node]
    in_sync_replicas: list[Node]
    offline_replicas: list[Node]
    leader_epoch: int = NO_EPOCH


@dataclass(slots=True)
class _Partition:
    leader_id: int
    epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    forgotten: bool = False


@dataclass(slots=True)
class _Topic:
    error: Errors = Errors.NONE
    topic_id: Uuid = Uuid.ZERO
    is_internal: bool = False
    partitions: dict[int, _Partition] = field(default_factory=dict)
    updated_ms: int = 0


class ClusterMetadata:
    """All methods are synchronous; `now_ms` is of a monotonic clock."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, Node] = {}
        self.made_anew: list[str] = []
        """Names of topics that were found to have another id than before, in that order."""
        self._topics: dict[str, _Topic] = {}
        self._names: dict[Uuid, str] = {}
        self._leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        """Answers of `leader`, until something changes."""

    def apply(self, response: MetadataResponse, asked: Iterable[str] | None, now_ms: int) -> None:
        """Takes over an answer to a request for the topics `asked`; None means all topics."""
        self._leaders.clear()
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self.nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers}
        seen: dict[str, None] = {}
        for row in response.topics:
            if row.name is not None:
                seen[row.name] = None
                self._apply_topic(row.name, row, now_ms)
        if asked is None:
            for name in [name for name in self._topics if name not in seen]:
                self._drop(name)

    def clear(self) -> None:
        """Forgets brokers, leaders and their epochs (rebootstrap): what the bootstrap servers say
        next counts, even if they belong to a cluster that was restored.
        """
        self.nodes = {}
        self._leaders.clear()
        for topic in self._topics.values():
            for partition in topic.partitions.values():
                partition.forgotten, partition.epoch = True, NO_EPOCH

    # Questions

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        found = self._leaders.get(partition)
        if found is not None:
            return found
        row = self._partition(partition)
        node = None if row is None or row.forgotten else self.nodes.get(row.leader_id)
        if row is None or node is None:
            return None
        found = self._leaders[partition] = LeaderAndEpoch(node, row.epoch)
        return found

    def partitions_for(self, topic: str) -> list[PartitionInfo] | None:
        """None if the topic is not known."""
        entry = self._topics.get(topic)
        if entry is None or not entry.partitions:
            return None
        return [self._info(topic, number, row) for number, row in sorted(entry.partitions.items())]

    def partition_count(self, topic: str) -> int:
        """0 if the topic is not known."""
        entry = self._topics.get(topic)
        return 0 if entry is None else len(entry.partitions)

    def error(self, topic: str) -> Errors:
        entry = self._topics.get(topic)
        return Errors.NONE if entry is None else entry.error

    def age_ms(self, topic: str, now_ms: int) -> int | None:
        """How old the knowledge of a topic is; None if nothing was ever said about it."""
        entry = self._topics.get(topic)
        return None if entry is None else now_ms - entry.updated_ms

    def topic_id(self, topic: str) -> Uuid:
        """`Uuid.ZERO` if the topic, or its id, is not known."""
        entry = self._topics.get(topic)
        return Uuid.ZERO if entry is None else entry.topic_id

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self._names.get(topic_id)

    def topic_names(self) -> list[str]:
        """Names of topics without an error, sorted; Kafka's internal topics are among them."""
        return sorted(name for name, topic in self._topics.items() if topic.error is Errors.NONE and topic.partitions)

    def is_internal(self, topic: str) -> bool:
        entry = self._topics.get(topic)
        return entry is not None and entry.is_internal

    # Changes that do not come from Metadata

    def forget_leader(self, partition: TopicPartition) -> None:
        row = self._partition(partition)
        if row is not None:
            row.forgotten = True
            self._leaders.pop(partition, None)

    def hear_leader(self, partition: TopicPartition, node: Node, epoch: int) -> bool:
        """Takes over a leader that a response named; returns whether it is newer than the known one
        (KIP-951).
        """
        row = self._partition(partition)
        if row is None or node.id < 0 or epoch <= row.epoch:
            return False
        self._leaders.clear()
        self.nodes.setdefault(node.id, node)
        if self.nodes[node.id] != node and node.host:
            self.nodes[node.id] = node
        row.leader_id, row.epoch, row.forgotten = node.id, epoch, False
        return True

    def drop_topics(self, topics: Iterable[str]) -> None:
        """Forgets topics that nobody uses any more."""
        for name in topics:
            self._drop(name)

    # Inside

    def _partition(self, partition: TopicPartition) -> _Partition | None:
        entry = self._topics.get(partition.topic)
        return None if entry is None else entry.partitions.get(partition.partition)

    def _apply_topic(self, name: str, row: MetadataResponseTopic, now_ms: int) -> None:
        topic = self._topics.setdefault(name, _Topic())
        topic.error = Errors.for_code(row.error_code)
        topic.updated_ms = now_ms
        if topic.error is not Errors.NONE:
            if topic.error in (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID):
                topic.partitions = {}
            return
        is_other_topic = bool(row.topic_id) and bool(topic.topic_id) and row.topic_id != topic.topic_id
        if is_other_topic:
            self._names.pop(topic.topic_id, None)
            self.made_anew.append(name)
        if row.topic_id:
            self._names[row.topic_id] = name
        known = {} if is_other_topic else topic.partitions
        topic.topic_id, topic.is_internal = row.topic_id, row.is_internal
        topic.partitions = {part.partition_index: _newer(known.get(part.partition_index), part) for part in row.partitions}

    def _drop(self, name: str) -> None:
        self._leaders.clear()
        topic = self._topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def _info(self, topic: str, number: int, row: _Partition) -> PartitionInfo:
        leader = None if row.forgotten else self.nodes.get(row.leader_id)
        return PartitionInfo(
            topic, number, leader, self._nodes(row.replicas), self._nodes(row.isr), self._nodes(row.offline), leader_epoch=row.epoch
        )

    def _nodes(self, ids: list[int]) -> list[Node]:
        return [self.nodes.get(node_id) or Node(node_id, "", -1) for node_id in ids]


def _newer(known: _Partition | None, row: MetadataResponsePartition) -> _Partition:
    if known is not None and NO_EPOCH < row.leader_epoch < known.epoch:
        known.forgotten = False
        return known
    return _Partition(row.leader_id, row.leader_epoch, row.replica_nodes, row.isr_nodes, row.offline_replicas)
