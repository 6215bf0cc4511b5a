"""Whether a connector's properties are right, property by property: what Connect's REST interface says of
them before it takes them (`AbstractHerder.validateConnectorConfig`).

An answer has, for each property that the connector defines, its definition and its value, with all
that is wrong about it. Properties that it does not define are in the answer only if something is
wrong with them. `require_valid` refuses a config, in Connect's words.

What kmirror alone refuses (filters of other classes) is among the errors too, with its
property. The last check makes the plan that would run: what only that finds is an error without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kmirror.common.config import ConfigDef, ConfigKey, ConfigType, Importance, at_least, invalid_value, parse_value, to_text, valid_string
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.client_configs import HIDDEN
from kmirror.mirrormaker.connector_config import (
    PACKAGE,
    connector_config_def,
    validate_checkpoint,
    validate_source,
)
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, HerderError
from kmirror.mirrormaker.mirror_maker_config import BYTE_ARRAY_CONVERTER, CONNECTOR_CLASS_CONFIG, SINK_CONNECTOR, SOURCE_CONNECTOR
from kmirror.mirrormaker.property_names import current_names
from kmirror.mirrormaker.replication_policy import POLICIES
from kmirror.mirrormaker.topic_creation_groups import unique_groups
from kmirror.mirrormaker.transforms import VERSION, AliasConfig, alias_configs, other_version
from kmirror.network.config_providers import ResolvedConfigs

CONNECT_VERSION: Final = VERSION
"""The release of Kafka whose interface this is; connectors have it, too."""
CHECKPOINT, HEARTBEAT = "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
CLASSES: Final = {CHECKPOINT: "C", HEARTBEAT: "H", SOURCE_CONNECTOR: "S"}
"""The connectors that there are, and their letters in `connector_config`'s table."""
GROUPS: Final = ("Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic")


class Shown(NamedTuple):
    """How a property that Connect defines is shown."""

    group: str | None
    order: int
    width: str
    display_name: str

    @classmethod
    def by_name(cls, key: ConfigKey) -> Shown:
        """How any other is."""
        return cls(None, -1, "NONE", key.name)


_SHOWN: Final = {
    "name": Shown("Common", 1, "MEDIUM", "Connector name"),
    "connector.class": Shown("Common", 2, "LONG", "Connector class"),
    "connector.plugin.version": Shown("Common", 3, "MEDIUM", "Connector version"),
    "tasks.max": Shown("Common", 4, "SHORT", "Tasks max"),
    "tasks.max.enforce": Shown("Common", 5, "SHORT", "Enforce tasks max"),
    "key.converter": Shown("Common", 6, "SHORT", "Key converter class"),
    "key.converter.plugin.version": Shown("Common", 7, "SHORT", "Key converter version"),
    "value.converter": Shown("Common", 8, "SHORT", "Value converter class"),
    "value.converter.plugin.version": Shown("Common", 9, "SHORT", "Value converter version"),
    "header.converter": Shown("Common", 10, "SHORT", "Header converter class"),
    "header.converter.plugin.version": Shown("Common", 11, "SHORT", "Header converter version"),
    "transforms": Shown("Transforms", 12, "LONG", "Transforms"),
    "predicates": Shown("Predicates", 13, "LONG", "Predicates"),
    "config.action.reload": Shown("Common", 14, "MEDIUM", "Reload Action"),
    "errors.retry.timeout": Shown("Error Handling", 1, "MEDIUM", "Retry Timeout for Errors"),
    "errors.retry.delay.max.ms": Shown("Error Handling", 2, "MEDIUM", "Maximum Delay Between Retries for Errors"),
    "errors.tolerance": Shown("Error Handling", 3, "SHORT", "Error Tolerance"),
    "errors.log.enable": Shown("Error Handling", 4, "SHORT", "Log Errors"),
    "errors.log.include.messages": Shown("Error Handling", 5, "SHORT", "Log Error Details"),
    "topic.creation.groups": Shown("Topic Creation", 1, "LONG", "Topic Creation Groups"),
    "exactly.once.support": Shown("Exactly Once Support", 2, "SHORT", "Exactly once support"),
    "transaction.boundary": Shown("Exactly Once Support", 3, "SHORT", "Transaction Boundary"),
    "transaction.boundary.interval.ms": Shown("Exactly Once Support", 4, "SHORT", "Transaction boundary interval"),
    "offsets.storage.topic": Shown("offsets.topic", 1, "LONG", "Offsets topic"),
}
_KNOWN_CLASSES: Final = {
    **dict.fromkeys(("key.converter", "value.converter"), ("ByteArrayConverter",)),
    "header.converter": ("ByteArrayConverter", "SimpleHeaderConverter"),
    "topic.filter.class": ("DefaultTopicFilter",),
    "group.filter.class": ("DefaultGroupFilter",),
    "config.property.filter.class": ("DefaultConfigPropertyFilter",),
    "replication.policy.class": tuple(POLICIES),
    "forwarding.admin.class": ("ForwardingAdmin",),
}
"""By their names without packages."""
NULL_VALUE: Final = "Null value can not be supplied as the configuration value."


