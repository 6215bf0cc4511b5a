"""Every message in every version: random values round-trip and agree with two oracles.

The values are drawn from the schemas as plain dicts. Oracles: the naive interpreter of the same
schemas (so the generator is checked), and kio, which was generated from Kafka's own files (so the
schemas are checked too).
"""

from __future__ import annotations

import functools
import importlib
import io
import random
import typing
from typing import Any

import kio.index
import kio.schema.index
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from schema_interpreter import Reader, default_of, includes, is_struct, load_schemas, struct_fields, versions_of, write

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import ProtocolReadError, Writer

SCHEMAS = load_schemas()
INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "topic-1", "é", "日本", "x" * 126, "x" * 127, "x" * 300)
KIO_KINDS = {"request": EntityType.request, "response": EntityType.response, "header": EntityType.header, "data": EntityType.data}


def snake_case(name: str) -> str:
    """The Python name of a schema field, by its own rule: an underscore before every capital that
    begins a word.
    """
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    letters = []
    for index, letter in enumerate(name):
        previous_lower = index > 0 and not name[index - 1].isupper() and name[index - 1] != "_"
        ends_acronym = 0 < index < len(name) - 1 and name[index - 1].isupper() and name[index + 1].islower()
        letters.append(f"_{letter}" if letter.isupper() and (previous_lower or ends_acronym) else letter)
    return "".join(letters).lower()


def module_name(schema: Any) -> str:
    return snake_case(
        schema["name"].removesuffix("Request").removesuffix("Response")
        if "listeners" in schema or schema["type"] == "response"
        else schema["name"]
    )


@functools.cache
def message_class(name: str) -> Any:
    return getattr(importlib.import_module(f"kmirror.wire.messages.{module_name(SCHEMAS[name])}"), name)


@functools.cache
def struct_class(owner: Any, attribute: str) -> Any:
    """The class of a struct-valued field, out of `list[X] | None` and the like."""
    hint = typing.get_type_hints(owner)[attribute]
    while typing.get_args(hint):
        hint = next(argument for argument in typing.get_args(hint) if argument is not type(None))
    return hint


class Chance(random.Random):
    """Random values; `for_kio` keeps to what kio can hold: no tags that it does not know, no times
    before 1970.
    """

    for_kio = False


def random_value(chance: Chance, schema: Any, field: Any, version: int) -> Any:
    kind = field["type"]
    if includes(field.get("nullableVersions", "none"), version) and chance.random() < 0.25:
        return None
    if kind.startswith("[]"):
        element = {**field, "type": kind[2:], "nullableVersions": "none"}
        return [random_value(chance, schema, element, version) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    if is_struct(field):
        return random_struct(chance, schema, struct_fields(schema, field), version)
    if kind == "string":
        return chance.choice(TEXTS)
    if kind in ("bytes", "records"):
        return chance.randbytes(chance.choice((0, 1, 5, 127, 128)))
    if kind == "uuid":
        return chance.randbytes(16)
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "float64":
        return chance.uniform(-1e9, 1e9)
    return random_integer(chance, field)


def random_integer(chance: Chance, field: Any) -> int:
    name, kind = field["name"], field["type"]
    if name.endswith("ErrorCode"):
        return chance.randrange(-1, 130)
    if name.endswith("Ms") or "Timestamp" in name:
        return chance.choice((0, 1, chance.randrange(2**31 - 1)) if chance.for_kio else (-1, 0, 1, 2**31 - 1))
    if kind.startswith("u"):
        return chance.choice((0, 1, 2 ** int(kind[4:]) - 1))
    bits = INTEGERS[kind]
    return chance.choice((0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), chance.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))))


