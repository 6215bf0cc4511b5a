"""The controller's settings; `server.kafka_config` fills them from the property names in the
comments."""

from __future__ import annotations

from msgspec import Struct, field

from kmirror.metadata.registrations import Endpoint


class ControllerConfig(Struct, frozen=True):
    """The defaults are Kafka 4.3's."""

    node_id: int  # node.id
    cluster_id: str  # meta.properties
    metadata_log_dir: str  # metadata.log.dir, else the first of log.dirs
    directory_id: str = ""  # meta.properties of metadata_log_dir
    listeners: tuple[Endpoint, ...] = ()  # the controller's advertised listeners
    default_replication_factor: int = 1  # default.replication.factor
    num_partitions: int = 1  # num.partitions
    broker_session_timeout_ms: int = 9_000  # broker.session.timeout.ms
    metadata_max_idle_interval_ms: int = 500  # metadata.max.idle.interval.ms; 0 = no NoOpRecords
    snapshot_max_new_record_bytes: int = 20 * 1024 * 1024  # metadata.log.max.record.bytes.between.snapshots
    snapshot_max_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0 = never by time
    metadata_max_retention_bytes: int = 104_857_600  # metadata.max.retention.bytes
    metadata_max_retention_ms: int = 604_800_000  # metadata.max.retention.ms
    metadata_segment_bytes: int = 1_073_741_824  # metadata.log.segment.bytes
    metadata_segment_ms: int = 604_800_000  # metadata.log.segment.ms
    leader_imbalance_check_interval_ms: int = 300_000  # leader.imbalance.check.interval.seconds, in ms; 0 = off
    unclean_election_interval_ms: int = 300_000  # unclean.leader.election.interval.ms; 0 = off
    delegation_token_secret_key: str | None = None  # delegation.token.secret.key; None = no tokens
    delegation_token_max_lifetime_ms: int = 604_800_000  # delegation.token.max.lifetime.ms
    delegation_token_expiry_time_ms: int = 86_400_000  # delegation.token.expiry.time.ms
    delegation_token_expiry_check_interval_ms: int = 3_600_000  # delegation.token.expiry.check.interval.ms
    delete_topic_enable: bool = True  # delete.topic.enable
    static_topic_configs: dict[str, str] = field(
        default_factory=dict
    )  # the node's own server properties that are synonyms of topic configs
    mirror_topic_num_partitions: int = 50  # mirror.topic.num.partitions
    mirror_topic_replication_factor: int = 3  # mirror.topic.replication.factor
    unstable_api_versions_enable: bool = False  # unstable.api.versions.enable
    unstable_feature_versions_enable: bool = False  # unstable.feature.versions.enable
