"""The current leader of a partition for a client that asked the wrong broker (KIP-951), and the
endpoints to reach it.
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.server.metadata_cache import MetadataCache, Node

NO_LEADER = (-1, -1)


class LeaderEndpoints:
    """Collects each leader's node once; `nodes` goes into the response beside the partitions."""

    def __init__(self, metadata_cache: MetadataCache, listener_name: str) -> None:
        self._metadata_cache = metadata_cache
        self._listener_name = listener_name
        self._nodes: dict[int, Node] = {}

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    def add(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """(leader id, leader epoch) by our metadata; (-1, -1) when it knows none."""
        registration = self._metadata_cache.partition(topic_partition)
        if registration is None:
            return NO_LEADER
        node = self._metadata_cache.alive_node(registration.leader, self._listener_name)
        if node is not None:
            self._nodes[node.id] = node
        return registration.leader, registration.leader_epoch
