"""A node's settings from a properties file, under Kafka's names and checked as Kafka checks them
(Kafka's `KafkaConfig`).

`KafkaConfig.from_props` parses and validates; its errors are `ConfigError`s with Kafka's text.
Unknown names are kept in `unknown`; `log_unused` warns of them (as Kafka does), and of Kafka's names
that nothing here reads (the flag N of `broker_config_table`). Packages below
`server` get the properties that they need as small settings of their own (`replica_config`,
`log_manager_config`, `default_log_config`, `socket_server_limits`, `controller_config`), so that
none of them reads this one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import Password
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_config import ControllerConfig
from kmirror.metadata.authorizer.standard_authorizer import AUTHORIZER_CONFIGS
from kmirror.metadata.registrations import Endpoint
from kmirror.metadata.topic_configs import inherited_topic_configs
from kmirror.network.config_providers import ResolvedConfigs, is_provider_config
from kmirror.network.socket_server import SocketServerLimits
from kmirror.replica.replica_types import ReplicaConfig
from kmirror.server.broker_configs import broker_configs, configs_without_effect
from kmirror.server.kafka_config_validation import validate
from kmirror.server.listeners import Listener
from kmirror.server.node_listeners import NodeListeners
from kmirror.server.quorum_config import QuorumConfig
from kmirror.storage.log_cleaner import CleanerConfig
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager_config import LogManagerConfig

BROKER_ROLE = "broker"
CONTROLLER_ROLE = "controller"

_log = logging.getLogger(__name__)


class KafkaConfig(AbstractConfig):
    """The settings of one node. The named properties are those that code uses."""

    def __init__(self, props: Mapping[str, str]) -> None:
        self.resolved = ResolvedConfigs({}, {})
        """The references in the properties file, which error texts show in place of the values
        (`as_written`).
        """
        super().__init__(broker_configs(), _with_synonyms(props))
        self.unknown = unknown_names(props)
        self._node_listeners = NodeListeners(self)
        self.listeners = self._node_listeners.all
        self.advertised_listeners = self._node_listeners.advertised
        self._quorum = QuorumConfig(self)
        validate(self, self._node_listeners, self._quorum, is_broker=self.is_broker, is_controller=self.is_controller)

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> KafkaConfig:
        """Raises ConfigError if a value, or the configuration as a whole, is wrong."""
        if not isinstance(props, ResolvedConfigs):
            return cls(props)
        with props.telling_as_written():
            config = cls(props)
        config.resolved = props
        return config

    def log_unused(self) -> None:
        """Warns of what was supplied and changes nothing: names that nobody knows, and Kafka's that
        have no effect here.
        """
        if self.unknown:
            _log.warning("These configurations '[%s]' were supplied but are not used yet.", ", ".join(self.unknown))
        idle = [name for name in self.props if _base_name(name) in configs_without_effect()]
        if idle:
            _log.warning("These configurations of Kafka '[%s]' are accepted and checked, but have no effect in kmirror.", ", ".join(idle))

    # --- node
    # -------------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def process_roles(self) -> list[str]:
        return self.get_list("process.roles")

    @property
    def is_broker(self) -> bool:
        return BROKER_ROLE in self.process_roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.process_roles

    @property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(_as_java_names_it(path) for path in self.get_list("log.dirs") or self.get_list("log.dir"))

    @property
    def metadata_log_dir(self) -> str:
        return _as_java_names_it(self.get_string("metadata.log.dir") or self.log_dirs[0])

    @property
    def controller_listener_names(self) -> list[str]:
        return self._node_listeners.controller_names

    @property
    def broker_listeners(self) -> list[Listener]:
        """What the broker listens on."""
        return self._node_listeners.broker

    @property
    def controller_listeners(self) -> list[Listener]:
        """What the controller listens on."""
        return self._node_listeners.controller

    @property
    def inter_broker_listener_name(self) -> str:
        return self._node_listeners.inter_broker_name

    def security_protocol_of(self, listener_name: str) -> str:
        """Returns the protocol of any listener, whether or not it is this node's own."""
        return self._node_listeners.security_protocol_of(listener_name)

    @property
    def quorum_voters(self) -> dict[int, tuple[str, int]]:
        return self._quorum.voters

    @property
    def quorum_bootstrap_servers(self) -> list[tuple[str, int]]:
        return self._quorum.bootstrap_servers

    @property
    def delegation_token_secret_key(self) -> str | None:
        secret = self.values["delegation.token.secret.key"]
        return secret.value if isinstance(secret, Password) and secret.value else None

    # --- what handlers use
    # ------------------------------------------------------------------------------------------

    @property
    def unstable_api_versions_enable(self) -> bool:
        return self.get_bool("unstable.api.versions.enable")

    @property
    def unstable_feature_versions_enable(self) -> bool:
        return self.get_bool("unstable.feature.versions.enable")

    @property
    def auto_create_topics_enable(self) -> bool:
        return self.get_bool("auto.create.topics.enable")

    @property
    def num_partitions(self) -> int:
        return self.get_int("num.partitions")

    @property
    def default_replication_factor(self) -> int:
        return self.get_int("default.replication.factor")

    @property
    def request_timeout_ms(self) -> int:
        return self.get_int("request.timeout.ms")

    @property
    def fetch_max_bytes(self) -> int:
        return self.get_int("fetch.max.bytes")

    @property
    def max_incremental_fetch_session_cache_slots(self) -> int:
        return self.get_int("max.incremental.fetch.session.cache.slots")

    @property
    def max_request_partition_size_limit(self) -> int:
        return self.get_int("max.request.partition.size.limit")

    @property
    def offsets_topic_num_partitions(self) -> int:
        return self.get_int("offsets.topic.num.partitions")

    @property
    def offsets_topic_replication_factor(self) -> int:
        return self.get_int("offsets.topic.replication.factor")

    @property
    def offsets_topic_segment_bytes(self) -> int:
        return self.get_int("offsets.topic.segment.bytes")

    @property
    def mirror_topic_num_partitions(self) -> int:
        return self.get_int("mirror.topic.num.partitions")

    @property
    def mirror_topic_replication_factor(self) -> int:
        return self.get_int("mirror.topic.replication.factor")

    # --- settings of lower rooms
    # ------------------------------------------------------------------------------------

    def replica_config(self) -> ReplicaConfig:
        return ReplicaConfig(
            broker_id=self.node_id,
            high_watermark_checkpoint_interval_ms=self.get_int("replica.high.watermark.checkpoint.interval.ms"),
            replica_lag_time_max_ms=self.get_int("replica.lag.time.max.ms"),
            replica_fetch_max_bytes=self.get_int("replica.fetch.max.bytes"),
            replica_fetch_response_max_bytes=self.get_int("replica.fetch.response.max.bytes"),
            replica_fetch_min_bytes=self.get_int("replica.fetch.min.bytes"),
            replica_fetch_wait_max_ms=self.get_int("replica.fetch.wait.max.ms"),
            replica_fetch_backoff_ms=self.get_int("replica.fetch.backoff.ms"),
            num_replica_fetchers=self.get_int("num.replica.fetchers"),
            num_replica_alter_log_dirs_threads=self._alter_log_dirs_threads(),
            replica_selector_class=self.get_string("replica.selector.class"),
            replication_quota_window_num=self.get_int("replication.quota.window.num"),
            replication_quota_window_size_seconds=self.get_int("replication.quota.window.size.seconds"),
            alter_log_dirs_replication_quota_window_num=self.get_int("alter.log.dirs.replication.quota.window.num"),
            alter_log_dirs_replication_quota_window_size_seconds=self.get_int("alter.log.dirs.replication.quota.window.size.seconds"),
        )

    def _alter_log_dirs_threads(self) -> int:
        """Returns num.replica.alter.log.dirs.threads; the default is one for each log directory."""
        threads = self.get_optional_int("num.replica.alter.log.dirs.threads")
        return len(self.log_dirs) if threads is None else max(1, threads)

    def topic_config_defaults(self) -> dict[str, str]:
        """Returns the topic configs that this node's properties imply, as text."""
        return inherited_topic_configs(self.props)

    def default_log_config(self) -> LogConfig:
        return LogConfig.from_props(self.topic_config_defaults())

    def log_manager_config(self) -> LogManagerConfig:
        flush_check_interval_ms = self.get_int("log.flush.scheduler.interval.ms")
        return LogManagerConfig(
            log_dirs=self.log_dirs,
            cleaner=CleanerConfig(
                enable=self.get_bool("log.cleaner.enable"),
                threads=self.get_int("log.cleaner.threads"),
                dedupe_buffer_size=self.get_int("log.cleaner.dedupe.buffer.size"),
                dedupe_buffer_load_factor=self.get_float("log.cleaner.io.buffer.load.factor"),
                backoff_ms=self.get_int("log.cleaner.backoff.ms"),
                io_max_bytes_per_second=self.get_float("log.cleaner.io.max.bytes.per.second"),
            ),
            initial_task_delay_ms=self.get_int("log.initial.task.delay.ms"),
            retention_check_interval_ms=self.get_int("log.retention.check.interval.ms"),
            flush_check_interval_ms=flush_check_interval_ms,
            flush_recovery_offset_checkpoint_interval_ms=self.get_int("log.flush.offset.checkpoint.interval.ms"),
            flush_start_offset_checkpoint_interval_ms=self.get_int("log.flush.start.offset.checkpoint.interval.ms"),
            max_transaction_timeout_ms=self.get_int("transaction.max.timeout.ms"),
            producer_id_expiration_ms=self.get_int("producer.id.expiration.ms"),
            producer_id_expiration_check_interval_ms=self.get_int("producer.id.expiration.check.interval.ms"),
            transaction_verification_enabled=self.get_bool("transaction.partition.verification.enable"),
            defer_files=True,
        )

    def socket_server_limits(self) -> SocketServerLimits:
        overrides: dict[str, int] = {}
        for entry in filter(None, (self.get_string("max.connections.per.ip.overrides") or "").split(",")):
            address, _, count = entry.strip().rpartition(":")
            overrides[address] = int(count)
        return SocketServerLimits(
            socket_request_max_bytes=self.get_int("socket.request.max.bytes"),
            max_connections=self.get_int("max.connections"),
            max_connections_per_ip=self.get_int("max.connections.per.ip"),
            max_connections_per_ip_overrides=overrides,
            connections_max_idle_ms=self.get_int("connections.max.idle.ms"),
            socket_send_buffer_bytes=self.bytes_where_set("socket.send.buffer.bytes"),
            socket_receive_buffer_bytes=self.bytes_where_set("socket.receive.buffer.bytes"),
        )

    def bytes_where_set(self, *names: str) -> int:
        """Returns the value of the first of `names` that is set, or -1 if none is.

        Kafka's defaults for sockets (64 and 100 KiB) would keep the system from adapting its
        buffers to each connection.
        """
        return next((self.get_int(name) for name in names if name in self.props), -1)

    def controller_config(self, *, cluster_id: str, directory_id: Uuid, listeners: tuple[Endpoint, ...]) -> ControllerConfig:
        """`listeners` are the controller's bound and advertised endpoints."""
        return ControllerConfig(
            node_id=self.node_id,
            cluster_id=cluster_id,
            metadata_log_dir=self.metadata_log_dir,
            directory_id=str(directory_id),
            listeners=listeners,
            default_replication_factor=self.default_replication_factor,
            num_partitions=self.num_partitions,
            broker_session_timeout_ms=self.get_int("broker.session.timeout.ms"),
            metadata_max_idle_interval_ms=self.get_int("metadata.max.idle.interval.ms"),
            snapshot_max_new_record_bytes=self.get_int("metadata.log.max.record.bytes.between.snapshots"),
            snapshot_max_interval_ms=self.get_int("metadata.log.max.snapshot.interval.ms"),
            metadata_max_retention_bytes=self.get_int("metadata.max.retention.bytes"),
            metadata_max_retention_ms=self.get_int("metadata.max.retention.ms"),
            metadata_segment_bytes=self.get_int("metadata.log.segment.bytes"),
            metadata_segment_ms=self.get_int("metadata.log.segment.ms"),
            leader_imbalance_check_interval_ms=self._leader_imbalance_check_interval_ms(),
            unclean_election_interval_ms=self.get_int("unclean.leader.election.interval.ms"),
            delegation_token_secret_key=self.delegation_token_secret_key,
            delegation_token_max_lifetime_ms=self.get_int("delegation.token.max.lifetime.ms"),
            delegation_token_expiry_time_ms=self.get_int("delegation.token.expiry.time.ms"),
            delegation_token_expiry_check_interval_ms=self.get_int("delegation.token.expiry.check.interval.ms"),
            delete_topic_enable=self.get_bool("delete.topic.enable"),
            static_topic_configs=dict(self.props),
            mirror_topic_num_partitions=self.mirror_topic_num_partitions,
            mirror_topic_replication_factor=self.mirror_topic_replication_factor,
            unstable_api_versions_enable=self.unstable_api_versions_enable,
            unstable_feature_versions_enable=self.unstable_feature_versions_enable,
        )

    def _leader_imbalance_check_interval_ms(self) -> int:
        enabled = self.get_bool("auto.leader.rebalance.enable")
        return self.get_int("leader.imbalance.check.interval.seconds") * 1_000 if enabled else 0


