"""Configs of groups, client-metrics subscriptions and mirrors, and the broker configs that can
change at run time.

The definitions have the defaults and the valid values; `validate_*` raise Kafka's errors. Broker
configs are only classified here (which may change, and for one broker or for all); the broker that
gets the request validates their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kmirror.common.config import ConfigDef, ConfigType, UpdateMode, at_least, invalid_value, valid_string
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.metadata.mirror_names import DEFAULT_MAX_TRUNCATION_RECORDS, MIRROR_MAX_TRUNCATION_CONFIG

SOURCE_CLUSTER_ID_CONFIG = "source.cluster.id"


def _group_configs() -> ConfigDef:
    """Returns the definitions in Kafka's order, which DescribeConfigs shows in places."""
    d = ConfigDef()

    def number(name: str, default: int, minimum: int, about: str) -> None:
        d.define(name, ConfigType.INT, default, about, validator=at_least(minimum), valid=f"[{minimum},...]")

    def session(kind: str) -> None:
        text = f"The time in ms without a heartbeat after which a member is removed from a {kind} group."
        number(f"{kind}.session.timeout.ms", 45_000, 1, text)
        text = f"The time in ms between two heartbeats of a member of a {kind} group."
        number(f"{kind}.heartbeat.interval.ms", 5_000, 1, text)

    def assignment(kind: str) -> None:
        text = f"The shortest time in ms between two assignments of a {kind} group."
        number(f"{kind}.assignment.interval.ms", 1_000, 0, text)

    session("consumer")
    assignment("consumer")
    session("share")
    number("share.record.lock.duration.ms", 30_000, 1_000, "The time in ms that a record stays acquired by a member of a share group.")
    number("share.delivery.count.limit", 5, 2, "The largest number of times that a record is delivered to a share group.")
    number(
        "share.partition.max.record.locks", 2_000, 100, "The largest number of records of a share partition that may be acquired at a time."
    )
    d.define("share.auto.offset.reset", ConfigType.STRING, "latest", "The position at which a new share group begins to read.", validator=_share_reset,
             valid="[latest, earliest, by_duration:PnDTnHnMn.nS]")  # fmt: skip
    levels = ("read_committed", "read_uncommitted")
    d.define("share.isolation.level", ConfigType.STRING, "read_uncommitted", "Whether a share group gets records of open and aborted transactions.",
             validator=valid_string(*levels), valid=f"[{', '.join(levels)}]")  # fmt: skip
    d.define(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a member of a share group may prolong the time that a record stays acquired.",
    )
    assignment("share")
    session("streams")
    number("streams.num.standby.replicas", 0, 0, "The number of standby copies of each task of a streams group.")
    number(
        "streams.initial.rebalance.delay.ms",
        3_000,
        0,
        "The time in ms that a new streams group waits for members before its first assignment.",
    )
    assignment("streams")
    return d


def _share_reset(name: str, value: Any) -> None:
    if value not in ("latest", "earliest") and not re.fullmatch(r"by_duration:P\S+", str(value)):
        raise invalid_value(name, value, "Invalid value for share.auto.offset.reset")


GROUP_CONFIGS: ConfigDef = _group_configs()

CLIENT_METRICS_CONFIGS: ConfigDef = (
    ConfigDef()
    .define("metrics", ConfigType.LIST, "", "The prefixes of the metrics that clients send; '*' is all metrics.")
    .define("interval.ms", ConfigType.INT, 300_000, "The time in ms between two pushes of a client.")
    .define(
        "match",
        ConfigType.LIST,
        "",
        "The clients that send metrics: a list of name=regex for their id, software, version, address and port.",
    )
)
_MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_EXCLUDED_TOPIC_CONFIGS = (
    "follower.replication.throttled.replicas", "leader.replication.throttled.replicas", "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms", "message.timestamp.type",
    "unclean.leader.election.enable", "min.insync.replicas", "mirror.name",
)  # fmt: skip


def _bootstrap_servers(name: str, value: Any) -> None:
    if not value:
        raise invalid_value(name, value, "a mirror needs at least one host:port of its source cluster")
    for address in value:
        match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^:\s]+):([0-9]{1,5})", address)
        if match is None or not 0 < int(match[2]) <= 65535:
            raise ConfigError(f"Invalid url in {name}: {address}")


def _patterns(name: str, value: Any) -> None:
    for pattern in value:
        try:
            re.compile(pattern)
        except re.error as error:
            raise invalid_value(name, pattern, f"not a regular expression: {error}") from error


def _acl_rules(name: str, value: Any) -> None:
    for rule in value:
        parse_acl_rule(rule)


