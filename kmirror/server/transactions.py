"""What a broker needs for transactions: the coordinator with its markers, and the verification of
partitions.

Markers and verifications have a connection of their own to each broker: a marker is answered when
the in-sync replicas have it, and a broker answers the requests of one connection one after the
other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmirror.common.metrics import MetricsRegistry
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kmirror.coordinator.transaction.transaction_coordinator_shard import TransactionConfig
from kmirror.coordinator.transaction.transaction_marker_channel_manager import TransactionMarkerChannelManager
from kmirror.metadata.image import MetadataImage
from kmirror.network.client import NetworkClient
from kmirror.runtime.api import Runtime
from kmirror.server.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kmirror.server.inter_broker_channel import InterBrokerChannel
from kmirror.server.kafka_config import KafkaConfig


def transaction_config(config: KafkaConfig) -> TransactionConfig:
    """The transaction coordinator's settings from the broker's properties."""
    return TransactionConfig(
        transactional_id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
        transaction_max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        abort_timed_out_transactions_interval_ms=config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        remove_expired_transactional_ids_interval_ms=config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit_enable=config.get_bool("transaction.two.phase.commit.enable"),
    )


class Transactions:
    """Owns the coordinator, the verification, and the two network clients that it is given."""

    def __init__(
        self,
        runtime: Runtime,
        config: KafkaConfig,
        *,
        log: PartitionLog,
        image: Callable[[], MetadataImage],
        generate_producer_id: Callable[[], Awaitable[int]],
        marker_client: NetworkClient,
        verification_client: NetworkClient,
        metrics: MetricsRegistry,
    ) -> None:
        self._config = config
        self._clients = (marker_client, verification_client)
        markers_to, verifications_to = (
            InterBrokerChannel(client, image, listener_name=config.inter_broker_listener_name, request_timeout_ms=config.request_timeout_ms)
            for client in self._clients
        )
        self.coordinator = TransactionCoordinator(
            runtime,
            transaction_config(config),
            log=log,
            broker_id=config.node_id,
            image=image,
            generate_producer_id=generate_producer_id,
            markers=TransactionMarkerChannelManager(runtime, image=image, brokers=markers_to, metrics=metrics),
            metrics=metrics,
        )
        self.add_partitions_to_txn = AddPartitionsToTxnManager(
            runtime,
            image=image,
            brokers=verifications_to,
            metrics=metrics,
            is_verification_enabled=lambda: self._config.get_bool("transaction.partition.verification.enable"),
        )

    def reconfigure(self, config: KafkaConfig) -> None:
        """Applies changed settings; for transactions only the verification of partitions can
        change.
        """
        self._config = config

    async def shutdown(self) -> None:
        await self.add_partitions_to_txn.shutdown()
        await self.coordinator.shutdown()
        for client in self._clients:
            client.close()
