"""What a broker needs for share groups: the share coordinator, and how the group coordinator
reaches it.

Requests to other share coordinators have a connection of their own to each broker: a write is
answered when the in-sync replicas have it, and a broker answers the requests of one connection one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.metrics import MetricsRegistry
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.coordinator.group.share_group_offsets import ShareGroupOffsets
from kmirror.coordinator.share.persister import Persister
from kmirror.coordinator.share.share_coordinator import ShareCoordinator
from kmirror.metadata.image import MetadataImage
from kmirror.network.client import NetworkClient
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime
from kmirror.server.inter_broker_channel import InterBrokerChannel
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.partition_metadata_client import PartitionMetadataClient
from kmirror.server.room_settings import share_coordinator_config


class ShareGroups:
    """Owns the share coordinator, the offsets of share groups, and the network client that it is
    given.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: KafkaConfig,
        *,
        log: PartitionLog,
        image: Callable[[], MetadataImage],
        replica_manager: ReplicaManager,
        group_coordinator: GroupCoordinator,
        client: NetworkClient,
        create_topic: Callable[[], None],
        metrics: MetricsRegistry,
    ) -> None:
        self._client = client
        brokers = InterBrokerChannel(
            client, image, listener_name=config.inter_broker_listener_name, request_timeout_ms=config.request_timeout_ms
        )
        self.coordinator = ShareCoordinator(runtime, share_coordinator_config(config), log=log, broker_id=config.node_id, metrics=metrics)
        persister = Persister(runtime, self.coordinator, image=image, brokers=brokers, broker_id=config.node_id, create_topic=create_topic)
        ends = PartitionMetadataClient(runtime, image=image, replica_manager=replica_manager, brokers=brokers, broker_id=config.node_id)
        self.offsets = ShareGroupOffsets(group_coordinator, persister, ends.list_end_offsets)
        group_coordinator.share = self.offsets

    async def shutdown(self) -> None:
        await self.coordinator.shutdown()
        self._client.close()
