"""What the mirror needs of the broker it runs in, besides the replica manager;
`server.broker_server` provides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kmirror.network.client import NetworkClient


class SourceClientFactory(Protocol):
    """Makes the clients of one mirror towards its source cluster, with the mirror's security
    settings.
    """

    def __call__(self, client_id: str, mirror_configs: dict[str, str]) -> NetworkClient: ...


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """The broker settings of mirroring; `server.kafka_config` fills it from the property names in
    the comments.
    """

    broker_id: int
    mirror_topic_num_partitions: int = 50  # mirror.topic.num.partitions
    mirror_topic_replication_factor: int = 3  # mirror.topic.replication.factor
    mirror_num_replica_fetchers: int = 1  # mirror.num.replica.fetchers
    mirror_metadata_refresh_interval_ms: int = 30_000  # mirror.metadata.refresh.interval.ms; 0 = only on demand
    mirror_fetch_backoff_ms: int = 1_000  # mirror.fetch.backoff.ms
    mirror_truncation_backoff_ms: int = 5_000  # mirror.truncation.backoff.ms
    request_timeout_ms: int = 30_000  # request.timeout.ms
    socket_connection_setup_timeout_ms: int = 10_000  # socket.connection.setup.timeout.ms
    socket_send_buffer_bytes: int = -1  # socket.send.buffer.bytes, where it is set
    socket_receive_buffer_bytes: int = -1  # replica.socket.receive.buffer.bytes or socket.receive.buffer.bytes, where one is set
    replica_lag_time_max_ms: int = 30_000  # replica.lag.time.max.ms
    replica_fetch_max_bytes: int = 1_048_576  # replica.fetch.max.bytes
    replica_fetch_response_max_bytes: int = 10_485_760  # replica.fetch.response.max.bytes
    replica_fetch_min_bytes: int = 1  # replica.fetch.min.bytes
    replica_fetch_wait_max_ms: int = 500  # replica.fetch.wait.max.ms
    offsets_retention_ms: int = 604_800_000  # offsets.retention.minutes
    static_topic_configs: Mapping[str, str] = field(default_factory=dict)  # topic defaults by the broker's properties
    has_authorizer: bool = False  # authorizer.class.name
    config_providers: Mapping[str, str] = field(default_factory=dict)  # config.providers and config.providers.*
