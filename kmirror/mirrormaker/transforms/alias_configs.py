"""The configs that `transforms` and `predicates` add to a connector's, and what is wrong with them (Connect's
`ConnectorConfig.enrich`).

Each alias adds its class (`transforms.a.type`), the class's version, and, if there is such a class in such a
version, the class's configs and, for a transformation, `predicate` and `negate`. Errors name a config
without its prefix where its validator finds them, as Connect's do.

Not found here, as in Connect: a predicate that is not defined, and configs that are wrong together (such as
InsertField without a field). A task that is made of them fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kmirror.common.config import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance, invalid_value, parse_value, to_text
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.plugins import (
    PACKAGE,
    PREDICATES,
    TRANSFORMATIONS,
    abstract_classes,
    predicate_plugin,
    transformation_plugin,
)

VERSION: Final = "4.3.0"
"""The release of Kafka whose plugins these are."""
_IMPORTANCE: Final = (Importance.HIGH, Importance.MEDIUM, Importance.LOW)
_OF_TRANSFORMATIONS: Final = (
    ConfigDef()
    .define(
        "predicate",
        ConfigType.STRING,
        None,
        "The alias of a predicate: only records of which it is true are transformed.",
        importance=Importance.MEDIUM,
    )  # fmt: skip
    .define("negate", ConfigType.BOOLEAN, "false", "Whether it must be false instead.", importance=Importance.MEDIUM)
)


class Kind(NamedTuple):
    """`config` is the list of aliases."""

    config: str
    name: str
    group: str
    classes: tuple[str, ...]


KINDS: Final = (
    Kind("transforms", "Transformation", "Transforms", tuple(sorted(one.java_class for one in TRANSFORMATIONS.values()))),
    Kind("predicates", "Predicate", "Predicates", tuple(sorted(one.java_class for one in PREDICATES.values()))),
)


class AliasConfig(NamedTuple):
    """A config of an alias, how it is shown, its value as text, and what is wrong with it."""

    key: ConfigKey
    group: str
    order: int
    width: str
    display_name: str
    recommended: tuple[str, ...]
    value: str | None
    errors: list[str]


def alias_configs(props: Mapping[str, str]) -> list[AliasConfig]:
    """Returns the configs of all aliases of a connector."""
    found = []
    for kind in KINDS:
        for alias in dict.fromkeys(parse_value(kind.config, props.get(kind.config, ""), ConfigType.LIST)):
            found += _of_alias(kind, alias, props)
    return found


def require_valid_aliases(props: Mapping[str, str]) -> None:
    """ConfigError for the first thing that is wrong."""
    for config in alias_configs(props):
        for error in config.errors:
            raise ConfigError(error)


def _of_alias(kind: Kind, alias: str, props: Mapping[str, str]) -> list[AliasConfig]:
    prefix, group = f"{kind.config}.{alias}.", f"{kind.group}: {alias}"
    given, wanted = props.get(f"{prefix}type"), props.get(f"{prefix}plugin.version")
    java_class, definition, error = _class_of(kind, f"{prefix}type", given)
    wrong_version = None if definition is None or java_class is None else other_version(java_class, wanted)
    version = VERSION if definition is not None else None
    key = ConfigKey(f"{prefix}type", ConfigType.CLASS, NO_DEFAULT, f"The class of {alias}.", importance=Importance.HIGH)
    errors = [] if error is None else [error]
    if f"{prefix}negate" in props and f"{prefix}predicate" not in props and kind.config == "transforms":
        message = f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate to be negated."
        errors = [*(errors if java_class is None else []), message]
    elif wrong_version is not None:
        errors.append(wrong_version)
    found = [AliasConfig(key, group, 0, "LONG", f"{kind.name} type for {alias}", kind.classes, java_class, errors)]
    key = ConfigKey(f"{prefix}plugin.version", ConfigType.STRING, version, f"The version of {alias}.", importance=Importance.HIGH)
    errors = [] if wrong_version is None else [wrong_version]
    shown, versions = f"{kind.name} version for {alias}", (VERSION,) if definition is not None else ()
    found.append(AliasConfig(key, group, 1, "LONG", shown, versions, wanted or version, errors))
    if definition is None or wrong_version is not None:
        return found
    keys = [*definition, *(_OF_TRANSFORMATIONS if kind.config == "transforms" else ())]
    keys.sort(key=lambda one: (one.has_default, _IMPORTANCE.index(one.importance), one.name))
    return found + [_checked(one, prefix, group, order, props) for order, one in enumerate(keys, 2)]


def other_version(java_class: str, wanted: str | None) -> str | None:
    """What is wrong with a wish for one version of a plugin; None if it is ours, or a range."""
    if wanted is None or wanted.strip() in ("latest", VERSION) or wanted.strip()[:1] in ("[", "("):
        return None
    return f"Plugin {java_class} not found that matches the version range [{wanted},{wanted}], available versions: [{VERSION}]"


def _class_of(kind: Kind, name: str, given: str | None) -> tuple[str | None, ConfigDef | None, str | None]:
    """The class that a text stands for, if there is one, what it defines, and what is wrong."""
    if given is None:
        return None, None, f'Missing required configuration "{name}" which has no default value.'
    transformation, predicate = transformation_plugin(given), predicate_plugin(given)
    right, other = (transformation, predicate) if kind.config == "transforms" else (predicate, transformation)
    if right is not None:
        return right.java_class, right.definition, None
    if other is not None:
        return other.java_class, None, f"Class class {other.java_class} does not implement the {kind.name} interface"
    concrete = abstract_classes().get(given.strip().removeprefix(PACKAGE)) if given.strip().startswith(PACKAGE) else None
    if concrete:
        return given.strip(), None, f"This class is abstract and cannot be created. Did you mean {', '.join(concrete)}?"
    return None, None, str(invalid_value(name, given, f"Class {given.strip()} could not be found."))


def _checked(key: ConfigKey, prefix: str, group: str, order: int, props: Mapping[str, str]) -> AliasConfig:
    name = prefix + key.name
    value, errors = _value(key, name, props)
    if key.validator is not None:
        try:
            key.validator(key.name, value)
        except ConfigError as error:
            errors.append(str(error))
    named = ConfigKey(name, key.type, key.default, key.documentation, importance=key.importance)
    return AliasConfig(named, group, order, "NONE", key.name, (), to_text(value, key.type), errors)


def _value(key: ConfigKey, name: str, props: Mapping[str, str]) -> tuple[Any, list[str]]:
    if name in props:
        try:
            return parse_value(name, props[name], key.type), []
        except ConfigError as error:
            return None, [str(error)]
    if not key.has_default:
        return None, [f'Missing required configuration "{name}" which has no default value.']
    return key.default, []
