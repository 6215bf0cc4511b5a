"""Passes metadata changes to those who act on them, in a fixed order (Kafka's
`BrokerMetadataPublisher`): the cache (what clients are told), the replica manager (logs and roles),
the coordinators for groups, transactions and share groups, and the mirror manager.
"""

from __future__ import annotations

from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage, TopicsImage
from kmirror.metadata.loader import LoaderManifest
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.server.metadata_cache import MetadataCache
from kmirror.storage.unified_log import UnifiedLog


def is_stray_replica(topics: TopicsImage, log: UnifiedLog, *, broker_id: int) -> bool:
    """Whether the metadata does not place this partition folder on this broker (Kafka's
    `LogManager.isStrayKraftReplica`).
    """
    by_id = log.topic_id is not None and bool(log.topic_id)
    topic = topics.topic_by_id(log.topic_id) if by_id and log.topic_id is not None else topics.topic(log.topic_partition.topic)
    if topic is None:
        return True
    registration = topic.partitions.get(log.topic_partition.partition)
    return registration is None or broker_id not in registration.replicas


class BrokerMetadataPublisher:
    """Passes each metadata change to the parts of the broker that act on it, in their order."""

    name = "BrokerMetadataPublisher"

    def __init__(
        self,
        cache: MetadataCache,
        replica_manager: ReplicaManager,
        group_coordinator: GroupCoordinator,
        transaction_coordinator: TransactionCoordinator,
        share_coordinator: ShareCoordinator,
        mirror: MirrorManager,
    ) -> None:
        self._cache = cache
        self._replica_manager = replica_manager
        self._group_coordinator = group_coordinator
        self._transaction_coordinator = transaction_coordinator
        self._share_coordinator = share_coordinator
        self._mirror = mirror

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        self._cache.set_image(image)
        self._replica_manager.apply_delta(delta, image)
        self._group_coordinator.on_metadata_update(delta, image)
        self._transaction_coordinator.on_metadata_update(image)
        self._share_coordinator.on_metadata_update(delta, image)
        self._mirror.on_metadata_update(delta, image)
