"""The cluster's metadata for request handlers: the current image, as seen from one listener
(Kafka's `KRaftMetadataCache`).

The broker's metadata publisher replaces `image`; nothing here changes it. A broker that is fenced,
or has no endpoint for the listener in question, is not alive for that listener's clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.features import KRAFT_VERSION
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.registrations import PartitionRegistration


class Node(NamedTuple):
    """A broker as clients of one listener see it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class MetadataCache:
    def __init__(self, kraft_version: Callable[[], int] = lambda: 0) -> None:
        """`kraft_version` returns the version of the metadata log, which no image holds."""
        self.image: MetadataImage = MetadataImage.EMPTY
        self._kraft_version = kraft_version

    def finalized_features(self) -> dict[str, int]:
        """Every finalized feature level above 0."""
        kraft_version = self._kraft_version()
        levels = self.image.features.finalized_levels
        return levels | {KRAFT_VERSION: kraft_version} if kraft_version > 0 else levels

    def set_image(self, image: MetadataImage) -> None:
        self.image = image

    def contains(self, topic_partition: TopicPartition) -> bool:
        return self.image.topics.partition(topic_partition.topic, topic_partition.partition) is not None

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        return self.image.topics.partition(topic_partition.topic, topic_partition.partition)

    def topic_id(self, topic: str) -> Uuid:
        """Uuid.ZERO when there is no such topic."""
        image = self.image.topics.topic(topic)
        return Uuid.ZERO if image is None else image.id

    def topic_name(self, topic_id: Uuid) -> str | None:
        image = self.image.topics.topic_by_id(topic_id)
        return None if image is None else image.name

    def is_alive(self, broker_id: int) -> bool:
        """Registered and not fenced."""
        broker = self.image.cluster.broker(broker_id)
        return broker is not None and not broker.fenced

    def alive_node(self, broker_id: int, listener_name: str) -> Node | None:
        """Returns the broker's endpoint for `listener_name`; None if it is fenced or lacks that
        listener.
        """
        broker = self.image.cluster.broker(broker_id)
        if broker is None or broker.fenced:
            return None
        endpoint = broker.listeners.get(listener_name)
        return None if endpoint is None else Node(broker_id, endpoint.host, endpoint.port, broker.rack)

    def alive_nodes(self, listener_name: str) -> list[Node]:
        """Every alive broker with that listener, by id."""
        nodes = [self.alive_node(broker_id, listener_name) for broker_id in sorted(self.image.cluster.brokers)]
        return [node for node in nodes if node is not None]