def unknown_names(props: Mapping[str, str]) -> list[str]:
    """Returns the properties that no node of ours knows."""
    return [name for name in broker_configs().unknown_names(props) if not _is_used_elsewhere(name)]


def _base_name(name: str) -> str:
    """Returns the name of a setting without the listener that it may be for."""
    match = re.fullmatch(r"listener\.name\.[^.]+\.(.+)", name)
    return name if match is None else match[1]


def _as_java_names_it(path: str) -> str:
    """Returns a directory as `java.io.File` names it, so that each directory has one name.

    Slashes are single, and there is none at the end.
    """
    return re.sub("/+", "/", path).rstrip("/") or path[:1]


def _is_used_elsewhere(name: str) -> bool:
    return name in AUTHORIZER_CONFIGS or is_provider_config(name) or _is_of_listener(name)


def _is_of_listener(name: str) -> bool:
    """Whether a setting belongs to one listener or one mechanism; `listener_security` reads
    those.
    """
    return name.startswith("listener.name.") or name.endswith((".sasl.jaas.config", ".connections.max.reauth.ms"))


def _with_synonyms(props: Mapping[str, str]) -> dict[str, str]:
    """`node.id` and `broker.id` stand for each other if only one of them is set."""
    result = dict(props)
    for name, synonym in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in props:
            result.setdefault(synonym, props[name])
    return result
