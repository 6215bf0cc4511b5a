"""What replication reads from the cluster's metadata: the image that `MetadataApplier` applied
last.

It is a view of its own, not the broker's metadata cache: what a partition may ask about followers
never runs ahead of the roles that partitions have been given.
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.features import MIRROR_VERSION
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.registrations import BrokerRegistration


class MetadataView:
    """The `BrokersView` of all partitions; owns the applied image. `MetadataApplier` sets `image`
    before it acts on a delta.
    """

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY

    @property
    def is_mirroring_enabled(self) -> bool:
        """Whether mirror.version is at least 1."""
        return self.image.features.level(MIRROR_VERSION) >= 1

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition exists in the cluster, here or elsewhere."""
        return self.image.topics.partition(topic_partition.topic, topic_partition.partition) is not None

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        """A registered broker."""
        return self.image.cluster.broker(broker_id)

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered and not fenced."""
        broker = self.image.cluster.broker(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def is_replica_eligible(self, broker_id: int, broker_epoch: int, directory_id: Uuid) -> bool:
        """Whether the broker may join an ISR: it is registered and active, it fetches in its
        registered broker epoch (-1: any), and its directory is online.
        """
        broker = self.image.cluster.broker(broker_id)
        return broker is not None and broker.active and broker_epoch in (-1, broker.epoch) and broker.has_online_dir(directory_id)
