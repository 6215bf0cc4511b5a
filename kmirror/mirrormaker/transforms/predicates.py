"""Conditions of transformations (KIP-585): TopicNameMatches, HasHeaderKey, RecordIsTombstone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kmirror.common.config import ConfigDef, ConfigType, Importance, invalid_value, non_empty_string
from kmirror.common.errors import ConfigError
from kmirror.common.java_patterns import compile_pattern
from kmirror.mirrormaker.transforms.connect_data import ConnectRecord

_NO_PATTERN: Final = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
"""What Java says of an expression that is missing."""
Predicate = Callable[[ConnectRecord], bool]
Values = dict[str, Any]
"""A plugin's configs, typed."""


def regex(name: str, value: Any) -> None:
    """A validator: ConfigError for what is no expression in Java's syntax."""
    if value is None:
        raise invalid_value(name, None, f"Invalid regex: {_NO_PATTERN}")
    try:
        compile_pattern(str(value), config=name)
    except ConfigError as error:
        raise invalid_value(name, value, f"Invalid regex: {error}") from error


def _non_empty_regex(name: str, value: Any) -> None:
    non_empty_string(name, value)
    regex(name, value)


TOPIC_NAME_MATCHES_DEF = ConfigDef().define(
    "pattern", ConfigType.STRING, documentation="A regular expression for names of topics.", validator=_non_empty_regex,
    importance=Importance.MEDIUM,
)  # fmt: skip
HAS_HEADER_KEY_DEF = ConfigDef().define(
    "name", ConfigType.STRING, documentation="The header's name.", validator=non_empty_string, importance=Importance.MEDIUM
)
RECORD_IS_TOMBSTONE_DEF = ConfigDef()


def topic_name_matches(values: Values) -> Predicate:
    matches = compile_pattern(values["pattern"], config="pattern").fullmatch
    return lambda record: matches(record.topic) is not None


def has_header_key(values: Values) -> Predicate:
    name = values["name"]
    return lambda record: any(header.key == name for header in record.headers)


def record_is_tombstone(_: Values) -> Predicate:
    return lambda record: record.value is None
