"""What DescribeConfigs shows: every config of a resource with its value, the source of the value,
and its synonyms.

A topic's value is its own override, otherwise the broker config with the same meaning. A broker's
value is the dynamic one of this broker, otherwise the cluster-wide dynamic one, otherwise the one
in the properties file, otherwise the default. The synonyms are that chain. As in Kafka, the chain
begins at the config's own (primary) name: a value that comes only from a config with another unit
(`log.retention.hours` for `retention.ms`) has no synonyms and counts as a default.

The configs come in the order of the hash maps that Kafka goes through: first what was set and is
not among the values (internal and unknown settings), then all values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from kmirror.common.config import ConfigDef, ConfigKey, UpdateMode, to_text
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.java_hash_map import hash_map_order
from kmirror.metadata.image import RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, ConfigResource, MetadataImage
from kmirror.metadata.mirror_names import validate_topic_name
from kmirror.metadata.resource_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, MIRROR_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIG_SYNONYMS, TOPIC_CONFIGS, inherited_topic_configs
from kmirror.server.broker_configs import broker_configs, dynamic_only_configs
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.runtime_logger_manager import logger_levels


class ConfigSource(IntEnum):
    """Kafka's `ConfigSource` ids."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class DescribedConfig(NamedTuple):
    name: str
    value: str | None
    source: int
    is_sensitive: bool = False
    read_only: bool = False
    synonyms: tuple[Synonym, ...] = ()
    type: int = 0
    documentation: str | None = None


MIRROR_PREFIX = "mirror."
LISTENER_PREFIX = "listener.name."

_BROKER_SYNONYMS = {
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.hours": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.hours": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
}


