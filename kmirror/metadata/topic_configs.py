"""The configs of topics: names, types, defaults, valid values, and the broker configs that their
defaults come from (Kafka's `LogConfig`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kmirror.common.config import ConfigDef, ConfigType, Validator, at_least, between, invalid_value, to_text, valid_list, valid_string
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.metadata.mirror_names import (
    MIRROR_MAX_TRUNCATION_CONFIG,
    MIRROR_NAME_CONFIG,
    MIRROR_SOURCE_CLEANING_CONFIG,
    MIRROR_SOURCE_DEFAULTS_CONFIG,
    MIRROR_STATE_PARTITIONS_CONFIG,
    MIRROR_SUPPORT_UNCLEAN_CONFIG,
)

MAX_LONG = 2**63 - 1
MIRROR_THROTTLED_REPLICAS_CONFIG = "mirror.replication.throttled.replicas"


def throttled_replicas(name: str, value: Any) -> None:
    """Accepts `*`, `none`, or a list of partition:broker."""
    text = ",".join(value).strip()
    if text in ("*", "none", "") or re.fullmatch(r"[0-9]+:[0-9]+(\s*,\s*[0-9]+:[0-9]+)*", text):
        return
    message = f"{name} must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    raise invalid_value(name, value, message)


def _minus_one_or_more_if_set(name: str, value: Any) -> None:
    if value is not None:
        at_least(-1)(name, value)


def _gzip_level(name: str, value: Any) -> None:
    if value != -1 and not 1 <= value <= 9:
        raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")


def _topic_config_def() -> ConfigDef:
    d, i, b = ConfigDef(), ConfigType.INT, ConfigType.BOOLEAN

    def number(name: str, default: int, minimum: int | None, about: str, type: ConfigType = ConfigType.LONG) -> None:
        d.define(
            name,
            type,
            default,
            about,
            validator=None if minimum is None else at_least(minimum),
            valid="" if minimum is None else f"[{minimum},...]",
        )

    def text(name: str, type: ConfigType, default: str, validator: Validator, valid: str, about: str) -> None:
        d.define(name, type, default, about, validator=validator, valid=valid)

    number("segment.bytes", 1 << 30, 1 << 20, "The size in bytes at which a segment is closed and a new one begins.", i)
    number(
        "segment.ms",
        604_800_000,
        1,
        "The age in ms at which a segment is closed even if it is not full, so that it can be deleted or compacted.",
    )
    number(
        "segment.jitter.ms",
        0,
        0,
        "The largest random time in ms that is subtracted from segment.ms, so that not all segments roll at once.",
    )
    number(
        "segment.index.bytes",
        10 << 20,
        4,
        "The size in bytes at which the offset index is preallocated. It shrinks when the segment is closed.",
        i,
    )
    number("flush.messages", MAX_LONG, 1, "The number of records after which the log is flushed with fsync.")
    number("flush.ms", MAX_LONG, 0, "The time in ms after which the log is flushed with fsync.")
    number("retention.bytes", -1, None, "The size of a partition in bytes above which old segments are deleted; -1 is no limit.")
    number("retention.ms", 604_800_000, -1, "The age in ms above which old segments are deleted; -1 is no limit.")
    number("max.message.bytes", 1_048_588, 0, "The largest size in bytes of a record batch after compression.", i)
    number("index.interval.bytes", 4096, 0, "The number of bytes of the log between two entries of the offset index.", i)
    number("delete.retention.ms", 86_400_000, 0, "The time in ms that tombstones and transaction markers stay in a compacted topic.")
    number("min.compaction.lag.ms", 0, 0, "The shortest time in ms that a record stays uncompacted.")
    number("max.compaction.lag.ms", MAX_LONG, 1, "The longest time in ms that a record cannot be compacted.")
    number("file.delete.delay.ms", 60_000, 0, "The time in ms between the removal of a segment from the log and the removal of its files.")
    d.define(
        "min.cleanable.dirty.ratio", ConfigType.DOUBLE, 0.5, "The share of the log that must be uncompacted before the cleaner works on it.",
        validator=between(0, 1), valid="[0,...,1]",
    )  # fmt: skip
    text("cleanup.policy", ConfigType.LIST, "delete", valid_list("compact", "delete", duplicates_allowed=True), "[compact, delete]",
         "What happens to old segments: delete, compact or both. If empty, nothing happens to them.")  # fmt: skip
    d.define(
        "unclean.leader.election.enable",
        b,
        False,
        "Whether a replica that is not in sync may become leader as a last resort. Records may then be lost.",
    )
    number("min.insync.replicas", 1, 1, "The number of in-sync replicas, including the leader, that a write with acks=all needs.", i)
    codecs = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    text("compression.type", ConfigType.STRING, "producer", valid_string(*codecs), f"[{', '.join(codecs)}]",
         "The codec in which the broker stores batches; 'producer' keeps the producer's codec.")  # fmt: skip
    text("compression.gzip.level", i, "-1", _gzip_level, "[1,...,9] or -1", "The level at which the broker compresses with gzip.")
    text("compression.lz4.level", i, "9", between(1, 17), "[1,...,17]", "The level at which the broker compresses with lz4.")
    text("compression.zstd.level", i, "3", between(-131072, 22), "[-131072,...,22]", "The level at which the broker compresses with zstd.")
    d.define("preallocate", b, False, "Whether the file of a new segment is allocated in its full size at once.")
    text("message.timestamp.type", ConfigType.STRING, "CreateTime", valid_string("CreateTime", "LogAppendTime"), "[CreateTime, LogAppendTime]",
         "Whether records keep the producer's timestamps or get the broker's.")  # fmt: skip
    number("message.timestamp.before.max.ms", MAX_LONG, 0, "How far in the past, in ms, a record's timestamp may lie.")
    number("message.timestamp.after.max.ms", 3_600_000, 0, "How far in the future, in ms, a record's timestamp may lie.")
    replicas = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    text(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        throttled_replicas,
        replicas,
        "The replicas that are throttled on the leader's side.",
    )
    text(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        "",
        throttled_replicas,
        replicas,
        "The replicas that are throttled on the follower's side.",
    )
    d.define(
        "remote.storage.enable", b, False, "Whether the topic uses tiered storage. kmirror keeps every segment local and refuses true."
    )
    number("local.retention.ms", -2, -2, "The time in ms that a segment stays local with tiered storage; -2 means retention.ms.")
    number("local.retention.bytes", -2, -2, "The number of bytes that stay local with tiered storage; -2 means retention.bytes.")
    d.define("remote.log.copy.disable", b, False, "Whether tiered data is read-only.")
    d.define("remote.log.delete.on.disable", b, False, "Whether tiered data is deleted when tiering is turned off.")
    d.define(
        "internal.segment.bytes", i, None, "The size in bytes of a segment, without the public minimum. It is for tests.", internal=True
    )
    text(
        MIRROR_THROTTLED_REPLICAS_CONFIG,
        ConfigType.LIST,
        "",
        throttled_replicas,
        replicas,
        "The replicas whose mirroring from the source is throttled.",
    )
    d.define(MIRROR_SUPPORT_UNCLEAN_CONFIG, b, False, "Whether mirroring waits until every replica was truncated to the last mirror epoch.")
    d.define(
        MIRROR_MAX_TRUNCATION_CONFIG,
        ConfigType.LONG,
        None,
        "How many records below the high watermark a mirrored partition may lose by following its source. -1 is no limit until the topic is "
        "MIRRORING; afterwards, and if it is not set, the limit of the mirror holds.",
        validator=_minus_one_or_more_if_set,
        valid="[-1,...]",
    )
    d.define(
        MIRROR_NAME_CONFIG,
        ConfigType.STRING,
        None,
        "The mirror that the topic belongs to. Only the requests of cluster mirroring set it.",
        internal=True,
    )
    d.define(
        MIRROR_SOURCE_DEFAULTS_CONFIG,
        ConfigType.LIST,
        "",
        "The topic's overrides that stand for defaults of its source's brokers. Only the sync of configs sets it.",
    )
    d.define(
        MIRROR_SOURCE_CLEANING_CONFIG,
        ConfigType.STRING,
        None,
        "The source's configs that the cleaner goes by while the topic is mirrored. Only the sync of configs sets it.",
        internal=True,
    )
    d.define(
        MIRROR_STATE_PARTITIONS_CONFIG,
        i,
        None,
        "The number of partitions that __mirror_state was created with. It determines the partition of each mirror's states.",
        internal=True,
    )
    return d


TOPIC_CONFIGS: ConfigDef = _topic_config_def()


class BrokerDefault(NamedTuple):
    """A broker config that gives a topic config its default; `convert` turns the broker's text into
    the topic's."""

    broker_config: str
    convert: Callable[[str], str] = str


