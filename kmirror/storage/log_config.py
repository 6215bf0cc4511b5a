"""A topic's configs as one log uses them (Kafka's `LogConfig`).

`from_props` takes Kafka's names and text values (`retention.ms`: "1000"), the topic's own over the
broker's defaults. It assumes that they were validated (`metadata.configs` does that for users), and
ignores names that logs do not use. `internal.segment.bytes` is Kafka's back door to segments below
1 MiB, and wins over `segment.bytes`.

A topic with a `mirror.name` is a copy: a broker default never makes the cleaner work on it. As long
as the name has no `.removed`, the topic's own configs alone do not either, because anybody may set
them here. Its source has the last word, whose part in cleaning stands in `mirror.source.cleaning`:
the log is cleaned if both compact, and of each limit what keeps more counts (`while_mirrored`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kmirror.common.errors import ConfigError

LONG_MAX: Final = (1 << 63) - 1
MIRROR_NAME_CONFIG: Final = "mirror.name"
MIRROR_SOURCE_CLEANING_CONFIG: Final = "mirror.source.cleaning"
"""The source's configs of a mirrored topic that the cleaner uses; absent unless they compact."""
CLEANING_CONFIGS: Final = (
    "cleanup.policy",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka 4.3's defaults. Sizes in bytes, times in ms."""

    segment_size: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    max_index_size: int = 10_485_760
    flush_interval: int = LONG_MAX
    """flush.messages"""
    flush_ms: int = LONG_MAX
    retention_size: int = -1
    retention_ms: int = 604_800_000
    max_message_size: int = 1_048_588
    index_interval: int = 4096
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 86_400_000
    compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_ratio: float = 0.5
    compact: bool = False
    delete: bool = True
    unclean_leader_election_enable: bool = False
    min_in_sync_replicas: int = 1
    compression_type: str = "producer"
    """producer, uncompressed, gzip, snappy, lz4 or zstd"""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    """CreateTime or LogAppendTime"""
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    is_mirrored: bool = False
    """Whether the topic has a `mirror.name`: its front is not this broker's (`log_retention`)."""
    while_mirrored: LogConfig | None = None
    """What the cleaner goes by while clients may not write to the log; None: by this config."""

    @property
    def max_segment_ms(self) -> int:
        """The time after which a segment is rolled: a compacted topic also rolls within
        max.compaction.lag.ms.
        """
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def from_props(cls, props: Mapping[str, str | None], *, defaults: LogConfig | None = None) -> LogConfig:
        """`props` over `defaults`; ConfigError for a value that cannot be parsed.

        A None value counts as absent.
        """
        values: dict[str, Any] = {}
        for name, text in props.items():
            if text is None:
                continue
            if name == "cleanup.policy":
                policies = [policy.strip().lower() for policy in text.split(",")]
                values["compact"] = "compact" in policies
                values["delete"] = "delete" in policies
            elif name in _FIELDS:
                values[_FIELDS[name][0]] = _parse(name, text)
        if props.get("internal.segment.bytes") is not None:
            values["segment_size"] = _parse("internal.segment.bytes", str(props["internal.segment.bytes"]))
        if props.get(MIRROR_NAME_CONFIG):
            values = {"compact": False, **values, "is_mirrored": True}
        base = defaults if defaults is not None else cls()
        config = replace(base, **values)
        mirror_name = props.get(MIRROR_NAME_CONFIG)
        if not mirror_name or mirror_name.endswith(".removed"):
            return config
        of_source = cleaning_props(props.get(MIRROR_SOURCE_CLEANING_CONFIG) or "")
        return replace(config, while_mirrored=_more_careful(config, cls.from_props(of_source, defaults=base) if of_source else None))


def cleaning_text(props: Mapping[str, str]) -> str | None:
    """The value of `mirror.source.cleaning` for a source's configs; None if they do not compact."""
    if "compact" not in props.get("cleanup.policy", ""):
        return None
    return ";".join(f"{name}={props[name]}" for name in CLEANING_CONFIGS if name in props)


def cleaning_props(text: str) -> dict[str, str]:
    """The configs in a value of `mirror.source.cleaning`."""
    return {name: value for name, _, value in (part.partition("=") for part in text.split(";") if part)}


def _more_careful(own: LogConfig, source: LogConfig | None) -> LogConfig:
    """`own`, but cleaned no more than `source` is; without one it is not cleaned at all."""
    if source is None:
        return replace(own, compact=False)
    return replace(
        own,
        compact=own.compact and source.compact,
        delete_retention_ms=max(own.delete_retention_ms, source.delete_retention_ms),
        max_compaction_lag_ms=max(own.max_compaction_lag_ms, source.max_compaction_lag_ms),
        min_cleanable_ratio=max(own.min_cleanable_ratio, source.min_cleanable_ratio),
        compaction_lag_ms=max(own.compaction_lag_ms, source.compaction_lag_ms),
    )


Parser = Callable[[str], int | float | bool | str]


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_FIELDS: Final[dict[str, tuple[str, Parser]]] = {
    "segment.bytes": ("segment_size", int),
    "internal.segment.bytes": ("segment_size", int),
    "segment.ms": ("segment_ms", int),
    "segment.jitter.ms": ("segment_jitter_ms", int),
    "segment.index.bytes": ("max_index_size", int),
    "flush.messages": ("flush_interval", int),
    "flush.ms": ("flush_ms", int),
    "retention.bytes": ("retention_size", int),
    "retention.ms": ("retention_ms", int),
    "max.message.bytes": ("max_message_size", int),
    "index.interval.bytes": ("index_interval", int),
    "file.delete.delay.ms": ("file_delete_delay_ms", int),
    "delete.retention.ms": ("delete_retention_ms", int),
    "min.compaction.lag.ms": ("compaction_lag_ms", int),
    "max.compaction.lag.ms": ("max_compaction_lag_ms", int),
    "min.cleanable.dirty.ratio": ("min_cleanable_ratio", float),
    "unclean.leader.election.enable": ("unclean_leader_election_enable", _bool),
    "min.insync.replicas": ("min_in_sync_replicas", int),
    "compression.type": ("compression_type", str),
    "compression.gzip.level": ("compression_gzip_level", int),
    "compression.lz4.level": ("compression_lz4_level", int),
    "compression.zstd.level": ("compression_zstd_level", int),
    "preallocate": ("preallocate", _bool),
    "message.timestamp.type": ("message_timestamp_type", str),
    "message.timestamp.before.max.ms": ("message_timestamp_before_max_ms", int),
    "message.timestamp.after.max.ms": ("message_timestamp_after_max_ms", int),
}


def _parse(name: str, text: str) -> int | float | bool | str:
    parse = _FIELDS[name][1]
    try:
        return parse(text.strip())
    except (ValueError, KeyError) as error:
        raise ConfigError(f"Invalid value {text} for configuration {name}") from error