class ConfigViews:
    """The view that one request has of all configs."""

    def __init__(self, config: KafkaConfig, image: MetadataImage) -> None:
        self._config = config
        self._image = image
        self._dynamic = image.configs.broker(config.node_id)
        self._dynamic_default = image.configs.cluster_default()
        self._originals = _overridden(config.props, self._dynamic_default, self._dynamic)

    # --- brokers
    # ----------------------------------------------------------------------------------------------------

    def broker(self) -> list[DescribedConfig]:
        """Returns every config of this broker that is not internal, and others that were set."""
        values = [key.name for key in broker_configs() if self._is_shown(key)]
        shown = frozenset(values)
        names = [name for name in _hash_map_order(self._originals) if name not in shown]
        names += _hash_map_order(values)
        return [self._broker_entry(name, self._broker_value(name)) for name in names]

    def _is_shown(self, key: ConfigKey) -> bool:
        """Whether a config is shown: not an internal one, and one of mirroring only if that is
        switched on.
        """
        is_mirror_config = key.name.startswith(MIRROR_PREFIX)
        return not key.internal and (self._config.unstable_api_versions_enable or not is_mirror_config)

    def broker_defaults(self) -> list[DescribedConfig]:
        """Returns the cluster-wide dynamic configs."""
        entries = []
        for name in _hash_map_order(self._dynamic_default):
            entry = self._broker_entry(name, self._dynamic_default[name])
            own = tuple(synonym for synonym in entry.synonyms if synonym.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            entries.append(entry._replace(synonyms=own, source=_source(own)))
        return entries

    def _broker_value(self, name: str) -> str | None:
        for props in (self._dynamic, self._dynamic_default):
            if name in props:
                return _printed(broker_configs(), name, props[name])
        if name not in broker_configs():
            return self._config.props.get(name)
        is_superseded = name in self._config.props and name not in self._originals
        return _defaults((name,)).get(name) if is_superseded else self._config.text(name)

    def _broker_entry(self, name: str, value: str | None) -> DescribedConfig:
        key = _broker_key(name)
        is_sensitive = key is None or key.sensitive
        synonyms = self._synonyms(name, is_sensitive=is_sensitive)
        return DescribedConfig(
            name,
            None if is_sensitive else value,
            _source(synonyms),
            is_sensitive,
            key is None or key.update_mode is UpdateMode.READ_ONLY or name.startswith(LISTENER_PREFIX),
            synonyms,
            0 if key is None else key.type,
            "" if key is None else key.documentation,
        )

    def _synonyms(self, name: str, *, is_sensitive: bool) -> tuple[Synonym, ...]:
        bare = _without_listener(name)
        names = _BROKER_SYNONYMS.get(name, (name,) if bare == name else (name, bare))
        chain: list[Synonym] = []
        sources: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
            (self._dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._config.props, ConfigSource.STATIC_BROKER_CONFIG),
            (_defaults(names), ConfigSource.DEFAULT_CONFIG),
        )
        for props, source in sources:
            chain += [Synonym(synonym, None if is_sensitive else props[synonym], source) for synonym in names if synonym in props]
        first = next((index for index, synonym in enumerate(chain) if synonym.name == name), len(chain))
        return tuple(chain[first:])

    # --- topics
    # -----------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> list[DescribedConfig]:
        """Returns every config of an existing topic; ApiException if there is no such topic."""
        validate_topic_name(name)
        if self._image.topics.topic(name) is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, "")
        overrides = self._image.configs.topic(name)
        inherited = inherited_topic_configs({**self._config.props, **self._dynamic_default, **self._dynamic})
        names = _hash_map_order(key.name for key in TOPIC_CONFIGS if self._is_shown(key))
        return [self._topic_entry(TOPIC_CONFIGS[name], overrides, inherited) for name in names]

    def _topic_entry(self, key: ConfigKey, overrides: Mapping[str, str], inherited: Mapping[str, str]) -> DescribedConfig:
        name = key.name
        text = overrides.get(name, inherited.get(name))
        value = to_text(key.default, key.type) if text is None else _printed(TOPIC_CONFIGS, name, text)
        broker_names = TOPIC_CONFIG_SYNONYMS.get(name)
        synonyms = self._synonyms(broker_names[0].broker_config, is_sensitive=key.sensitive) if broker_names else ()
        if name in overrides:
            synonyms = (Synonym(name, value, ConfigSource.TOPIC_CONFIG), *synonyms)
        return DescribedConfig(name, value, _source(synonyms), key.sensitive, False, synonyms, key.type, key.documentation)

    # --- the rest
    # ---------------------------------------------------------------------------------------------------

    def group(self, name: str) -> list[DescribedConfig]:
        """Returns every config of a group, which need not exist.

        The broker config `group.X` gives the default of X.
        """
        overrides = self._image.configs.props(ConfigResource(RESOURCE_GROUP, name))
        names = _hash_map_order(key.name for key in GROUP_CONFIGS if not key.internal)
        return [self._group_entry(GROUP_CONFIGS[name], overrides) for name in names]

    def _group_entry(self, key: ConfigKey, overrides: Mapping[str, str]) -> DescribedConfig:
        broker_name = f"group.{key.name}"
        if broker_name not in broker_configs():
            entry = _plain_entry(key, overrides, ConfigSource.GROUP_CONFIG)
            default = Synonym(key.name, to_text(key.default, key.type), ConfigSource.DEFAULT_CONFIG)
            return entry._replace(synonyms=(*entry.synonyms, default))
        synonyms = self._synonyms(broker_name, is_sensitive=key.sensitive)
        value = self._broker_value(broker_name)
        if key.name in overrides:
            value = overrides[key.name]
            synonyms = (Synonym(key.name, value, ConfigSource.GROUP_CONFIG), *synonyms)
        return DescribedConfig(key.name, value, _source(synonyms), key.sensitive, False, synonyms, key.type, key.documentation)

    def client_metrics(self, name: str) -> list[DescribedConfig]:
        """Returns every config of a subscription, which need not exist."""
        overrides = self._image.configs.props(ConfigResource(RESOURCE_CLIENT_METRICS, name))
        keys = [CLIENT_METRICS_CONFIGS[key] for key in _hash_map_order(CLIENT_METRICS_CONFIGS.names())]
        return [_plain_entry(key, overrides, ConfigSource.CLIENT_METRICS_CONFIG) for key in keys]

    def mirror(self, name: str) -> list[DescribedConfig]:
        """Returns what is set for an existing mirror.

        Defaults are left out, as in the KIP's reference: its tool connects to the source with all
        that it is told, and fails on a null. Passwords, and what is remembered internally, are not
        shown.
        """
        if name not in self._image.configs.mirror_names():
            raise ApiException(Errors.UNKNOWN_MIRROR, "The mirror does not exist.")
        overrides = self._image.configs.mirror(name)
        shown = [key for key in MIRROR_CONFIGS if not key.internal and key.name in overrides]
        return [_plain_entry(key, overrides, ConfigSource.DYNAMIC_BROKER_CONFIG) for key in shown]

    def loggers(self) -> list[DescribedConfig]:
        """Returns the loggers of this process and their levels."""
        source, levels = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, logger_levels()
        return [DescribedConfig(name, levels[name], source, documentation="") for name in _hash_map_order(levels)]