def random_struct(chance: Chance, schema: Any, fields: Any, version: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for field in fields:
        present = includes(field["versions"], version) and ("tag" not in field or chance.random() < 0.6)
        value[field["name"]] = random_value(chance, schema, field, version) if present else default_of(schema, field)
    if includes(schema["flexibleVersions"], version) and not chance.for_kio and chance.random() < 0.1:
        value["?"] = [(chance.randrange(100, 300), chance.randbytes(3))]
    return value


def to_struct(owner: Any, schema: Any, fields: Any, value: dict[str, Any]) -> Any:
    """The generated class's object for a dict of the interpreter."""
    arguments: dict[str, Any] = {}
    for field in fields:
        attribute, content = snake_case(field["name"]), value[field["name"]]
        if content is not None and is_struct(field):
            inner, inner_fields = struct_class(owner, attribute), struct_fields(schema, field)
            is_list = field["type"].startswith("[]")
            content = (
                [to_struct(inner, schema, inner_fields, item) for item in content]
                if is_list
                else to_struct(inner, schema, inner_fields, content)
            )
        elif field["type"] == "uuid":
            content = Uuid(content)
        elif field["type"] == "[]uuid" and content is not None:
            content = [Uuid(item) for item in content]
        if attribute in owner.__struct_fields__:
            arguments[attribute] = content
    if "?" in value:
        arguments["unknown_tagged_fields"] = tuple(value["?"])
    return owner(**arguments)


def encode(message: Any, version: int) -> bytes:
    out = Writer()
    message.write(out, version)
    assert out.size == len(out.to_bytes())
    return out.to_bytes()


@functools.cache
def kio_class(name: str, version: int) -> Any:
    """kio's class for a message and version, or None where it has none."""
    schema = SCHEMAS[name]
    kind = KIO_KINDS.get(schema["type"])
    base = module_name(schema)
    base = base.replace("kraft", "k_raft")
    if kind is None or version not in kio.schema.index.schema_name_map.get(base, {}):
        return None
    if kind not in kio.schema.index.schema_name_map[base][version]:
        return None
    return getattr(kio.index.load_entity_module(base, version, kind), name)


@pytest.mark.parametrize("name", SCHEMAS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_message_round_trips_and_agrees_with_the_interpreter(name: str, seed: int) -> None:
    schema, cls, chance = SCHEMAS[name], message_class(name), Chance(seed)
    for version in versions_of(schema):
        value = random_struct(chance, schema, schema["fields"], version)
        expected = write(schema, value, version)
        message = to_struct(cls, schema, schema["fields"], value)
        assert encode(message, version) == expected
        read, position = cls.read(memoryview(expected), 0, version)
        assert position == len(expected)
        assert read == message
        assert Reader(schema, expected, version).read() == value


@pytest.mark.parametrize("name", SCHEMAS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_kio_reads_ours_and_writes_the_same_bytes(name: str, seed: int) -> None:
    schema, chance = SCHEMAS[name], Chance(seed)
    chance.for_kio = True
    for version in versions_of(schema):
        entity = kio_class(name, version)
        if entity is None:
            continue
        value = random_struct(chance, schema, schema["fields"], version)
        encoded = encode(to_struct(message_class(name), schema, schema["fields"], value), version)
        read, size = entity_reader(entity)(encoded, 0)
        assert size == len(encoded)
        out = io.BytesIO()
        entity_writer(entity)(out, read)
        assert out.getvalue() == encoded


@pytest.mark.parametrize("name", SCHEMAS)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_bytes_are_read_as_something_or_are_a_read_error(name: str, seed: int) -> None:
    schema, cls, chance = SCHEMAS[name], message_class(name), Chance(seed)
    for version in versions_of(schema):
        damaged = bytearray(write(schema, random_struct(chance, schema, schema["fields"], version), version))
        for _ in range(chance.choice((1, 2, 5)) if damaged else 0):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        if chance.random() < 0.3:
            damaged = damaged[: chance.randrange(len(damaged) + 1)]
        try:
            _, position = cls.read(memoryview(damaged), 0, version)
        except ProtocolReadError:
            continue
        assert position <= len(damaged)


def test_kio_knows_most_of_them() -> None:
    """Else the test above would pass by doing nothing."""
    asked = {(name, version) for name, schema in SCHEMAS.items() for version in versions_of(schema) if kio_class(name, version) is not None}
    assert len(asked) > 580
    missing = {
        name for name, schema in SCHEMAS.items() if schema["type"] in ("request", "response") and not any(pair[0] == name for pair in asked)
    }
    assert {name for name in missing if SCHEMAS[name]["apiKey"] < 94} == set()
