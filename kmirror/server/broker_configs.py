"""`broker_configs()`: the `ConfigDef` of the broker, built from `broker_config_table` and
`broker_config_docs`.

It holds what a properties file may set; `dynamic_only_configs()` holds what can only be set at
runtime (the replication throttles). Kafka never describes internal configs unless somebody has set
them; `ConfigKey.internal` marks those.
"""

from __future__ import annotations

import functools
import re

from kmirror.common.config import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    UpdateMode,
    Validator,
    between,
    invalid_value,
    non_empty_string,
    valid_list,
    valid_string,
)
from kmirror.server.broker_config_docs import BROKER_CONFIG_DOCS, no_effect_text
from kmirror.server.broker_config_table import BROKER_CONFIG_TABLE

_TYPES = {
    "bool": ConfigType.BOOLEAN,
    "string": ConfigType.STRING,
    "int": ConfigType.INT,
    "short": ConfigType.SHORT,
    "long": ConfigType.LONG,
    "double": ConfigType.DOUBLE,
    "list": ConfigType.LIST,
    "class": ConfigType.CLASS,
    "password": ConfigType.PASSWORD,
}
_RANGE = re.compile(r"\[(-?[0-9.]+),\.\.\.(?:,(-?[0-9.]+))?\]")
_IGNORE_CASE = "(case insensitive) "


def _gzip_level(name: str, value: object) -> None:
    if not (isinstance(value, int) and (value == -1 or 1 <= value <= 9)):
        raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _validator(valid: str, type: ConfigType) -> Validator | None:
    """Returns the validator that the table's last field describes."""
    if valid in ("", "non-null string"):
        return None
    if valid == "non-empty string":
        return non_empty_string
    if valid == "non-empty list":
        return None
    if valid == "[1,...,9] or -1":
        return _gzip_level
    numbers = _RANGE.fullmatch(valid)
    if numbers is not None:
        return between(_number(numbers[1]), None if numbers[2] is None else _number(numbers[2]))
    allowed = [text.strip() for text in valid.removeprefix(_IGNORE_CASE).strip("[]").split(",")]
    if type is ConfigType.LIST:
        return valid_list(*allowed)
    return valid_string(*allowed, ignore_case=valid.startswith(_IGNORE_CASE))


def _build(*, dynamic_only: bool) -> ConfigDef:
    configs = ConfigDef()
    for line in BROKER_CONFIG_TABLE.strip().splitlines():
        name, type_name, default, importance, mode, flags, valid = line.split("|")
        if ("D" in flags) != dynamic_only:
            continue
        config_type = _TYPES[type_name]
        configs.define(
            name,
            config_type,
            NO_DEFAULT if default == "REQUIRED" else None if default == "null" else default,
            no_effect_text(name) if "N" in flags else BROKER_CONFIG_DOCS.get(name, ""),
            validator=_validator(valid, config_type),
            importance=Importance(importance),
            internal="I" in flags,
            update_mode=UpdateMode.READ_ONLY if mode == "-" else UpdateMode(mode),
            valid=valid,
        )
    return configs


@functools.cache
def broker_configs() -> ConfigDef:
    """Returns the definitions of what a broker's properties may set."""
    return _build(dynamic_only=False)


@functools.cache
def configs_without_effect() -> frozenset[str]:
    """Returns Kafka's settings that are accepted and checked, but that nothing reads."""
    rows = (line.split("|") for line in BROKER_CONFIG_TABLE.strip().splitlines())
    return frozenset(row[0] for row in rows if "N" in row[5])


@functools.cache
def dynamic_only_configs() -> ConfigDef:
    """Returns the definitions of what can be set only at runtime."""
    return _build(dynamic_only=True)
