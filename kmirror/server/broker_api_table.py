"""What a broker does with each API. Each API has one row, and all code that depends on the API
reads that row.

    ApiVersions   advertises the rows that this broker or its controller answers and whose gate lets them be served
    dispatch      `KafkaApis` asks the gate, authorises cluster actions, and calls the row's handler
    forwarding    only what the controller answers is forwarded; if the row names a handler, the handler sees the request first

A handler is named `file.function` in `server/apis` and is imported with the first request for it,
so that unused handlers do not slow down a broker's start. An API that kmirror does not have is
refused as Kafka refuses it while its feature is off, and the feature is not announced
(`unserved_features`). Handlers check permissions that depend on the request's resources. The table
holds only ClusterAction, which is checked first and for the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.features import GROUP_VERSION, MIRROR_VERSION, SHARE_VERSION, STREAMS_VERSION
from kmirror.metadata.image import MetadataImage
from kmirror.server.client_metrics_manager import RECEIVER_CONFIG
from kmirror.server.kafka_config import KafkaConfig
from kmirror.wire.api_keys import ApiKeys

PLAINLY_FORWARDED: Final = "forwarded.handle_forwarded"
UNSTABLE_API_VERSIONS_CONFIG: Final = "unstable.api.versions.enable"
REBALANCE_PROTOCOLS_CONFIG: Final = "group.coordinator.rebalance.protocols"


class AnsweredBy(Enum):
    """Who decides what the client is told."""

    BROKER = "the broker itself"
    CONTROLLER = "the active controller; the broker forwards the request"
    GROUP_COORDINATOR = "the broker's group coordinator"
    TRANSACTION_COORDINATOR = "the broker's transaction coordinator"
    SHARE_COORDINATOR = "the broker's share coordinator"
    MIRROR = "the broker's mirror"
    CONTROLLER_LISTENER = "nobody: the API is served on the controller's listener only"
    REFUSED = "nobody: kmirror does not have the API, and says so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What must hold before an API is served.

    `served_with` is a boolean setting, fixed while the broker runs: without it the API is not
    advertised, and a request closes the connection. `feature` must be finalized at level 1 or
    above, and `protocol` must be one of the broker's rebalance protocols: otherwise a request is
    answered with UNSUPPORTED_VERSION and the text `refusal`.
    """

    served_with: str | None = None
    feature: str | None = None
    protocol: str | None = None
    refusal: str | None = None

    def is_served(self, config: KafkaConfig) -> bool:
        return self.served_with is None or config.get_bool(self.served_with)

    def check(self, config: KafkaConfig, image: MetadataImage) -> None:
        """Raises ApiException UNSUPPORTED_VERSION while the gate is closed."""
        is_open = self.feature is None or image.features.level(self.feature) >= 1
        if not is_open or (self.protocol is not None and self.protocol not in config.get_list(REBALANCE_PROTOCOLS_CONFIG)):
            raise ApiException(Errors.UNSUPPORTED_VERSION, self.refusal)


MIRRORING: Final = Gate(
    served_with=UNSTABLE_API_VERSIONS_CONFIG, feature=MIRROR_VERSION, refusal="Cluster mirroring is disabled (mirror.version=0)"
)
CONSUMER_GROUPS: Final = Gate(feature=GROUP_VERSION, protocol="consumer")
SHARE_GROUPS: Final = Gate(feature=SHARE_VERSION)
STREAMS_GROUPS: Final = Gate(feature=STREAMS_VERSION)
TELEMETRY: Final = Gate(served_with=RECEIVER_CONFIG)


@dataclass(frozen=True, slots=True)
class BrokerApi:
    """One API on a broker's listener."""

    api_key: ApiKeys
    answered_by: AnsweredBy
    handler: str = ""
    gate: Gate | None = None
    is_cluster_action: bool = False
    """Needs ClusterAction on the cluster; the whole request is refused without it."""

    def is_served(self, config: KafkaConfig) -> bool:
        """Whether a broker with these settings advertises and answers the API."""
        return bool(self.handler_name) and (self.gate is None or self.gate.is_served(config))

    @property
    def handler_name(self) -> str:
        """`file.function`; empty if this broker has no handler."""
        if self.answered_by is AnsweredBy.CONTROLLER_LISTENER:
            return ""
        return self.handler or (PLAINLY_FORWARDED if self.answered_by is AnsweredBy.CONTROLLER else "")


