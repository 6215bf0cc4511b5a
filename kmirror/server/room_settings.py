"""Builds the settings of the packages below `server` from the broker's properties."""

from __future__ import annotations

from kmirror.coordinator.group.group_coordinator_config import ConsumerGroupMigrationPolicy, GroupCoordinatorConfig
from kmirror.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from kmirror.metadata.topic_configs import inherited_topic_configs
from kmirror.mirror.ports import MirrorConfig
from kmirror.network.config_providers import provider_props
from kmirror.server.kafka_config import KafkaConfig


def group_config(config: KafkaConfig) -> GroupCoordinatorConfig:
    """The group coordinator's settings from the broker's properties."""
    return GroupCoordinatorConfig(
        max_size=config.get_int("group.max.size"),
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        offset_metadata_max_size=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
        consumer_assignors=tuple(config.get_list("group.consumer.assignors")),
        consumer_max_size=config.get_int("group.consumer.max.size"),
        consumer_session_timeout_ms=config.get_int("group.consumer.session.timeout.ms"),
        consumer_min_session_timeout_ms=config.get_int("group.consumer.min.session.timeout.ms"),
        consumer_max_session_timeout_ms=config.get_int("group.consumer.max.session.timeout.ms"),
        consumer_heartbeat_interval_ms=config.get_int("group.consumer.heartbeat.interval.ms"),
        consumer_min_heartbeat_interval_ms=config.get_int("group.consumer.min.heartbeat.interval.ms"),
        consumer_max_heartbeat_interval_ms=config.get_int("group.consumer.max.heartbeat.interval.ms"),
        consumer_assignment_interval_ms=config.get_int("group.consumer.assignment.interval.ms"),
        consumer_min_assignment_interval_ms=config.get_int("group.consumer.min.assignment.interval.ms"),
        consumer_max_assignment_interval_ms=config.get_int("group.consumer.max.assignment.interval.ms"),
        consumer_regex_refresh_interval_ms=config.get_int("group.consumer.regex.refresh.interval.ms"),
        share_session_timeout_ms=config.get_int("group.share.session.timeout.ms"),
        share_min_session_timeout_ms=config.get_int("group.share.min.session.timeout.ms"),
        share_max_session_timeout_ms=config.get_int("group.share.max.session.timeout.ms"),
        consumer_migration_policy=ConsumerGroupMigrationPolicy((config.get_string("group.consumer.migration.policy") or "").lower()),
    )


def share_coordinator_config(config: KafkaConfig) -> ShareCoordinatorConfig:
    """The share coordinator's settings."""
    return ShareCoordinatorConfig(
        snapshot_update_records_per_snapshot=config.get_int("share.coordinator.snapshot.update.records.per.snapshot"),
        write_timeout_ms=config.get_int("share.coordinator.write.timeout.ms"),
        prune_interval_ms=config.get_int("share.coordinator.state.topic.prune.interval.ms"),
        cold_partition_snapshot_interval_ms=config.get_int("share.coordinator.cold.partition.snapshot.interval.ms"),
    )


def mirror_config(config: KafkaConfig) -> MirrorConfig:
    """The broker settings of mirroring."""
    return MirrorConfig(
        broker_id=config.node_id,
        mirror_topic_num_partitions=config.mirror_topic_num_partitions,
        mirror_topic_replication_factor=config.mirror_topic_replication_factor,
        mirror_num_replica_fetchers=config.get_int("mirror.num.replica.fetchers"),
        mirror_metadata_refresh_interval_ms=config.get_int("mirror.metadata.refresh.interval.ms"),
        mirror_fetch_backoff_ms=config.get_int("mirror.fetch.backoff.ms"),
        mirror_truncation_backoff_ms=config.get_int("mirror.truncation.backoff.ms"),
        request_timeout_ms=config.request_timeout_ms,
        socket_connection_setup_timeout_ms=config.get_int("socket.connection.setup.timeout.ms"),
        socket_send_buffer_bytes=config.bytes_where_set("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes=config.bytes_where_set("replica.socket.receive.buffer.bytes", "socket.receive.buffer.bytes"),
        replica_lag_time_max_ms=config.get_int("replica.lag.time.max.ms"),
        replica_fetch_max_bytes=config.get_int("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=config.get_int("replica.fetch.response.max.bytes"),
        replica_fetch_min_bytes=config.get_int("replica.fetch.min.bytes"),
        replica_fetch_wait_max_ms=config.get_int("replica.fetch.wait.max.ms"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        static_topic_configs=inherited_topic_configs(config.props),
        has_authorizer=bool(config.get_string("authorizer.class.name")),
        config_providers=provider_props(config.props),
    )
