"""ConfigDef: parsing, defaults, validators, and the texts that Kafka 4.3 gives (recorded from its
own classes).
"""

from __future__ import annotations

import pytest

from kmirror.common.config import (
    ConfigDef,
    ConfigType,
    Password,
    at_least,
    between,
    java_double_text,
    parse_value,
    to_text,
    valid_list,
    valid_string,
)
from kmirror.common.errors import ConfigError


def definition() -> ConfigDef:
    return (
        ConfigDef()
        .define("count", ConfigType.INT, 3, validator=between(1, 10))
        .define("flag", ConfigType.BOOLEAN, False)
        .define("names", ConfigType.LIST, "a,b", validator=valid_list("a", "b", "c"))
        .define("kind", ConfigType.STRING, "x", validator=valid_string("x", "y"))
        .define("secret", ConfigType.PASSWORD, None)
        .define("needed", ConfigType.LONG, validator=at_least(0))
    )


def test_defaults_and_values() -> None:
    values = definition().parse({"needed": " 7 ", "flag": "TRUE", "names": " c , a ", "secret": "hush", "other": "1"})
    assert values == {"count": 3, "flag": True, "names": ["c", "a"], "kind": "x", "secret": Password("hush"), "needed": 7}
    assert str(values["secret"]) == "[hidden]"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("count", "abc", "Invalid value abc for configuration count: Not a number of type INT"),
        ("count", "99999999999", "Invalid value 99999999999 for configuration count: Not a number of type INT"),
        ("count", "1.5", "Invalid value 1.5 for configuration count: Not a number of type INT"),
        ("count", "0", "Invalid value 0 for configuration count: Value must be at least 1"),
        ("count", "11", "Invalid value 11 for configuration count: Value must be no more than 10"),
        ("flag", "yes", "Invalid value yes for configuration flag: Expected value to be either true or false"),
        ("kind", "z", "Invalid value z for configuration kind: String must be one of: x, y"),
        ("names", "a,d", "Invalid value d for configuration names: String must be one of: a, b, c"),
        ("names", "a,", "Configuration 'names' values must not be empty."),
        ("names", "a,a", "Configuration 'names' values must not be duplicated."),
    ],
)
def test_wrong_values_read_as_kafka_puts_it(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        definition().parse({"needed": "1", name: value})
    assert str(error.value) == text


def test_a_required_config_is_missed_by_name() -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "needed" which has no default value.'):
        definition().parse({})


def test_unknown_names_are_the_callers_business() -> None:
    assert definition().unknown_names({"count": "1", "b": "", "a": ""}) == ["b", "a"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1.0, "1.0"), (100.0, "100.0"), (1e7, "1.0E7"), (1.5e9, "1.5E9"), (0.001, "0.001"), (0.0001, "1.0E-4"), (0.0, "0.0")],
)
def test_doubles_print_as_java_prints_them(value: float, text: str) -> None:
    assert java_double_text(value) == text


def test_text_of_values() -> None:
    assert to_text(["a", "b"], ConfigType.LIST) == "a,b"
    assert to_text(True, ConfigType.BOOLEAN) == "true"
    assert to_text(None, ConfigType.STRING) is None
    assert to_text(parse_value("p", "hush", ConfigType.PASSWORD), ConfigType.PASSWORD) == "[hidden]"
