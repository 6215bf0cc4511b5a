"""The current leader of a partition, and its endpoints, for a client that asked the wrong broker
(KIP-951).
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.server.metadata_cache import MetadataCache, Node

NO_LEADER = (-1, -1)


class LeaderEndpoints:
    """Collects the node of each leader once; `nodes` goes beside the partitions in the response."""

    def __init__(self, metadata_cache: MetadataCache, listener_name: str) -> None:
        self._metadata_cache = metadata_cache
        self._listener_name = listener_name
        self._nodes: dict[int, Node] = {}

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    def add(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Returns (leader id, leader epoch) by our metadata, or (-1, -1) if it knows no leader."""
        registration = self._metadata_cache.partition(topic_partition)
        if registration is None:
            return NO_LEADER
        node = self._metadata_cache.alive_node(registration.leader, self._listener_name)
        if node is not None:
            self._nodes[node.id] = node
        return registration.leader, registration.leader_epoch