def _mirror_configs() -> ConfigDef:
    d, text, password, names = ConfigDef(), ConfigType.STRING, ConfigType.PASSWORD, ConfigType.LIST
    d.define(
        "bootstrap.servers", names, documentation="The brokers of the source cluster, as host:port,host:port.", validator=_bootstrap_servers
    )
    d.define(
        "security.protocol",
        text,
        "PLAINTEXT",
        "The security protocol of the connections to the source.",
        validator=valid_string(*PROTOCOLS),
        valid=f"[{', '.join(PROTOCOLS)}]",
    )
    d.define("sasl.mechanism", text, "PLAIN", "The SASL mechanism of the connections to the source.")
    d.define("sasl.jaas.config", password, None, "The credentials of the mirror at the source, as a JAAS entry.")
    for name in (
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.kerberos.service.name",
    ):
        d.define(name, text, None, "The same as for Kafka's clients.")
    d.define("ssl.protocol", text, "TLSv1.3", "The TLS version that is tried first.")
    d.define("ssl.enabled.protocols", names, "TLSv1.2,TLSv1.3", "The TLS versions that are allowed.")
    d.define("ssl.cipher.suites", names, None, "The cipher suites that are allowed. If not set, all are.")
    d.define(
        "ssl.endpoint.identification.algorithm",
        text,
        "https",
        "How the host name in the source's certificate is checked. If empty, it is not checked.",
    )
    for name in ("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.password",
                 "ssl.truststore.certificates"):  # fmt: skip
        d.define(name, password, None, "The same as for Kafka's clients.")
    for name, default in (
        ("ssl.keystore.type", "JKS"),
        ("ssl.truststore.type", "JKS"),
        ("ssl.keymanager.algorithm", "SunX509"),
        ("ssl.trustmanager.algorithm", "PKIX"),
    ):
        d.define(name, text, default, "The same as for Kafka's clients.")
    for name in (
        "ssl.provider",
        "ssl.keystore.location",
        "ssl.truststore.location",
        "ssl.secure.random.implementation",
        "ssl.engine.factory.class",
    ):
        d.define(name, text, None, "The same as for Kafka's clients.")
    d.define(
        "mirror.topic.properties.exclude",
        names,
        ",".join(DEFAULT_EXCLUDED_TOPIC_CONFIGS),
        "Regular expressions for the topic configs that are not copied.",
        validator=_patterns,
    )
    d.define("mirror.groups.include", names, ".*", "Regular expressions for the groups whose offsets are copied.", validator=_patterns)
    d.define(
        "mirror.acl.include",
        names,
        "*",
        "The ACLs that are copied, each as resourceType;resourceName;operation;permissionType;principal.",
        validator=_acl_rules,
    )
    d.define(
        MIRROR_MAX_TRUNCATION_CONFIG,
        ConfigType.LONG,
        DEFAULT_MAX_TRUNCATION_RECORDS,
        "How many records below the high watermark a partition may lose by following a source that lost them. If it would lose more, or "
        "if none of its log is known to be the source's, it becomes FAILED and keeps its records. -1 is no limit.",
        validator=at_least(-1),
        valid="[-1,...]",
    )
    d.define(SOURCE_CLUSTER_ID_CONFIG, text, None, "The cluster id of the source when it was first reached.", internal=True)
    return d


