"""How this broker's fetchers reach the leaders in their own cluster that they copy from."""

from __future__ import annotations

from kmirror.network.client import NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.replica.broker_leader_end_point import BrokerLeaderEndPoint
from kmirror.replica.leader_end_point import LeaderEndPoint
from kmirror.runtime.api import Runtime
from kmirror.server.broker_metadata import BrokerMetadata
from kmirror.server.kafka_config import KafkaConfig


class LeaderConnections:
    """Gives each fetcher a connection of its own, since a fetch waits long at the leader."""

    def __init__(self, runtime: Runtime, config: KafkaConfig, metadata: BrokerMetadata, security: ClientSecurity) -> None:
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._security = security

    def connect(self, leader_id: int, fetcher_id: int) -> LeaderEndPoint | None:
        """Returns None while the metadata has no address for the leader."""
        address = self._metadata.address_of(leader_id)
        if address is None:
            return None
        host, port = address
        client = NetworkClient(self._runtime, f"broker-{self._config.node_id}-fetcher-{fetcher_id}", security=self._security)
        return BrokerLeaderEndPoint(
            client,
            host,
            port,
            self._config.replica_config(),
            broker_epoch=self._metadata.broker_epoch_of(self._config.node_id),
            request_timeout_ms=self._config.request_timeout_ms,
        )