@dataclass
class ConfigInfo:
    """A property. `key` is None for one that the connector does not define."""

    name: str
    key: ConfigKey | None
    value: str | None
    errors: list[str] = field(default_factory=list)
    visible: bool = True
    shown: Shown | None = None
    recommended: tuple[str, ...] = ()


@dataclass
class ConfigInfos:
    connector_class: str
    configs: list[ConfigInfo]
    groups: tuple[str, ...] = GROUPS

    @property
    def errors(self) -> list[str]:
        return [error for config in self.configs for error in config.errors]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.connector_class,
            "error_count": len(self.errors),
            "groups": list(self.groups),
            "configs": [
                {
                    "definition": None if info.key is None else key_info(info.key, info.shown),
                    "value": {
                        "name": info.name,
                        "value": info.value,
                        "recommended_values": list(info.recommended),
                        "errors": info.errors,
                        "visible": info.visible,
                    },
                }
                for info in self.configs
            ],
        }


def connector_class(config: Mapping[str, str | None]) -> str:
    """Returns the simple name of a config's class: one of CLASSES. HerderError 400 without one, or for
    one that there is not.
    """
    given = config.get(CONNECTOR_CLASS_CONFIG)
    if given is None:
        shown = ", ".join(f"{name}={'null' if value is None else value}" for name, value in config.items())
        raise HerderError(BAD_REQUEST, f"Connector config {{{shown}}} contains no connector type")
    found = class_named(given)
    if found is None:
        available = ", ".join(PACKAGE + name for name in CLASSES)
        raise HerderError(
            BAD_REQUEST,
            f"Failed to find any class that implements Connector and which name matches {given}, available connectors are: {available}",
        )
    return found


def class_named(given: str) -> str | None:
    """Returns the simple name for a full name, a simple one, or one without `Connector` at its end. The
    sink (MC2) is a source connector, too.
    """
    name = given.strip().removeprefix(PACKAGE)
    if name == SINK_CONNECTOR:
        return SOURCE_CONNECTOR
    return next((known for known in CLASSES if name in (known, known.removesuffix("Connector"))), None)


def definitions(name: str) -> ConfigDef:
    """Returns what a connector of CLASSES defines, with what Connect defines for every source
    connector.
    """
    definition = connector_config_def(CLASSES[name])
    define = definition.define
    define("topic.creation.groups", ConfigType.LIST, "", "Groups of rules for topics that tasks make.", validator=unique_groups,
           importance=Importance.LOW)  # fmt: skip
    define("exactly.once.support", ConfigType.STRING, "requested", "Whether the connector may only run if it copies exactly once.",
           validator=valid_string("REQUESTED", "REQUIRED", ignore_case=True))  # fmt: skip
    define("transaction.boundary", ConfigType.STRING, "poll", "What a transaction holds: one poll, or what an interval brings.",
           validator=valid_string("INTERVAL", "POLL", "CONNECTOR", ignore_case=True))  # fmt: skip
    define("transaction.boundary.interval.ms", ConfigType.LONG, None, "How long a transaction may last, with the boundary interval.",
           validator=_at_least_0, importance=Importance.LOW)  # fmt: skip
    define("offsets.storage.topic", ConfigType.STRING, None, "Refused if it is set: source offsets are where the worker has them.",
           validator=_unset, importance=Importance.LOW)  # fmt: skip
    return definition


def key_infos(name: str) -> list[dict[str, Any]]:
    """Returns the definitions of a connector of CLASSES as JSON."""
    return [key_info(key) for key in _in_order(definitions(name))]


def key_info(key: ConfigKey, shown: Shown | None = None) -> dict[str, Any]:
    shown = shown or _SHOWN.get(key.name) or Shown.by_name(key)
    default = key.default if key.has_default else None
    return {
        "name": key.name,
        "type": key.type.name,
        "required": not key.has_default,
        "default_value": default if isinstance(default, str) else to_text(default, key.type),
        "importance": key.importance.name,
        "documentation": key.documentation,
        "group": shown.group,
        "order_in_group": shown.order,
        "width": shown.width,
        "display_name": shown.display_name,
        "dependents": [],
    }


