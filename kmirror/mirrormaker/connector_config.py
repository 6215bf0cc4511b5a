"""Every property of MirrorMaker 2's connectors, in one table (Kafka's `MirrorConnectorConfig`,
`MirrorSourceConfig`, `MirrorCheckpointConfig`, `MirrorHeartbeatConfig`).

A row says which connectors define the property (S source, C checkpoint, H heartbeat; none if only a
filter reads it), its type, its
default in Kafka 4 and, where it is another, in KIP-382's text. The profile `kafka-4` is kmirror's
choice; `k382` has the KIP's defaults, and the properties that Kafka dropped before the release.

Clients of a cluster get, from weak to strong: `<role>.cluster.x` (only the settings of
`client_configs`), `producer.x` / `consumer.x` / `admin.x`, and `<role>.producer.x` and so on, where
the role is `source` or `target`. A property without a prefix (`security.protocol`) is defined for a
connector, but no client of it reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    Validator,
    at_least,
    invalid_value,
    valid_list,
    valid_string,
)
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.client_configs import CLIENT_CONFIG_NAMES, define_security
from kmirror.mirrormaker.cycles import SourceAndTarget, TopicSelection
from kmirror.mirrormaker.property_names import current_names
from kmirror.mirrormaker.replication_policy import ReplicationPolicy, replication_policy
from kmirror.mirrormaker.topic_filters import (
    CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
)

KAFKA_4, K382 = "kafka-4", "k382"
PACKAGE: Final = "org.apache.kafka.connect.mirror."
CLIENT_KINDS: Final = ("producer", "consumer", "admin")
NO_PROPERTY: Final = object()
"""The profile does not have the property."""
_BOOLEAN, _STRING, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _LIST, _CLASS = ConfigType.LONG, ConfigType.LIST, ConfigType.CLASS
_DAY_MS: Final = 86_400_000
_MAX_LONG: Final = 2**63 - 1
_SAME: Final = object()


class Property(NamedTuple):
    """A row of the table. Defaults are text, None, NO_DEFAULT (required) or NO_PROPERTY."""

    name: str
    connectors: str
    type: ConfigType
    kafka_4: Any
    documentation: str
    k382: Any = _SAME
    validator: Validator | None = None
    importance: Importance = Importance.LOW

    def default(self, profile: str) -> Any:
        return self.k382 if profile == K382 and self.k382 is not _SAME else self.kafka_4


def _name(name: str, value: Any) -> None:
    if not value:
        raise invalid_value(name, value, "String may not be empty")
    codes = [str(ord(character)) for character in value if ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0]
    if codes:
        raise invalid_value(name, value, f"String may not contain control sequences but had the following ASCII chars: {', '.join(codes)}")


def _unique_aliases(name: str, value: Any) -> None:
    if len(set(value)) < len(value):
        raise invalid_value(name, value, "Duplicate alias provided.")


_ENTRIES: Final = valid_list(duplicates_allowed=True)
_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM

PROPERTIES: Final = (
    Property("name", "SCH", _STRING, NO_DEFAULT, "The connector's name, unique among those of its workers.", validator=_name, importance=_HIGH),
    Property("connector.class", "SCH", _STRING, NO_DEFAULT, "The connector's class, by Apache Kafka's name.", importance=_HIGH),
    Property("tasks.max", "SCH", _INT, "1", "The most tasks that the connector has.", validator=at_least(1), importance=_HIGH),
    Property("enabled", "SCH", _BOOLEAN, "true", "Whether the flow copies anything."),
    Property("source.cluster.alias", "SCH", _STRING, NO_DEFAULT, "The source's alias, the beginning of remote names.", importance=_HIGH),
    Property("target.cluster.alias", "SCH", _STRING, "target", "The target's alias.", NO_DEFAULT, importance=_HIGH),
    Property("admin.timeout.ms", "SCH", _LONG, "60000", "How long an administrative step may take, such as a search for new topics."),
    Property("replication.policy.class", "SCH", _CLASS, f"{PACKAGE}DefaultReplicationPolicy", "How remote topics are named."),
    Property("replication.policy.separator", "SCH", _STRING, ".", "What stands between alias and topic."),
    Property("replication.policy.internal.topic.separator.enabled", "SCH", _BOOLEAN, "true",
             "Whether names of internal topics have the separator, too; false keeps the names of older releases."),
    Property("forwarding.admin.class", "SCH", _CLASS, "org.apache.kafka.clients.admin.ForwardingAdmin", "What creates topics and configs."),
    Property("metric.reporters", "SCH", _LIST, "org.apache.kafka.common.metrics.JmxReporter", "Classes that report metrics."),
    Property("metric.names.formats", "SC", _LIST, "legacy", "Under which names metrics are reported.",
             validator=valid_list("legacy", "new", empty_allowed=False)),
    Property("topics", "S", _LIST, ".*", "Topics to copy: names and regular expressions.", "", _ENTRIES, _HIGH),
    Property("topics.exclude", "S", _LIST, TOPICS_EXCLUDE_DEFAULT, "Topics to leave out, also of those that `topics` takes.",
             r".*\.internal, .*\.replica, __consumer_offsets", _ENTRIES, _HIGH),
    Property("config.properties.exclude", "S", _LIST, CONFIG_PROPERTIES_EXCLUDE_DEFAULT, "Topic configs that are not copied.",
             validator=_ENTRIES, importance=_HIGH),
    Property("use.defaults.from", "", _STRING, "target", "Whose defaults hold for configs that the source's topic has by default."),
    Property("topic.filter.class", "SC", _CLASS, f"{PACKAGE}DefaultTopicFilter", "What selects topics."),
    Property("config.property.filter.class", "S", _CLASS, f"{PACKAGE}DefaultConfigPropertyFilter", "What selects topic configs."),
    Property("consumer.poll.timeout.ms", "SC", _LONG, "1000", "How long one poll of the source may wait."),
    Property("refresh.topics.enabled", "S", _BOOLEAN, "true", "Whether new topics and partitions are looked for."),
    Property("refresh.topics.interval.seconds", "S", _LONG, "600", "How often new topics and partitions are looked for.", "5"),
    Property("sync.topic.configs.enabled", "S", _BOOLEAN, "true", "Whether configs of remote topics follow the source's."),
    Property("sync.topic.configs.interval.seconds", "S", _LONG, "600", "How often configs are synced."),
    Property("sync.topic.acls.enabled", "S", _BOOLEAN, "true", "Whether access rules of remote topics follow the source's."),
    Property("sync.topic.acls.interval.seconds", "S", _LONG, "600", "How often access rules are synced."),
    Property("replication.factor", "S", _INT, "2", "Replicas of remote topics that are created."),
    Property("offset-syncs.topic.replication.factor", "S", _SHORT, "3", "Replicas of the offset-syncs topic."),
    Property("offset.lag.max", "S", _LONG, "100", "How far a translated offset may be behind near the end of a partition."),
    Property("offset-syncs.topic.location", "SC", _STRING, "source", "The cluster that has the offset-syncs topic.",
             validator=valid_string("source", "target")),
    Property("emit.offset-syncs.enabled", "S", _BOOLEAN, "true", "Whether offset syncs are written; without them no offset is translated."),
    Property("heartbeats.replication.enabled", "S", _BOOLEAN, "true", "Whether heartbeats are copied whatever the topic filter says."),
    Property("groups", "C", _LIST, ".*", "Groups to checkpoint: names and regular expressions.", "", _ENTRIES, _HIGH),
    Property("groups.exclude", "C", _LIST, GROUPS_EXCLUDE_DEFAULT, "Groups to leave out, also of those that `groups` takes.", "", _ENTRIES, _HIGH),
    Property("group.filter.class", "C", _CLASS, f"{PACKAGE}DefaultGroupFilter", "What selects groups."),
    Property("refresh.groups.enabled", "C", _BOOLEAN, "true", "Whether new groups are looked for."),
    Property("refresh.groups.interval.seconds", "C", _LONG, "600", "How often new groups are looked for.", "5"),
    Property("emit.checkpoints.enabled", "C", _BOOLEAN, "true", "Whether group offsets are translated and written as checkpoints."),
    Property("emit.checkpoints.interval.seconds", "C", _LONG, "60", "How often checkpoints are written.", "5"),
    Property("sync.group.offsets.enabled", "C", _BOOLEAN, "false", "Whether checkpoints become offsets of groups without members."),
    Property("sync.group.offsets.interval.seconds", "C", _LONG, "60", "How often group offsets are written."),
    Property("checkpoints.topic.replication.factor", "C", _SHORT, "3", "Replicas of the checkpoints topic."),
    Property("emit.heartbeats.enabled", "H", _BOOLEAN, "true", "Whether heartbeats are written into the target."),
    Property("emit.heartbeats.interval.seconds", "H", _LONG, "1", "How often heartbeats are written.", "5"),
    Property("heartbeats.topic.replication.factor", "H", _SHORT, "3", "Replicas of the heartbeats topic."),
    Property("readahead.queue.capacity", "SCH", _INT, NO_PROPERTY, "KIP-382's queue of records; nothing reads it.", "500"),
    Property("heartbeats.topic.retention.ms", "H", _LONG, NO_PROPERTY, "KIP-382's retention of heartbeats.", str(_DAY_MS)),
    Property("checkpoints.topic.retention.ms", "C", _LONG, NO_PROPERTY, "KIP-382's retention of checkpoints.", str(_DAY_MS)),
    Property("offset.syncs.topic.retention.ms", "S", _LONG, NO_PROPERTY, "KIP-382's retention of offset syncs.", str(_MAX_LONG)),
    # What Connect defines for every connector.
    Property("tasks.max.enforce", "SCH", _BOOLEAN, "true", "Whether more tasks than tasks.max are an error."),
    Property("connector.plugin.version", "SCH", _STRING, None, "Accepted; there is one version of the connector.", importance=_MEDIUM),
    Property("key.converter", "SCH", _CLASS, None, "How keys become bytes; MirrorMaker's are bytes already."),
    Property("value.converter", "SCH", _CLASS, None, "How values become bytes; MirrorMaker's are bytes already."),
    Property("header.converter", "SCH", _CLASS, None, "How headers become bytes; MirrorMaker's are bytes already."),
    Property("key.converter.plugin.version", "SCH", _STRING, None, "Accepted; there is one version of the converter."),
    Property("value.converter.plugin.version", "SCH", _STRING, None, "Accepted; there is one version of the converter."),
    Property("header.converter.plugin.version", "SCH", _STRING, None, "Accepted; there is one version of the converter."),
    Property("transforms", "SCH", _LIST, "", "Aliases of transformations of records.", validator=_unique_aliases),
    Property("predicates", "SCH", _LIST, "", "Aliases of predicates of transformations.", validator=_unique_aliases),
    Property("config.action.reload", "SCH", _STRING, "restart", "What a changed secret leads to.", validator=valid_string("none", "restart")),
    Property("config.providers", "SCH", _LIST, "", "Providers of secrets, by the names that references use."),
    Property("errors.retry.timeout", "SCH", _LONG, "0", "How long a failed step is repeated (ms), -1 for ever.", importance=_MEDIUM),
    Property("errors.retry.delay.max.ms", "SCH", _LONG, "60000", "The longest pause between repetitions.", importance=_MEDIUM),
    Property("errors.tolerance", "SCH", _STRING, "none", "Whether a record that fails ends the task.", validator=valid_string("none", "all"), importance=_MEDIUM),
    Property("errors.log.enable", "SCH", _BOOLEAN, "false", "Whether failed records are logged.", importance=_MEDIUM),
    Property("errors.log.include.messages", "SCH", _BOOLEAN, "false", "Whether their contents are logged.", importance=_MEDIUM),
)  # fmt: skip


SCHEDULED: Final = {
    "S": ("refresh.topics", "sync.topic.configs", "sync.topic.acls"),
    "C": ("refresh.groups", "sync.group.offsets"),
    "H": (),
}
"""What connectors and the checkpoint task do at a fixed rate."""


def connector_config_def(connector: str, profile: str = KAFKA_4) -> ConfigDef:
    """Returns what the connector S, C or H defines."""
    definition = ConfigDef()
    for row in PROPERTIES:
        default = row.default(profile)
        if connector in row.connectors and default is not NO_PROPERTY:
            definition.define(row.name, row.type, default, row.documentation, validator=row.validator, importance=row.importance)
    return define_security(definition)


class MirrorConnectorConfig(AbstractConfig):
    """The settings of one connector. ConfigError, in Kafka's words, for what is missing or wrong.

    Old names count (`property_names`). `originals` has every property that was given, text as it
    was.
    """

    connector: ClassVar[str]

    def __init__(self, props: Mapping[str, str], profile: str = KAFKA_4) -> None:
        self.originals = current_names(props)
        self.profile = profile
        super().__init__(connector_config_def(self.connector, profile), self.originals)
        self.flow = SourceAndTarget(str(self.values["source.cluster.alias"]), str(self.values["target.cluster.alias"]))
        self.replication_policy: ReplicationPolicy = replication_policy(self.originals)

    @property
    def connector_name(self) -> str:
        return str(self.values["name"])

    @property
    def is_sink(self) -> bool:
        """Whether the connector has its worker at the source, and writes to another cluster (MC2)."""
        return self.originals.get("connector.class", "").strip().removeprefix(PACKAGE) == "MirrorSinkConnector"

    @property
    def enabled(self) -> bool:
        return self.get_bool("enabled")

    @property
    def entity_label(self) -> str:
        """What names the connector in client ids and logs: `A->B|name` (MC16)."""
        return f"{self.flow}|{self.connector_name}"

    def interval_ms(self, activity: str) -> int | None:
        """Returns the period of `refresh.topics` and the like, None when it is switched off, which a negative
        one does, too. ConfigError for 0, with which Kafka's connectors fail, unless a task does it.
        """
        name = f"{activity}.interval.seconds"
        seconds = self.get_int(name)
        if not self.get_bool(f"{activity}.enabled") or seconds < 0:
            return None
        if seconds == 0 and activity in SCHEDULED[self.connector]:
            raise invalid_value(name, 0, f"Value must be at least 1, or negative to switch it off; {activity}.enabled=false does that, too")
        return seconds * 1000

    def client_config(self, side: str, kind: str, role: str | None = None) -> dict[str, str]:
        """Returns the settings of a client of the cluster `source` or `target`.

        `kind` is `producer`, `consumer` or `admin`. Consumers never commit, and begin at the
        earliest record unless told otherwise (MC12).
        """
        config = client_config(self.originals, side, kind)
        label = self.entity_label + (f"|{role}" if role else "")
        config["client.id"] = f"{config['client.id']}|{label}" if "client.id" in config else label
        return config

    def _filter_props(self, *names: str) -> dict[str, str]:
        """Returns what a filter reads. It defines its properties itself: a checkpoint connector has
        `topics` for its filter only.
        """
        defaults = {row.name: row.default(self.profile) for row in PROPERTIES if row.name in names}
        return defaults | {name: self.originals[name] for name in names if name in self.originals}


class MirrorSourceConfig(MirrorConnectorConfig):
    """The settings of MirrorSourceConnector."""

    connector = "S"

    def topics(self) -> TopicSelection:
        """Returns what the connector copies (FI4)."""
        return TopicSelection(self.flow, self.replication_policy, self.topic_filter(), self.get_bool("heartbeats.replication.enabled"))

    def topic_filter(self) -> DefaultTopicFilter:
        _require_class(self, "topic.filter.class", "DefaultTopicFilter")
        return DefaultTopicFilter.from_props(self._filter_props("topics", "topics.exclude"))

    def config_property_filter(self) -> DefaultConfigPropertyFilter:
        _require_class(self, "config.property.filter.class", "DefaultConfigPropertyFilter")
        return DefaultConfigPropertyFilter.from_props(self._filter_props("config.properties.exclude", "use.defaults.from"))

    def offset_syncs_topic(self) -> str:
        return _offset_syncs_topic(self)


class MirrorCheckpointConfig(MirrorConnectorConfig):
    """The settings of MirrorCheckpointConnector."""

    connector = "C"

    def topic_filter(self) -> DefaultTopicFilter:
        _require_class(self, "topic.filter.class", "DefaultTopicFilter")
        return DefaultTopicFilter.from_props(self._filter_props("topics", "topics.exclude"))

    def group_filter(self) -> DefaultGroupFilter:
        _require_class(self, "group.filter.class", "DefaultGroupFilter")
        return DefaultGroupFilter.from_props(self._filter_props("groups", "groups.exclude"))

    def offset_syncs_topic(self) -> str:
        return _offset_syncs_topic(self)

    def checkpoints_topic(self) -> str:
        return self.replication_policy.checkpoints_topic(self.flow.source)


class MirrorHeartbeatConfig(MirrorConnectorConfig):
    """The settings of MirrorHeartbeatConnector."""

    connector = "H"

    def heartbeats_topic(self) -> str:
        return self.replication_policy.heartbeats_topic()


CONNECTORS: Final[dict[str, type[MirrorConnectorConfig]]] = {
    "MirrorSourceConnector": MirrorSourceConfig,
    "MirrorHeartbeatConnector": MirrorHeartbeatConfig,
    "MirrorCheckpointConnector": MirrorCheckpointConfig,
}
"""In the order in which the driver makes them."""


def client_config(props: Mapping[str, str], side: str, kind: str) -> dict[str, str]:
    """Returns a client's settings as a connector's properties give them (DG7)."""
    cluster = with_prefix(props, f"{side}.cluster.")
    config = {name: value for name, value in cluster.items() if name in CLIENT_CONFIG_NAMES}
    config |= with_prefix(props, f"{kind}.")
    config |= with_prefix(props, f"{side}.{kind}.")
    if kind == "consumer":
        config["enable.auto.commit"] = "false"
        config.setdefault("auto.offset.reset", "earliest")
    return config


def with_prefix(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns the properties below a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in props.items() if name.startswith(prefix) and len(name) > len(prefix)}


def validate_source(props: Mapping[str, str]) -> dict[str, str]:
    """Returns what only this connector refuses: property -> message (MC15)."""
    wrong = {}
    if (
        props.get("exactly.once.support") == "required"
        and client_config(props, "source", "consumer").get("isolation.level") != "read_committed"
    ):
        wrong["exactly.once.support"] = (
            "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with isolation.level set to "
            "'read_committed'; otherwise, records from aborted and uncommitted transactions will be replicated from the source cluster to the "
            "target cluster."
        )
    if props.get("emit.offset-syncs.enabled") == "false" and any(
        name.startswith(("offset-syncs-", "offset-syncs.topic.")) for name in props
    ):
        wrong["emit.offset-syncs.enabled"] = (
            "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set to false"
        )
    return wrong


def validate_checkpoint(props: Mapping[str, str]) -> dict[str, str]:
    """Returns what only this connector refuses: property -> message."""
    wrong: dict[str, str] = {}
    if props.get("enabled", "true") == "false":
        return wrong
    if props.get("emit.checkpoints.enabled") == "false":
        wrong["emit.checkpoints.enabled"] = "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false"
    if props.get("emit.offset-syncs.enabled") == "false":
        wrong["emit.offset-syncs.enabled"] = "MirrorCheckpointConnector can't run without offset syncs"
    return wrong


def _offset_syncs_topic(config: MirrorConnectorConfig) -> str:
    """Named after the other cluster, seen from the one that has it (IT3)."""
    at_source = config.get_string("offset-syncs.topic.location") == "source"
    return config.replication_policy.offset_syncs_topic(config.flow.target if at_source else config.flow.source)


def _require_class(config: MirrorConnectorConfig, name: str, known: str) -> None:
    """ConfigError for a class other than Kafka's default, which is all that there is here."""
    given = str(config.values[name])
    if given.rpartition(".")[2] != known:
        raise ConfigError(f"Invalid value {given} for configuration {name}: Class {given} could not be found.")