RESOURCE_TYPES = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER", "CLUSTER_MIRROR")
OPERATIONS = (
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")


def parse_acl_rule(rule: str) -> tuple[str | None, re.Pattern[str] | None, str | None, str | None, re.Pattern[str] | None]:
    """Returns (resource type, resource name, operation, permission, principal) of one rule of
    `mirror.acl.include`; None = any.

    Enum names are returned in upper case; names and principals are regexes that must match as a
    whole. Raises ConfigError for an invalid rule.
    """
    fields = [field.strip() for field in rule.split(";")]
    if len(fields) > 5 or not rule.strip():
        raise invalid_value(
            "mirror.acl.include", rule, "an ACL rule has the form resourceType;resourceName;operation;permissionType;principal"
        )
    fields += ["*"] * (5 - len(fields))
    return (
        _enum_field(rule, fields[0], RESOURCE_TYPES),
        _regex_field(rule, fields[1]),
        _enum_field(rule, fields[2], OPERATIONS),
        _enum_field(rule, fields[3], PERMISSIONS),
        _regex_field(rule, fields[4]),
    )


def _enum_field(rule: str, field: str, names: tuple[str, ...]) -> str | None:
    if field.upper() in ("*", "", "ANY"):
        return None
    if field.upper() not in names[1:]:
        raise invalid_value("mirror.acl.include", rule, f"'{field}' is not one of {', '.join(names[1:])}")
    return field.upper()


def _regex_field(rule: str, field: str) -> re.Pattern[str] | None:
    if field in ("*", ""):
        return None
    try:
        return re.compile(field)
    except re.error as error:
        raise invalid_value("mirror.acl.include", rule, f"'{field}' is not a regular expression: {error}") from error


MIRROR_CONFIGS: ConfigDef = _mirror_configs()


_GROUP_KINDS = ("consumer", "share", "streams")
_GROUP_BOUNDS_MS = {"heartbeat.interval.ms": (5_000, 15_000), "session.timeout.ms": (45_000, 60_000), "assignment.interval.ms": (0, 15_000)}
"""Group settings that the broker limits by `group.<kind>.min.<setting>` and `.max.`, with the
defaults of these limits."""


def validate_group_configs(props: Mapping[str, str], broker_props: Mapping[str, str] | None = None) -> None:
    """Raises ApiException INVALID_CONFIG unless `props` are valid configs of a group, within the
    limits of `broker_props`."""
    broker_props = broker_props or {}
    for name in props:
        if name not in GROUP_CONFIGS:
            raise ApiException(Errors.INVALID_CONFIG, f"Unknown group config name: {name}")
    values = _parse(GROUP_CONFIGS, props)
    for kind in _GROUP_KINDS:
        for setting, (lowest, highest) in _GROUP_BOUNDS_MS.items():
            name, least, most = f"{kind}.{setting}", f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
            if name in props and values[name] < int(broker_props.get(least, lowest)):
                raise ApiException(Errors.INVALID_CONFIG, f"{name} must be greater than or equal to {least}")
            if name in props and values[name] > int(broker_props.get(most, highest)):
                raise ApiException(Errors.INVALID_CONFIG, f"{name} must be less than or equal to {most}")
    for kind in _GROUP_KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        holding = [int(values[name] if name in props else broker_props.get(f"group.{name}", values[name])) for name in (session, heartbeat)]
        if holding[0] <= holding[1]:
            raise ApiException(Errors.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def validate_client_metrics_configs(name: str, props: Mapping[str, str]) -> None:
    """Raises ApiException (INVALID_REQUEST or INVALID_CONFIG, as Kafka does) unless `props` are
    valid for the subscription `name`."""
    if not name:
        raise ApiException(Errors.INVALID_REQUEST, "Subscription name can't be empty")
    for key in props:
        if key not in CLIENT_METRICS_CONFIGS:
            raise ApiException(Errors.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    values = _parse(CLIENT_METRICS_CONFIGS, props)
    interval = values["interval.ms"]
    if "interval.ms" in props and not 100 <= interval <= 3_600_000:
        text = f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        raise ApiException(Errors.INVALID_REQUEST, text)
    for pattern in values["match"]:
        key, separator, regex = pattern.partition("=")
        if not separator or key.strip() not in _MATCH_KEYS or not _compiles(regex.strip()):
            raise ApiException(Errors.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _compiles(regex: str) -> bool:
    try:
        re.compile(regex)
    except re.error:
        return False
    return True


def validate_mirror_configs(props: Mapping[str, str]) -> None:
    """Raises ApiException INVALID_CONFIG unless `props` are a complete, valid set of configs of a
    mirror."""
    for name in props:
        if name not in MIRROR_CONFIGS:
            raise ApiException(Errors.INVALID_CONFIG, f"Unknown mirror config name: {name}")
    _parse(MIRROR_CONFIGS, props)


def _parse(definition: ConfigDef, props: Mapping[str, str]) -> dict[str, Any]:
    try:
        return definition.parse(props)
    except ConfigError as error:
        raise ApiException(Errors.INVALID_CONFIG, str(error)) from error


_CLUSTER_WIDE = """background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level config.providers
follower.fetch.last.tiered.offset.enable follower.replication.throttled.rate group.consumer.assignment.interval.ms
group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms group.streams.assignment.interval.ms leader.replication.throttled.rate
log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes log.index.size.max.bytes
log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.type
log.preallocate log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
max.connection.creation.rate max.connections max.connections.per.ip max.connections.per.ip.overrides message.max.bytes metric.reporters
min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers producer.id.expiration.ms
remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size remote.log.reader.threads
replica.alter.log.dirs.io.max.bytes.per.second share.coordinator.cached.buffer.max.bytes transaction.partition.verification.enable
unclean.leader.election.enable mirror.replication.throttled.rate mirror.topic.deletion.enable"""

_PER_BROKER = """cordoned.log.dirs listener.security.protocol.map listeners principal.builder.class sasl.enabled.mechanisms sasl.jaas.config
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol ssl.cipher.suites ssl.client.auth
ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
ssl.truststore.type"""

BROKER_UPDATE_MODES: dict[str, UpdateMode] = dict.fromkeys(_CLUSTER_WIDE.split(), UpdateMode.CLUSTER_WIDE) | dict.fromkeys(
    _PER_BROKER.split(), UpdateMode.PER_BROKER
)
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.*)")


def broker_update_mode(name: str) -> UpdateMode:
    """Returns how a broker config (possibly with a listener's prefix) may change at run time."""
    match = _LISTENER_PREFIX.fullmatch(name)
    if match is not None and (match[1].startswith(("ssl.", "sasl.")) or re.fullmatch(r"[^.]+\.(ssl|sasl)\..*", match[1])):
        return UpdateMode.PER_BROKER
    if match is not None and match[1] in ("max.connections", "max.connection.creation.rate"):
        return UpdateMode.CLUSTER_WIDE
    return BROKER_UPDATE_MODES.get(name, UpdateMode.READ_ONLY)