def _broker(api_key: ApiKeys, handler: str, gate: Gate | None = None) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.BROKER, handler, gate)


def _forwarded(api_key: ApiKeys, handler: str = "", gate: Gate | None = None, *, is_cluster_action: bool = False) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.CONTROLLER, handler, gate, is_cluster_action)


def _group(api_key: ApiKeys, handler: str, gate: Gate | None = None) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.GROUP_COORDINATOR, handler, gate)


def _transaction(api_key: ApiKeys, handler: str) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.TRANSACTION_COORDINATOR, handler)


def _share_state(api_key: ApiKeys, handler: str) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.SHARE_COORDINATOR, handler, is_cluster_action=True)


def _mirror(api_key: ApiKeys, handler: str, *, is_cluster_action: bool = False) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.MIRROR, handler, MIRRORING, is_cluster_action)


def _controllers(api_key: ApiKeys) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.CONTROLLER_LISTENER)


def _refused(api_key: ApiKeys, gate: Gate) -> BrokerApi:
    return BrokerApi(api_key, AnsweredBy.REFUSED, "unserved.handle_unserved", gate)


ROWS: Final = (
    _broker(ApiKeys.PRODUCE, "produce.handle_produce"),
    _broker(ApiKeys.FETCH, "fetch.handle_fetch"),
    _broker(ApiKeys.LIST_OFFSETS, "list_offsets.handle_list_offsets"),
    _broker(ApiKeys.METADATA, "metadata.handle_metadata"),
    _group(ApiKeys.OFFSET_COMMIT, "group_offsets.handle_offset_commit"),
    _group(ApiKeys.OFFSET_FETCH, "group_offsets.handle_offset_fetch"),
    _broker(ApiKeys.FIND_COORDINATOR, "find_coordinator.handle_find_coordinator"),
    _group(ApiKeys.JOIN_GROUP, "classic_groups.handle_join_group"),
    _group(ApiKeys.HEARTBEAT, "classic_groups.handle_heartbeat"),
    _group(ApiKeys.LEAVE_GROUP, "classic_groups.handle_leave_group"),
    _group(ApiKeys.SYNC_GROUP, "classic_groups.handle_sync_group"),
    _group(ApiKeys.DESCRIBE_GROUPS, "groups.handle_describe_groups"),
    _group(ApiKeys.LIST_GROUPS, "groups.handle_list_groups"),
    _broker(ApiKeys.SASL_HANDSHAKE, "sasl.handle_sasl_handshake"),
    _broker(ApiKeys.API_VERSIONS, "api_versions.handle_api_versions"),
    _forwarded(ApiKeys.CREATE_TOPICS),
    _forwarded(ApiKeys.DELETE_TOPICS, "mirror_guard.handle_delete_topics"),
    _broker(ApiKeys.DELETE_RECORDS, "delete_records.handle_delete_records"),
    _transaction(ApiKeys.INIT_PRODUCER_ID, "transactions.handle_init_producer_id"),
    _broker(ApiKeys.OFFSET_FOR_LEADER_EPOCH, "offset_for_leader_epoch.handle_offset_for_leader_epoch"),
    _transaction(ApiKeys.ADD_PARTITIONS_TO_TXN, "transactions.handle_add_partitions_to_txn"),
    _transaction(ApiKeys.ADD_OFFSETS_TO_TXN, "transactions.handle_add_offsets_to_txn"),
    _transaction(ApiKeys.END_TXN, "transactions.handle_end_txn"),
    _broker(ApiKeys.WRITE_TXN_MARKERS, "write_txn_markers.handle_write_txn_markers"),
    _group(ApiKeys.TXN_OFFSET_COMMIT, "txn_offset_commit.handle_txn_offset_commit"),
    _broker(ApiKeys.DESCRIBE_ACLS, "acls.handle_describe_acls"),
    _forwarded(ApiKeys.CREATE_ACLS, "acls.handle_create_acls"),
    _forwarded(ApiKeys.DELETE_ACLS, "acls.handle_delete_acls"),
    _broker(ApiKeys.DESCRIBE_CONFIGS, "describe_configs.handle_describe_configs"),
    _forwarded(ApiKeys.ALTER_CONFIGS, "forwarded.handle_alter_configs"),
    _broker(ApiKeys.ALTER_REPLICA_LOG_DIRS, "alter_replica_log_dirs.handle_alter_replica_log_dirs"),
    _broker(ApiKeys.DESCRIBE_LOG_DIRS, "describe_log_dirs.handle_describe_log_dirs"),
    _broker(ApiKeys.SASL_AUTHENTICATE, "sasl.handle_sasl_authenticate"),
    _forwarded(ApiKeys.CREATE_PARTITIONS, "mirror_guard.handle_create_partitions"),
    _forwarded(ApiKeys.CREATE_DELEGATION_TOKEN, "delegation_tokens.handle_create_delegation_token"),
    _forwarded(ApiKeys.RENEW_DELEGATION_TOKEN, "delegation_tokens.handle_renew_delegation_token"),
    _forwarded(ApiKeys.EXPIRE_DELEGATION_TOKEN, "delegation_tokens.handle_expire_delegation_token"),
    _broker(ApiKeys.DESCRIBE_DELEGATION_TOKEN, "delegation_tokens.handle_describe_delegation_token"),
    _group(ApiKeys.DELETE_GROUPS, "groups.handle_delete_groups"),
    _forwarded(ApiKeys.ELECT_LEADERS),
    _forwarded(ApiKeys.INCREMENTAL_ALTER_CONFIGS, "forwarded.handle_alter_configs"),
    _forwarded(ApiKeys.ALTER_PARTITION_REASSIGNMENTS),
    _forwarded(ApiKeys.LIST_PARTITION_REASSIGNMENTS),
    _group(ApiKeys.OFFSET_DELETE, "group_offsets.handle_offset_delete"),
    _broker(ApiKeys.DESCRIBE_CLIENT_QUOTAS, "describe_client_quotas.handle_describe_client_quotas"),
    _forwarded(ApiKeys.ALTER_CLIENT_QUOTAS),
    _broker(ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS, "scram.handle_describe_user_scram_credentials"),
    _forwarded(ApiKeys.ALTER_USER_SCRAM_CREDENTIALS),
    _controllers(ApiKeys.VOTE),
    _controllers(ApiKeys.BEGIN_QUORUM_EPOCH),
    _controllers(ApiKeys.END_QUORUM_EPOCH),
    _forwarded(ApiKeys.DESCRIBE_QUORUM),
    _controllers(ApiKeys.ALTER_PARTITION),
    _forwarded(ApiKeys.UPDATE_FEATURES),
    _controllers(ApiKeys.ENVELOPE),
    _controllers(ApiKeys.FETCH_SNAPSHOT),
    _broker(ApiKeys.DESCRIBE_CLUSTER, "describe_cluster.handle_describe_cluster"),
    _broker(ApiKeys.DESCRIBE_PRODUCERS, "describe_producers.handle_describe_producers"),
    _controllers(ApiKeys.BROKER_REGISTRATION),
    _controllers(ApiKeys.BROKER_HEARTBEAT),
    _forwarded(ApiKeys.UNREGISTER_BROKER),
    _transaction(ApiKeys.DESCRIBE_TRANSACTIONS, "describe_transactions.handle_describe_transactions"),
    _transaction(ApiKeys.LIST_TRANSACTIONS, "describe_transactions.handle_list_transactions"),
    _controllers(ApiKeys.ALLOCATE_PRODUCER_IDS),
    _group(ApiKeys.CONSUMER_GROUP_HEARTBEAT, "consumer_groups.handle_consumer_group_heartbeat", CONSUMER_GROUPS),
    _group(ApiKeys.CONSUMER_GROUP_DESCRIBE, "consumer_groups.handle_consumer_group_describe", CONSUMER_GROUPS),
    _controllers(ApiKeys.CONTROLLER_REGISTRATION),
    _broker(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, "telemetry.handle_get_telemetry_subscriptions", TELEMETRY),
    _broker(ApiKeys.PUSH_TELEMETRY, "telemetry.handle_push_telemetry", TELEMETRY),
    _controllers(ApiKeys.ASSIGN_REPLICAS_TO_DIRS),
    _broker(ApiKeys.LIST_CONFIG_RESOURCES, "list_config_resources.handle_list_config_resources"),
    _broker(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, "describe_topic_partitions.handle_describe_topic_partitions"),
    _refused(ApiKeys.SHARE_GROUP_HEARTBEAT, SHARE_GROUPS),
    _group(ApiKeys.SHARE_GROUP_DESCRIBE, "share_groups.handle_share_group_describe", SHARE_GROUPS),
    _refused(ApiKeys.SHARE_FETCH, SHARE_GROUPS),
    _refused(ApiKeys.SHARE_ACKNOWLEDGE, SHARE_GROUPS),
    _forwarded(ApiKeys.ADD_RAFT_VOTER),
    _forwarded(ApiKeys.REMOVE_RAFT_VOTER),
    _controllers(ApiKeys.UPDATE_RAFT_VOTER),
    _share_state(ApiKeys.INITIALIZE_SHARE_GROUP_STATE, "share_group_state.handle_initialize"),
    _share_state(ApiKeys.READ_SHARE_GROUP_STATE, "share_group_state.handle_read"),
    _share_state(ApiKeys.WRITE_SHARE_GROUP_STATE, "share_group_state.handle_write"),
    _share_state(ApiKeys.DELETE_SHARE_GROUP_STATE, "share_group_state.handle_delete"),
    _share_state(ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY, "share_group_state.handle_read_summary"),
    _refused(ApiKeys.STREAMS_GROUP_HEARTBEAT, STREAMS_GROUPS),
    _refused(ApiKeys.STREAMS_GROUP_DESCRIBE, STREAMS_GROUPS),
    _group(ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS, "share_groups.handle_describe_share_group_offsets", SHARE_GROUPS),
    _group(ApiKeys.ALTER_SHARE_GROUP_OFFSETS, "share_groups.handle_alter_share_group_offsets", SHARE_GROUPS),
    _group(ApiKeys.DELETE_SHARE_GROUP_OFFSETS, "share_groups.handle_delete_share_group_offsets", SHARE_GROUPS),
    _forwarded(ApiKeys.CREATE_MIRROR, "mirror.handle_create_mirror", MIRRORING),
    _forwarded(ApiKeys.ADD_TOPICS_TO_MIRROR, "mirror.handle_topics", MIRRORING),
    _forwarded(ApiKeys.REMOVE_TOPICS_FROM_MIRROR, "mirror.handle_topics", MIRRORING),
    _mirror(ApiKeys.LIST_MIRRORS, "mirror.handle_list_mirrors"),
    _mirror(ApiKeys.DESCRIBE_MIRRORS, "mirror.handle_describe_mirrors"),
    _mirror(ApiKeys.READ_MIRROR_STATES, "mirror_states.handle_read_mirror_states", is_cluster_action=True),
    _mirror(ApiKeys.WRITE_MIRROR_STATES, "mirror_states.handle_write_mirror_states", is_cluster_action=True),
    _forwarded(ApiKeys.PAUSE_MIRROR_TOPICS, "mirror.handle_topics", MIRRORING),
    _forwarded(ApiKeys.RESUME_MIRROR_TOPICS, "mirror.handle_topics", MIRRORING),
    _forwarded(ApiKeys.DELETE_MIRROR, "mirror.handle_delete_mirror", MIRRORING),
    _forwarded(ApiKeys.BUMP_LEADER_EPOCHS, gate=MIRRORING, is_cluster_action=True),
)
"""The rows in the order of the API keys."""

BROKER_API_TABLE: Final[Mapping[ApiKeys, BrokerApi]] = {row.api_key: row for row in ROWS}


def unserved_features() -> set[str]:
    """The features whose clients are refused, whatever level is finalized: `share.version` opens
    the offsets and states of share groups, which mirrors need, and no share consumer is served.
    """
    refused = [row.gate for row in ROWS if row.answered_by is AnsweredBy.REFUSED]
    return {gate.feature for gate in refused if gate is not None and gate.feature is not None}
