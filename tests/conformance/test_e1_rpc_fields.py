"""Every field of the eleven RPCs on the wire, with its place, type, default and nullability (E1, R1
to R124, `mirror_rpc_fields.txt`).

A few lines of this file write the expected bytes, from the list alone. What the fields mean on a
cluster is shown in test_e1_rpc_semantics.py and its neighbours.
"""

from __future__ import annotations

import json
import pathlib
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import API_TABLE, ApiKeys, message_class
from kmirror.wire.primitives import Writer

ROOT = pathlib.Path(__file__).resolve().parents[2]
BROKER_ONLY = {98, 99}
UNSTABLE = {94, 104}
INTS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}


class Field(NamedTuple):
    number: str
    name: str
    type: str
    default: Any
    nullable: bool
    entity: str | None
    is_key: bool
    children: list[Any]

    @property
    def attribute(self) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    @property
    def item(self) -> str | None:
        return self.type[2:] if self.type.startswith("[]") else None


def default_of(kind: str, text: str | None) -> Any:
    if text == "null":
        return None
    if kind in INTS:
        return int(text or "0")
    return {"string": "", "bool": False, "uuid": Uuid.ZERO}.get(kind, [])


def rpcs() -> dict[tuple[int, str], dict[str, list[Field]]]:
    """Fields of requests and responses by (key, name)."""
    found: dict[tuple[int, str], dict[str, list[Field]]] = {}
    for line in (pathlib.Path(__file__).parent / "mirror_rpc_fields.txt").read_text().splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0].isdigit():
            sides: dict[str, list[Field]] = {"req": [], "rsp": []}
            found[int(words[0]), words[1]] = sides
            continue
        number, side, path, kind, *attributes = words
        pairs = dict(attribute.partition("=")[::2] for attribute in attributes)
        *parents, name = path.split(".")
        level = sides[side]
        for parent in parents:
            level = next(field for field in level if field.name == parent).children
        default = default_of(kind, pairs.get("default"))
        level.append(Field(number, name, kind, default, "nullable" in pairs, pairs.get("entity"), "key" in pairs, []))
    return found


RPCS = rpcs()


def fields_of(cls: Any) -> list[str]:
    return [name for name in cls.__struct_fields__ if name != "unknown_tagged_fields"]


def values(number: Iterator[int], kind: str) -> Any:
    """A value of a type, different from all others and from the default."""
    n = next(number)
    if kind in INTS:
        return -n if n % 2 else n
    return {"string": f"s{n}", "bool": True, "uuid": Uuid(n.to_bytes(16, "big"))}[kind]


def build(module: str, cls: Any, fields: list[Field], number: Iterator[int], *, nulls: bool) -> tuple[Any, bytes]:
    """A message with every field set (nullable ones to null, if asked), and its bytes by the list."""
    settings: dict[str, Any] = {}
    wire = b""
    for field in fields:
        if field.item in ("string",):
            settings[field.attribute] = [values(number, "string"), values(number, "string")]
            wire += b"\x03" + b"".join(encoded("string", value) for value in settings[field.attribute])
        elif field.item:
            item: Any = message_class(module, field.item)
            built = [build(module, item, field.children, number, nulls=nulls) for _ in range(2)]
            settings[field.attribute] = [message for message, _ in built]
            wire += b"\x03" + b"".join(part for _, part in built)
        elif field.nullable and nulls:
            settings[field.attribute] = None
            wire += b"\x00"
        else:
            settings[field.attribute] = values(number, field.type)
            wire += encoded(field.type, settings[field.attribute])
    return cls(**settings), wire + b"\x00"


def encoded(kind: str, value: Any) -> bytes:
    if kind in INTS:
        return struct.pack(INTS[kind], value)
    if kind == "string":
        return bytes([len(value) + 1]) + value.encode()
    return bytes([value]) if kind == "bool" else bytes(value.raw)


def written(message: Any) -> bytes:
    out = Writer()
    message.write(out, 0)
    return b"".join(bytes(part) for part in out.parts())


def check_defaults(module: str, cls: Any, fields: list[Field]) -> None:
    assert fields_of(cls) == [field.attribute for field in fields], "fields in the order of the wire"
    fresh = cls()
    for field in fields:
        assert getattr(fresh, field.attribute) == field.default, f"default of {field.number} {field.name}"
        if field.children:
            check_defaults(module, message_class(module, str(field.item)), field.children)


def check_schema(fields: list[Field], schema: list[dict[str, Any]]) -> None:
    for field, described in zip(fields, schema, strict=True):
        assert (described["name"], described["type"], described["versions"]) == (field.name[0].upper() + field.name[1:], field.type, "0+")
        assert described.get("entityType") == field.entity or field.entity is None
        assert bool(described.get("mapKey")) is field.is_key, field.number
        assert ("nullableVersions" in described) is field.nullable, field.number
        assert described["about"]
        check_schema(field.children, described.get("fields", []))


def test_every_number_is_in_the_list() -> None:
    text = (pathlib.Path(__file__).parent / "mirror_rpc_fields.txt").read_text()
    numbers = [int(number) for number in re.findall(r"^R(\d+) ", text, re.MULTILINE)]
    assert numbers == [number for number in range(1, 125) if number != 30]  # R30: ListMirrors asks for nothing


@pytest.mark.parametrize(("key", "name"), [pytest.param(*rpc, id=f"RPC{rpc[0]}-{rpc[1]}") for rpc in RPCS])
class TestFieldsOf:
    def test_order_types_and_defaults(self, key: int, name: str) -> None:
        spec = API_TABLE[ApiKeys(key)]
        for side, cls in (("req", spec.request), ("rsp", spec.response)):
            check_defaults(spec.module, cls, RPCS[key, name][side])

    @pytest.mark.parametrize("nulls", [False, True], ids=["set", "null"])
    def test_bytes(self, key: int, name: str, nulls: bool) -> None:
        spec = API_TABLE[ApiKeys(key)]
        for side, cls in (("req", spec.request), ("rsp", spec.response)):
            message, wire = build(spec.module, cls, RPCS[key, name][side], iter(range(1, 100)), nulls=nulls)
            assert written(message) == wire
            assert cls.read(memoryview(wire), 0, 0) == (message, len(wire))

    def test_schema_versions_and_listeners(self, key: int, name: str) -> None:
        spec = API_TABLE[ApiKeys(key)]
        assert (spec.lowest, spec.highest, spec.name) == (0, 0, name)
        assert spec.request_header_version(0) == 2 and spec.response_header_version(0) == 1
        for side, kind in (("req", "Request"), ("rsp", "Response")):
            schema = json.loads((ROOT / "protocol" / "messages" / f"{name}{kind}.json").read_text())
            assert (schema["apiKey"], schema["validVersions"], schema["flexibleVersions"]) == (key, "0", "0+")
            check_schema(RPCS[key, name][side], schema["fields"])
            if side == "req":
                assert schema["listeners"] == (["broker"] if key in BROKER_ONLY else ["broker", "controller"])
                assert bool(schema.get("latestVersionUnstable")) is (key in UNSTABLE)


def test_rpc98_request_has_no_fields() -> None:
    """It is the header and an empty tag section (R30)."""
    assert written(API_TABLE[ApiKeys.LIST_MIRRORS].request()) == b"\x00"
