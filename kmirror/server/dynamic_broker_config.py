"""Broker settings that change while the broker runs, and what acts on them (Kafka's
`DynamicBrokerConfig`).

This broker's own dynamic setting (resource "<id>") comes before the cluster-wide one (resource ""),
and that comes before the properties file. A change makes a new `KafkaConfig`. Each reconfigurable
part of the broker gets the old and the new one and takes what it needs:

    topics' defaults (log.*, min.insync.replicas, message.max.bytes ...)      LogManager: every log gets its config anew
    log.cleaner.threads                                                       LogCleanerTasks
    log.cleaner.*, producer.id.expiration.ms, transaction.partition...enable  LogManager (the last one: Transactions, too)
    max.connections, .per.ip, .per.ip.overrides, listener.name.*.max...       the socket servers
    num.replica.fetchers                                                      ReplicaFetcherManager
    group.consumer.assignment.interval.ms                                     GroupCoordinator

Replication throttles, connection rates and cordoned directories have publishers of their own. A
setting that no part here can apply (threads of pools that we do not have) is kept and shown.
Invalid values are refused before they are stored (`dynamic_config_validation`). An invalid value
that came in through the controller's own listener is ignored, with an error in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as replace_struct

from kmirror.common.config import UpdateMode
from kmirror.common.errors import ConfigError
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_BROKER, ConfigResource, MetadataImage
from kmirror.metadata.loader import LoaderManifest
from kmirror.metadata.resource_configs import broker_update_mode
from kmirror.network.socket_server import SocketServer
from kmirror.replica.replica_fetcher_manager import ReplicaFetcherManager
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.server.dynamic_config_validation import effective_config
from kmirror.server.kafka_config import KafkaConfig
from kmirror.storage.log_manager import LogManager

Reconfigurable = Callable[[KafkaConfig, KafkaConfig], None]
"""Called with the config before and after a change."""

_log = logging.getLogger(__name__)


class DynamicBrokerConfig:
    """Owns the configuration in force, `current`.

    A `MetadataPublisher`; install it before the publishers that create logs.
    """

    name = "DynamicBrokerConfig"

    def __init__(self, config: KafkaConfig, *reconfigurables: Reconfigurable) -> None:
        self.current = config
        self._static = config
        self._reconfigurables = reconfigurables

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        resources = (ConfigResource(RESOURCE_BROKER, ""), ConfigResource(RESOURCE_BROKER, str(self._static.node_id)))
        if any(resource in delta.configs.changed for resource in resources):
            default = {
                name: value
                for name, value in image.configs.cluster_default().items()
                if broker_update_mode(name) is not UpdateMode.PER_BROKER
            }
            self._apply(default, image.configs.broker(self._static.node_id))

    def _apply(self, default: Mapping[str, str], own: Mapping[str, str]) -> None:
        before = self.current
        try:
            self.current = effective_config(self._static, default, own)
        except ConfigError:
            self.current = effective_config(self._static, self._valid(default), self._valid(own))
        for reconfigure in self._reconfigurables:
            reconfigure(before, self.current)

    def _valid(self, props: Mapping[str, str]) -> dict[str, str]:
        """Returns the settings that are valid together, adding one after the other."""
        valid: dict[str, str] = {}
        for name, value in props.items():
            try:
                effective_config(self._static, {}, {**valid, name: value})
            except ConfigError as error:
                _log.error("The dynamic config %s was not applied: %s", name, error)
                continue
            valid[name] = value
        return valid


def reconfigure_logs(log_manager: LogManager) -> Reconfigurable:
    """Returns what applies the defaults of topics and the settings of the log manager and the
    cleaner.
    """

    def reconfigure(before: KafkaConfig, after: KafkaConfig) -> None:
        if after.default_log_config() != before.default_log_config():
            log_manager.reconfigure_default_log_config(after.default_log_config())
        if after.log_manager_config() != before.log_manager_config():
            log_manager.reconfigure(after.log_manager_config())

    return reconfigure


def reconfigure_sockets(sockets: Sequence[SocketServer]) -> Reconfigurable:
    """Returns what applies connection limits; a listener's `max.connections` is capped by the
    broker's.
    """

    def reconfigure(before: KafkaConfig, after: KafkaConfig) -> None:
        for socket in sockets:
            limits = after.socket_server_limits()
            own = after.props.get(f"listener.name.{socket.listener_name.lower()}.max.connections")
            if own is not None:
                limits = replace(limits, max_connections=min(limits.max_connections, int(own)))
            socket.update_limits(limits)

    return reconfigure


def reconfigure_fetchers(replica_manager: ReplicaManager, fetchers: ReplicaFetcherManager) -> Reconfigurable:
    """Returns what spreads the partitions anew when num.replica.fetchers changes."""

    def reconfigure(before: KafkaConfig, after: KafkaConfig) -> None:
        count = after.get_int("num.replica.fetchers")
        if count != replica_manager.config.num_replica_fetchers:
            replica_manager.config = replace_struct(replica_manager.config, num_replica_fetchers=count)
            fetchers.spread_anew()

    return reconfigure
