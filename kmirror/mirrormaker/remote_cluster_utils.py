"""What clients ask about the flows into a cluster (Kafka's `MirrorClient`, `RemoteClusterUtils`).

Everything is read from the names of the cluster's topics and from its checkpoints: a topic
`B.A.heartbeats` says that A is two hops away, through B. The functions take the names that a
cluster has; who calls them does the I/O.

A policy that keeps names has one source for every topic; searches end where a source repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import Checkpoint, SchemaException
from kmirror.mirrormaker.replication_policy import DefaultReplicationPolicy, ReplicationPolicy

UNREACHABLE: Final = -1


class MirrorClient:
    """Answers about one cluster. The policy is Kafka's default unless another is given (CU9)."""

    def __init__(self, policy: ReplicationPolicy | None = None) -> None:
        self.replication_policy = DefaultReplicationPolicy() if policy is None else policy

    def replication_hops(self, topics: Iterable[str], upstream_cluster_alias: str) -> int:
        """Returns the least number of flows from a cluster to this one, UNREACHABLE (-1) if its
        heartbeats do not arrive (CU1).
        """
        hops = [self._hops(topic, upstream_cluster_alias) for topic in self.heartbeat_topics(topics)]
        return min((count for count in hops if count is not None), default=UNREACHABLE)

    def heartbeat_topics(self, topics: Iterable[str]) -> list[str]:
        """Returns the topics that hold heartbeats, also those of other clusters (CU2)."""
        return [topic for topic in topics if self.replication_policy.is_heartbeats_topic(topic)]

    def checkpoint_topics(self, topics: Iterable[str]) -> list[str]:
        """Returns the topics that hold checkpoints (CU3)."""
        return [topic for topic in topics if self.replication_policy.is_checkpoints_topic(topic)]

    def upstream_clusters(self, topics: Iterable[str]) -> list[str]:
        """Returns the aliases of all clusters whose heartbeats arrive, sorted (CU4)."""
        return sorted({source for topic in self.heartbeat_topics(topics) for source in self._sources(topic)})

    def remote_topics(self, topics: Iterable[str], source: str | None = None) -> list[str]:
        """Returns the topics that were copied from elsewhere; with `source`, directly from there
        (CU5).
        """
        return [topic for topic in topics if self._is_remote(topic) and source in (None, self.replication_policy.topic_source(topic))]

    def checkpoints_topic(self, remote_cluster_alias: str) -> str:
        """Returns the topic whose partition 0 `remote_consumer_offsets` reads."""
        return self.replication_policy.checkpoints_topic(remote_cluster_alias)

    def _hops(self, topic: str, alias: str) -> int | None:
        for count, source in enumerate(self._sources(topic), 1):
            if source == alias:
                return count
        return None

    def _sources(self, topic: str) -> Iterator[str]:
        """Yields the clusters that a topic came through, the nearest first."""
        visited: set[str] = set()
        source = self.replication_policy.topic_source(topic)
        while source is not None and source not in visited:
            yield source
            visited.add(source)
            upstream = self.replication_policy.upstream_topic(topic)
            if upstream is None:
                return
            topic = upstream
            source = self.replication_policy.topic_source(topic)

    def _is_remote(self, topic: str) -> bool:
        policy = self.replication_policy
        return not policy.is_internal_topic(topic) and policy.topic_source(topic) is not None


def remote_consumer_offsets(
    records: Iterable[tuple[bytes | None, bytes | None]], consumer_group_id: str
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the group's offsets in this cluster, the last of each partition (CU6).

    `records` are keys and values of the checkpoints topic, from its beginning. Torn ones are
    skipped.
    """
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in records:
        try:
            checkpoint = Checkpoint.deserialize_record(key, value)
        except SchemaException:
            continue
        if checkpoint.consumer_group_id == consumer_group_id:
            offsets[checkpoint.topic_partition] = OffsetAndMetadata(checkpoint.downstream_offset, checkpoint.metadata)
    return offsets