def _hours(value: str) -> str:
    return str(int(value) * 3_600_000)


def _minutes(value: str) -> str:
    return str(int(value) * 60_000)


TOPIC_CONFIG_SYNONYMS: dict[str, tuple[BrokerDefault, ...]] = {
    "segment.bytes": (BrokerDefault("log.segment.bytes"),),
    "segment.ms": (BrokerDefault("log.roll.ms"), BrokerDefault("log.roll.hours", _hours)),
    "segment.jitter.ms": (BrokerDefault("log.roll.jitter.ms"), BrokerDefault("log.roll.jitter.hours", _hours)),
    "segment.index.bytes": (BrokerDefault("log.index.size.max.bytes"),),
    "flush.messages": (BrokerDefault("log.flush.interval.messages"),),
    "flush.ms": (BrokerDefault("log.flush.interval.ms"), BrokerDefault("log.flush.scheduler.interval.ms")),
    "retention.bytes": (BrokerDefault("log.retention.bytes"),),
    "retention.ms": (
        BrokerDefault("log.retention.ms"),
        BrokerDefault("log.retention.minutes", _minutes),
        BrokerDefault("log.retention.hours", _hours),
    ),
    "max.message.bytes": (BrokerDefault("message.max.bytes"),),
    "index.interval.bytes": (BrokerDefault("log.index.interval.bytes"),),
    "delete.retention.ms": (BrokerDefault("log.cleaner.delete.retention.ms"),),
    "min.compaction.lag.ms": (BrokerDefault("log.cleaner.min.compaction.lag.ms"),),
    "max.compaction.lag.ms": (BrokerDefault("log.cleaner.max.compaction.lag.ms"),),
    "file.delete.delay.ms": (BrokerDefault("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (BrokerDefault("log.cleaner.min.cleanable.ratio"),),
    "cleanup.policy": (BrokerDefault("log.cleanup.policy"),),
    "unclean.leader.election.enable": (BrokerDefault("unclean.leader.election.enable"),),
    "min.insync.replicas": (BrokerDefault("min.insync.replicas"),),
    "compression.type": (BrokerDefault("compression.type"),),
    "compression.gzip.level": (BrokerDefault("compression.gzip.level"),),
    "compression.lz4.level": (BrokerDefault("compression.lz4.level"),),
    "compression.zstd.level": (BrokerDefault("compression.zstd.level"),),
    "preallocate": (BrokerDefault("log.preallocate"),),
    "message.timestamp.type": (BrokerDefault("log.message.timestamp.type"),),
    "message.timestamp.before.max.ms": (BrokerDefault("log.message.timestamp.before.max.ms"),),
    "message.timestamp.after.max.ms": (BrokerDefault("log.message.timestamp.after.max.ms"),),
    "local.retention.ms": (BrokerDefault("log.local.retention.ms"),),
    "local.retention.bytes": (BrokerDefault("log.local.retention.bytes"),),
}


def validate_topic_configs(props: Mapping[str, str], inherited: Mapping[str, str] | None = None) -> None:
    """Raises ApiException INVALID_CONFIG with Kafka's text unless `props` (a topic's overrides) are
    valid over the `inherited` defaults."""
    for name in props:
        if name not in TOPIC_CONFIGS:
            raise ApiException(Errors.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        values = TOPIC_CONFIGS.parse({**(inherited or {}), **props})
    except ConfigError as error:
        raise ApiException(Errors.INVALID_CONFIG, str(error)) from error
    if values["min.compaction.lag.ms"] > values["max.compaction.lag.ms"]:
        text = f"conflict topic config setting min.compaction.lag.ms ({values['min.compaction.lag.ms']}) > max.compaction.lag.ms ({values['max.compaction.lag.ms']})"
        raise ApiException(Errors.INVALID_CONFIG, text)
    if values["remote.storage.enable"]:
        raise ApiException(
            Errors.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        )


def inherited_topic_configs(broker_props: Mapping[str, str]) -> dict[str, str]:
    """Returns the topic defaults that follow from a broker's properties (static or dynamic)."""
    result: dict[str, str] = {}
    for name, synonyms in TOPIC_CONFIG_SYNONYMS.items():
        for synonym in synonyms:
            if synonym.broker_config in broker_props:
                result[name] = synonym.convert(broker_props[synonym.broker_config])
                break
    return result


def default_text(name: str) -> str | None:
    """Returns the built-in default of a topic config as text."""
    key = TOPIC_CONFIGS[name]
    return to_text(key.default, key.type)
