"""Which topics, groups and topic configs are copied: Kafka's default filters.

A name is taken if a regular expression of the include list matches the whole name and none of the
exclude list does (FI1, FI2). Lists are joined by `|` into one expression. A blank list matches
nothing: `topics=` copies no topic, `topics.exclude=` excludes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kmirror.common.config import ConfigType, parse_value, valid_list
from kmirror.common.java_patterns import compile_pattern_list

TOPICS_CONFIG: Final = "topics"
TOPICS_EXCLUDE_CONFIG: Final = "topics.exclude"
TOPICS_DEFAULT: Final = ".*"
TOPICS_EXCLUDE_DEFAULT: Final = r"mm2.*\.internal, .*\.replica, __.*"
GROUPS_CONFIG: Final = "groups"
GROUPS_EXCLUDE_CONFIG: Final = "groups.exclude"
GROUPS_DEFAULT: Final = ".*"
GROUPS_EXCLUDE_DEFAULT: Final = "console-consumer-.*, connect-.*, __.*"
CONFIG_PROPERTIES_EXCLUDE_CONFIG: Final = "config.properties.exclude"
CONFIG_PROPERTIES_EXCLUDE_DEFAULT: Final = (
    "follower.replication.throttled.replicas, leader.replication.throttled.replicas, message.timestamp.difference.max.ms, "
    "log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, message.timestamp.type, "
    "unclean.leader.election.enable, min.insync.replicas"
)
USE_DEFAULTS_FROM_CONFIG: Final = "use.defaults.from"
SOURCE, TARGET = "source", "target"


class TopicFilter(Protocol):
    """Kafka's `TopicFilter`."""

    def should_replicate_topic(self, topic: str) -> bool: ...


class GroupFilter(Protocol):
    """Kafka's `GroupFilter`."""

    def should_replicate_group(self, group: str) -> bool: ...


class NameFilter:
    """Names that match an include list and not an exclude list."""

    def __init__(self, include: re.Pattern[str] | None, exclude: re.Pattern[str] | None) -> None:
        self._include = include
        self._exclude = exclude

    def takes(self, name: str) -> bool:
        return _matches(self._include, name) and not _matches(self._exclude, name)


class DefaultTopicFilter(NameFilter):
    """Kafka's `DefaultTopicFilter` (FI1)."""

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> DefaultTopicFilter:
        """Reads `topics` and `topics.exclude`; ConfigError for what is no list of expressions."""
        return cls(
            _pattern(props, TOPICS_CONFIG, TOPICS_DEFAULT),
            _pattern(props, TOPICS_EXCLUDE_CONFIG, TOPICS_EXCLUDE_DEFAULT),
        )

    def should_replicate_topic(self, topic: str) -> bool:
        return self.takes(topic)


class DefaultGroupFilter(NameFilter):
    """Kafka's `DefaultGroupFilter` (FI2)."""

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> DefaultGroupFilter:
        """Reads `groups` and `groups.exclude`; ConfigError for what is no list of expressions."""
        return cls(
            _pattern(props, GROUPS_CONFIG, GROUPS_DEFAULT),
            _pattern(props, GROUPS_EXCLUDE_CONFIG, GROUPS_EXCLUDE_DEFAULT),
        )

    def should_replicate_group(self, group: str) -> bool:
        return self.takes(group)


class DefaultConfigPropertyFilter:
    """Kafka's `DefaultConfigPropertyFilter` (FI3).

    `use.defaults.from` is compared with `source`; anything else means `target`, as in Kafka, which
    does not check it.
    """

    def __init__(self, exclude: re.Pattern[str] | None, *, use_defaults_from: str = TARGET) -> None:
        self._exclude = exclude
        self._use_defaults_from = use_defaults_from

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> DefaultConfigPropertyFilter:
        return cls(
            _pattern(props, CONFIG_PROPERTIES_EXCLUDE_CONFIG, CONFIG_PROPERTIES_EXCLUDE_DEFAULT),
            use_defaults_from=props.get(USE_DEFAULTS_FROM_CONFIG, TARGET).strip(),
        )

    def should_replicate_config_property(self, name: str) -> bool:
        return not _matches(self._exclude, name)

    def should_replicate_source_default(self, name: str) -> bool:
        """Whether a config that the source has by default is set at the target, too."""
        return self._use_defaults_from == SOURCE


def list_config(name: str, text: str) -> list[str]:
    """Returns the entries of a list of expressions; ConfigError for an empty entry (`a,,b`)."""
    entries: Sequence[str] = parse_value(name, text, ConfigType.LIST)
    valid_list(duplicates_allowed=True)(name, entries)
    return list(dict.fromkeys(entries))


def _pattern(props: Mapping[str, str], name: str, default: str) -> re.Pattern[str] | None:
    return compile_pattern_list(list_config(name, props.get(name, default)), config=name)


def _matches(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None
