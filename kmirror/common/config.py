"""Typed configuration (Kafka's `ConfigDef`): names, types, defaults, validators, documentation, and
Kafka's error texts.

A `ConfigDef` parses a mapping of strings into typed values: unknown names are left to the caller,
missing ones take their default, a missing required one is an error. Values are trimmed before
parsing, as Kafka does. Every error is a `ConfigError` with Kafka's text, so a refusal reads as
Kafka's does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Final

from kmirror.common.errors import ConfigError


class ConfigType(IntEnum):
    """Kafka's config types; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(Enum):
    """How a broker config may be changed while the broker runs (Kafka's `dynamic-update-mode`)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()
Validator = Callable[[str, Any], None]

_RANGES = {
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}


class Password:
    """A secret that does not print itself."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "[hidden]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def invalid_value(name: str, value: object, message: str | None = None) -> ConfigError:
    """Kafka's `ConfigException(name, value, message)`."""
    text = f"Invalid value {_java_text(value)} for configuration {name}"
    return ConfigError(text if message is None else f"{text}: {message}")


def _java_text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(_java_text(item) for item in value) + "]"
    return str(value)


def between(minimum: float | None = None, maximum: float | None = None) -> Validator:
    """Accepts a number within the bounds, both included."""

    def check(name: str, value: Any) -> None:
        if value is None:
            raise invalid_value(name, None, "Value must be non-null")
        if minimum is not None and value < minimum:
            raise invalid_value(name, value, f"Value must be at least {minimum}")
        if maximum is not None and value > maximum:
            raise invalid_value(name, value, f"Value must be no more than {maximum}")

    return check


def at_least(minimum: float) -> Validator:
    return between(minimum)


def valid_string(*allowed: str, ignore_case: bool = False) -> Validator:
    """Accepts one of `allowed`."""

    def check(name: str, value: Any) -> None:
        if ignore_case:
            if value is None or str(value).upper() not in {text.upper() for text in allowed}:
                raise invalid_value(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")
        elif value not in allowed:
            raise invalid_value(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def valid_list(*allowed: str, empty_allowed: bool = True, duplicates_allowed: bool = False) -> Validator:
    """Accepts a list of `allowed` values (any values if none are given), without empty items, and
    without duplicates unless they are allowed."""

    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        if not value and not empty_allowed:
            options = f"[{', '.join(allowed)}]" if allowed else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {options}")
        if not duplicates_allowed and len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for item in value:
            if not item:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if allowed and item not in allowed:
                raise invalid_value(name, item, f"String must be one of: {', '.join(allowed)}")

    return check


def non_empty_string(name: str, value: Any) -> None:
    if value is not None and not value:
        raise invalid_value(name, value, "String must be non-empty")


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One config. `default` is a typed value, or NO_DEFAULT if the config is required."""

    name: str
    type: ConfigType
    default: Any
    documentation: str
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    internal: bool = False
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    valid: str = ""

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


class ConfigDef:
    """An ordered set of config keys."""

    def __init__(self) -> None:
        self.keys: dict[str, ConfigKey] = {}

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = NO_DEFAULT,
        documentation: str = "",
        *,
        validator: Validator | None = None,
        importance: Importance = Importance.MEDIUM,
        internal: bool = False,
        update_mode: UpdateMode = UpdateMode.READ_ONLY,
        valid: str = "",
    ) -> ConfigDef:
        """Adds a key. `default` may be text, which is parsed like a user's value; `valid` describes
        the validator to readers."""
        assert name not in self.keys, f"configuration {name} is defined twice"
        typed = default if default is NO_DEFAULT else parse_value(name, default, type)
        if typed is not NO_DEFAULT and typed is not None and validator is not None:
            validator(name, typed)
        self.keys[name] = ConfigKey(name, type, typed, documentation, validator, importance, internal, update_mode, valid)
        return self

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __getitem__(self, name: str) -> ConfigKey:
        return self.keys[name]

    def names(self) -> list[str]:
        return list(self.keys)

    def unknown_names(self, props: Mapping[str, Any]) -> list[str]:
        """Returns the names in `props` that are not defined, in their order."""
        return [name for name in props if name not in self.keys]

    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the typed values of all keys; raises ConfigError for the first that is missing or
        wrong. Unknown names are left out."""
        return {key.name: self.parse_key(key, props) for key in self}

    def parse_key(self, key: ConfigKey, props: Mapping[str, Any]) -> Any:
        if key.name in props:
            return self.validate_value(key.name, props[key.name])
        if not key.has_default:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.')
        return key.default

    def validate_value(self, name: str, value: Any) -> Any:
        """Returns the typed form of one value; raises ConfigError with Kafka's text if it is not
        valid."""
        key = self.keys[name]
        typed = parse_value(name, value, key.type)
        if key.validator is not None and not (typed is None and key.has_default and key.default is None):
            key.validator(name, typed)
        return typed


def parse_value(name: str, value: Any, type: ConfigType) -> Any:
    """Parses `value` (text, or a value that already has the right type) as `type` (Kafka's
    `ConfigDef.parseType`)."""
    if value is None:
        return None
    if not isinstance(value, str):
        return _check_typed(name, value, type)
    text = value if type is ConfigType.PASSWORD else value.strip()
    if type is ConfigType.BOOLEAN:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise invalid_value(name, value, "Expected value to be either true or false")
    if type in _RANGES:
        return _parse_integer(name, value, type)
    if type is ConfigType.DOUBLE:
        try:
            return float(text)
        except ValueError as error:
            raise invalid_value(name, value, "Not a number of type DOUBLE") from error
    if type is ConfigType.LIST:
        return [] if not text else [item.strip() for item in text.split(",")]
    if type is ConfigType.PASSWORD:
        return Password(text.strip())
    return text


def _parse_integer(name: str, text: str, type: ConfigType) -> int:
    low, high = _RANGES[type]
    if re.fullmatch(r"[+-]?[0-9]+", text.strip()) is None or not low <= int(text) <= high:
        raise invalid_value(name, text, f"Not a number of type {type.name}")
    return int(text)


def _check_typed(name: str, value: Any, type: ConfigType) -> Any:
    if type is ConfigType.BOOLEAN and isinstance(value, bool):
        return value
    if type in _RANGES and isinstance(value, int) and not isinstance(value, bool):
        return _parse_integer(name, str(value), type)
    if type is ConfigType.DOUBLE and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if type is ConfigType.LIST and isinstance(value, Sequence):
        return list(value)
    if type is ConfigType.PASSWORD and isinstance(value, Password):
        return value
    raise invalid_value(name, value, f"Expected value of type {type.name}, but it was a {value.__class__.__name__}")


def to_text(value: Any, type: ConfigType) -> str | None:
    """The text of a typed value as Kafka prints it (`ConfigDef.convertToString`); passwords come
    out hidden."""
    if value is None:
        return None
    if type is ConfigType.BOOLEAN:
        return "true" if value else "false"
    if type is ConfigType.LIST:
        return ",".join(value)
    if type is ConfigType.DOUBLE:
        return java_double_text(value)
    return str(value)


def java_double_text(value: float) -> str:
    """`Double.toString` for the values that configs have (plain notation from 1e-3 up to 1e7, else
    with E)."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, exponent = f"{value!r}".split("e") if "e" in repr(value) else (f"{value:.16e}").split("e")
    digits = mantissa if "." in mantissa else f"{mantissa}.0"
    digits = digits.rstrip("0")
    return f"{digits}0E{int(exponent)}" if digits.endswith(".") else f"{digits}E{int(exponent)}"
