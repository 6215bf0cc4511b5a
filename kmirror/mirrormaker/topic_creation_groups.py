"""How the topics of a source connector are made: `topic.creation.*` (KIP-158; Connect's `SourceConnectorConfig`,
`TopicCreationConfig` and `TopicCreationGroup`).

    topic.creation.default.replication.factor = 1      required as soon as there is any topic.creation.*
    topic.creation.default.partitions = 3              required, too; -1 is the broker's default
    topic.creation.default.retention.ms = 86400000     any other name is a config of the topic
    topic.creation.groups = big, small                 further groups, in the order in which they are asked
    topic.creation.big.include = orders.*, parcels     regular expressions of whole names
    topic.creation.big.exclude = .*-dead               stronger than `include`
    topic.creation.big.partitions = 12                 the default group's, unless it is said

The first group that includes a topic makes it, else the default group, which takes every topic. Errors name a
config without its prefix where its validator finds them, as Connect's do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kmirror.admin.results import NewTopic
from kmirror.common.config import NO_DEFAULT, ConfigDef, ConfigType, Validator, invalid_value, parse_value
from kmirror.common.errors import ConfigError
from kmirror.common.java_patterns import compile_pattern

PREFIX: Final = "topic.creation."
GROUPS_CONFIG: Final = f"{PREFIX}groups"
DEFAULT_GROUP: Final = "default"
INCLUDE, EXCLUDE, REPLICATION_FACTOR, PARTITIONS = "include", "exclude", "replication.factor", "partitions"
OF_THE_BROKER: Final = -1
_OWN_NAMES: Final = (INCLUDE, EXCLUDE, REPLICATION_FACTOR, PARTITIONS)


@dataclass(frozen=True)
class TopicCreationGroup:
    """Sizes may be OF_THE_BROKER."""

    name: str
    include: re.Pattern[str]
    exclude: re.Pattern[str]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def matches(self, topic: str) -> bool:
        return not self.exclude.fullmatch(topic) and bool(self.include.fullmatch(topic))

    def new_topic(self, topic: str) -> NewTopic:
        return NewTopic(topic, self.partitions, self.replication_factor, dict(self.configs))


@dataclass(frozen=True)
class TopicCreationGroups:
    """Of one connector. `groups` are all but the default one."""

    groups: tuple[TopicCreationGroup, ...]
    default: TopicCreationGroup

    def find_first(self, topic: str) -> TopicCreationGroup:
        return next((group for group in self.groups if group.matches(topic)), self.default)


def topic_creation_groups(props: Mapping[str, str], *, is_enabled: bool) -> TopicCreationGroups | None:
    """Returns the groups of a connector whose references are resolved; None if it has no `topic.creation.*`, or
    the worker has them not enabled. ConfigError, in Connect's words, for the first thing that is wrong.
    """
    aliases = group_names(props)
    unique_groups(GROUPS_CONFIG, aliases)
    if not is_enabled or not uses_topic_creation(props):
        return None
    default = _default_definition().parse(props)
    factor, partitions = (default[f"{PREFIX}{DEFAULT_GROUP}.{name}"] for name in (REPLICATION_FACTOR, PARTITIONS))
    groups = []
    for alias in aliases:
        if alias != DEFAULT_GROUP:
            found = _definition(alias, factor, partitions).parse(props)
            groups.append(_group(alias, {name: found[f"{PREFIX}{alias}.{name}"] for name in _OWN_NAMES}, props))
    everything = {INCLUDE: [".*"], EXCLUDE: [], REPLICATION_FACTOR: factor, PARTITIONS: partitions}
    return TopicCreationGroups(tuple(groups), _group(DEFAULT_GROUP, everything, props))


def uses_topic_creation(props: Mapping[str, str]) -> bool:
    return any(name.startswith(PREFIX) for name in props)


def group_names(props: Mapping[str, str]) -> list[str]:
    names: list[str] = parse_value(GROUPS_CONFIG, props.get(GROUPS_CONFIG, ""), ConfigType.LIST)
    return names


def unique_groups(name: str, value: Any) -> None:
    """The validator of `topic.creation.groups`."""
    if len(set(value)) < len(value):
        raise invalid_value(name, value, "Duplicate alias provided.")


def _group(name: str, own: Mapping[str, Any], props: Mapping[str, str]) -> TopicCreationGroup:
    prefix = f"{PREFIX}{name}."
    others = {one[len(prefix) :]: value for one, value in props.items() if one.startswith(prefix) and len(one) > len(prefix)}
    return TopicCreationGroup(
        name,
        compile_pattern("|".join(own[INCLUDE]), config=prefix + INCLUDE),
        compile_pattern("|".join(own[EXCLUDE]), config=prefix + EXCLUDE),
        own[PARTITIONS],
        own[REPLICATION_FACTOR],
        {one: value for one, value in others.items() if one not in _OWN_NAMES},
    )


def _default_definition() -> ConfigDef:
    """Its `include` and `exclude` are not looked at: it takes every topic."""
    return _sizes(ConfigDef(), f"{PREFIX}{DEFAULT_GROUP}.", NO_DEFAULT, NO_DEFAULT)


def _definition(alias: str, replication_factor: int, partitions: int) -> ConfigDef:
    prefix, definition = f"{PREFIX}{alias}.", ConfigDef()
    for name in (INCLUDE, EXCLUDE):
        definition.define(prefix + name, ConfigType.LIST, [], validator=_named(name, _regular_expressions))
    return _sizes(definition, prefix, replication_factor, partitions)


def _sizes(definition: ConfigDef, prefix: str, replication_factor: Any, partitions: Any) -> ConfigDef:
    factor, count = _named(REPLICATION_FACTOR, _replication_factor), _named(PARTITIONS, _partitions)
    definition.define(prefix + REPLICATION_FACTOR, ConfigType.SHORT, replication_factor, validator=factor)
    return definition.define(prefix + PARTITIONS, ConfigType.INT, partitions, validator=count)


def _named(name: str, check: Validator) -> Validator:
    return lambda _, value: check(name, value)


def _regular_expressions(name: str, value: Any) -> None:
    for one in value:
        try:
            compile_pattern(one, config=name)
        except ConfigError as error:
            raise invalid_value(name, value, f"Syntax error in regular expression: {error.__cause__}") from error


def _replication_factor(name: str, value: Any) -> None:
    if value is None or (value != OF_THE_BROKER and value < 1):
        message = "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster"
        raise invalid_value(name, value, f"{message}, or -1 to use the broker's default")


def _partitions(name: str, value: Any) -> None:
    if value is None or (value != OF_THE_BROKER and value < 1):
        raise invalid_value(name, value, "Number of partitions must be positive, or -1 to use the broker's default")