def _overridden(props: Mapping[str, str], *overrides: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties with what was set at runtime.

    What is set in one unit takes the place of what the file says in any other unit.
    """
    result = dict(props)
    for changes in overrides:
        for name, value in changes.items():
            for synonym in _BROKER_SYNONYMS.get(name, ()):
                result.pop(synonym, None)
            result[name] = value
    return result


def _hash_map_order(names: Iterable[str]) -> tuple[str, ...]:
    """As `hash_map_order`; the same names are asked for again and again."""
    return _remembered_order(tuple(names))


@lru_cache(maxsize=32)
def _remembered_order(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(hash_map_order(names))


def _source(synonyms: tuple[Synonym, ...]) -> int:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG


def _without_listener(name: str) -> str:
    """Returns the name of a broker config without the prefix of a listener (and of a SASL
    mechanism).
    """
    if not name.startswith(LISTENER_PREFIX) or name.count(".") < 3:
        return name
    bare = name.split(".", 3)[3]
    return bare if bare in broker_configs() else bare.partition(".")[2]


def _broker_key(name: str) -> ConfigKey | None:
    """Returns the definition of a broker config; a listener's prefix makes no difference."""
    bare = _without_listener(name)
    for configs in (broker_configs(), dynamic_only_configs()):
        if bare in configs:
            return configs[bare]
    return None


def _defaults(names: tuple[str, ...]) -> dict[str, str]:
    """Returns the built-in values of broker configs.

    Configs without a default, or with a listener's prefix, are left out.
    """
    defaults: dict[str, str] = {}
    for name in names:
        key = None if name.startswith(LISTENER_PREFIX) else _broker_key(name)
        text = None if key is None or not key.has_default else to_text(key.default, key.type)
        if text is not None:
            defaults[name] = text
    return defaults


def _printed(configs: ConfigDef, name: str, text: str) -> str | None:
    """Returns a value as Kafka prints it after parsing, or unchanged if it does not parse."""
    if name not in configs:
        return text
    try:
        return to_text(configs.validate_value(name, text), configs[name].type)
    except ConfigError:
        return text


def _plain_entry(key: ConfigKey, overrides: Mapping[str, str], source: ConfigSource) -> DescribedConfig:
    is_set = key.name in overrides
    value = overrides[key.name] if is_set else to_text(key.default, key.type) if key.has_default else None
    synonyms = (Synonym(key.name, None if key.sensitive else value, source),) if is_set else ()
    return DescribedConfig(
        key.name,
        None if key.sensitive else value,
        source if is_set else ConfigSource.DEFAULT_CONFIG,
        key.sensitive,
        False,
        synonyms,
        key.type,
        key.documentation,
    )