def validate(
    config: Mapping[str, str | None],
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]],
    plan: Callable[[Mapping[str, str]], object],
    converters: Mapping[str, str] = MappingProxyType({}),
) -> ConfigInfos:
    """Checks a config; `resolve` replaces references of config providers, `plan` makes what would run,
    `converters` are the worker's, for connectors without their own. HerderError 400 without a class.

    What a reference stands for is not shown: the reference is.
    """
    name = connector_class(config)
    given = {one: value for one, value in config.items() if value is not None}
    try:
        replaced = resolve(given)
    except ConfigError as error:
        raise HerderError(BAD_REQUEST, str(error)) from error
    as_written = replaced.as_written if isinstance(replaced, ResolvedConfigs) else str
    resolved = current_names(replaced)
    infos = {key.name: _checked(key, resolved) for key in _in_order(definitions(name))}
    groups = dict.fromkeys(GROUPS)
    for of_alias in alias_configs(resolved):
        infos[of_alias.key.name] = _alias_info(of_alias)
        groups[of_alias.group] = None
    for one in ("key", "value", "header"):
        infos[f"{one}.converter.plugin.version"].visible = bool(resolved.get(f"{one}.converter", "").strip())
    if wrong_version := other_version(PACKAGE + name, resolved.get("connector.plugin.version") or None):
        infos[CONNECTOR_CLASS_CONFIG].errors.append(wrong_version)
    unknown: dict[str, ConfigInfo] = {}

    def wrong(one: str, message: str) -> None:
        found = infos.get(one) or unknown.setdefault(one, ConfigInfo(one, None, None))
        found.errors.append(message)

    for one in config.keys() - given.keys():
        wrong(one, NULL_VALUE)
    for one, value in converters.items():
        if one not in resolved and value.rpartition(".")[2] not in _KNOWN_CLASSES[one]:
            wrong(one, f"{one} of the worker is {value}, but kmirror copies bytes as they are; give the connector {BYTE_ARRAY_CONVERTER}")
    if name != HEARTBEAT:
        for one, message in (validate_source if name == SOURCE_CONNECTOR else validate_checkpoint)(resolved).items():
            wrong(one, message)
    found = ConfigInfos(str(config[CONNECTOR_CLASS_CONFIG]), [*unknown.values(), *infos.values()], tuple(groups))
    if not found.errors:
        try:
            plan(given)
        except ConfigError as error:
            infos[CONNECTOR_CLASS_CONFIG].errors.append(str(error))
    _show_as_written(found, given, as_written)
    return found


def _alias_info(config: AliasConfig) -> ConfigInfo:
    shown = Shown(config.group, config.order, config.width, config.display_name)
    return ConfigInfo(config.key.name, config.key, config.value, config.errors, shown=shown, recommended=config.recommended)


def _show_as_written(infos: ConfigInfos, given: Mapping[str, str], as_written: Callable[[str], str]) -> None:
    for info in infos.configs:
        info.errors = [as_written(error) for error in info.errors]
        if "${" in given.get(info.name, "") and info.value not in (None, HIDDEN):
            info.value = given[info.name]


def require_valid(infos: ConfigInfos) -> None:
    """HerderError 400 with everything that is wrong."""
    errors = infos.errors
    if errors:
        raise HerderError(
            BAD_REQUEST,
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n"
            + "\n".join(errors)
            + "\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`",
        )


def _in_order(definition: ConfigDef) -> Sequence[ConfigKey]:
    """What Connect defines is first, as it shows it."""
    first = [definition[name] for name in _SHOWN]
    return [*first, *(key for key in definition if key.name not in _SHOWN)]


def _checked(key: ConfigKey, props: Mapping[str, str]) -> ConfigInfo:
    info = ConfigInfo(key.name, key, None)
    if key.name not in props:
        if key.has_default:
            info.value = key.default if isinstance(key.default, str) else to_text(key.default, key.type)
        else:
            info.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
        return info
    typed = None
    try:
        typed = parse_value(key.name, props[key.name], key.type)
    except ConfigError as error:
        info.errors.append(str(error))
    info.value = HIDDEN if key.type is ConfigType.PASSWORD else to_text(typed, key.type)
    if key.type is ConfigType.CLASS and not info.value:
        info.value = None
    for check in filter(None, (key.validator, _is_built)):
        try:
            if check is not _is_built or not info.errors:
                check(key.name, typed)
        except ConfigError as error:
            info.errors.append(str(error))
    return info


def _is_built(name: str, value: Any) -> None:
    text = ",".join(value) if isinstance(value, list) else str(value)
    known = _KNOWN_CLASSES.get(name)
    if known is not None and text.rpartition(".")[2] not in known:
        raise invalid_value(name, text, f"Class {text} could not be found.")


def _at_least_0(name: str, value: Any) -> None:
    if value is not None:
        at_least(0)(name, value)


def _unset(name: str, value: Any) -> None:
    if value is not None:
        raise invalid_value(name, value, "kmirror has source offsets where the worker has them; leave the property out")
