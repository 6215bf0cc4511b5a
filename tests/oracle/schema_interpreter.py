"""A naive second implementation of the wire: interprets the schemas of `protocol/` over plain
dicts.

Written to be obviously right and slow; shares no code with the generator or the generated classes.
A struct is a dict of schema field names; the key "?" holds unknown tagged fields, if there are any,
as a list of (tag, bytes).
"""

from __future__ import annotations

import json
import pathlib
import struct
from typing import Any

PROTOCOL = pathlib.Path(__file__).resolve().parent.parent.parent / "protocol"
FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d", "uuid": "16s"}


def load_schemas() -> dict[str, Any]:
    """Every schema by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(PROTOCOL.glob("*/*.json"))}


def includes(versions: str, version: int) -> bool:
    """Whether "3+", "1-4", "2" or "none" includes `version`."""
    if versions == "none":
        return False
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    ends = versions.split("-")
    return int(ends[0]) <= version <= int(ends[-1])


def versions_of(schema: Any) -> range:
    ends = schema["validVersions"].split("-")
    return range(int(ends[0]), int(ends[-1]) + 1)


def struct_fields(schema: Any, field: Any) -> Any:
    """The fields of the struct that `field` is, or is an array of."""
    if "fields" in field:
        return field["fields"]
    name = field["type"].removeprefix("[]")
    return next(common["fields"] for common in schema["commonStructs"] if common["name"] == name)


def is_struct(field: Any) -> bool:
    return bool(field["type"].removeprefix("[]")[0].isupper())


def default_of(schema: Any, field: Any) -> Any:
    default = field.get("default")
    if default == "null":
        return None
    if field["type"].startswith("[]"):
        return []
    if is_struct(field):
        return {inner["name"]: default_of(schema, inner) for inner in struct_fields(schema, field)}
    if field["type"] == "string":
        return default or ""
    if field["type"] in ("bytes", "records"):
        return b""
    if field["type"] == "uuid":
        return b"\0" * 16
    if field["type"] == "bool":
        return default == "true"
    return float(default or 0) if field["type"] == "float64" else int(default or 0)


def write_varint(value: int) -> bytes:
    encoded = b""
    while value >= 128:
        encoded += bytes([value % 128 + 128])
        value //= 128
    return encoded + bytes([value])


def write(schema: Any, value: dict[str, Any], version: int) -> bytes:
    return _write_struct(schema, schema["fields"], value, version)


def _write_struct(schema: Any, fields: Any, value: dict[str, Any], version: int) -> bytes:
    encoded, tagged = b"", dict(value.get("?", []))
    for field in fields:
        if not includes(field["versions"], version):
            continue
        content = value[field["name"]]
        if "tag" not in field:
            encoded += _write_value(schema, field, content, version)
        elif content != default_of(schema, field):
            tagged[field["tag"]] = _write_value(schema, field, content, version)
    if includes(schema["flexibleVersions"], version):
        encoded += write_varint(len(tagged))
        for tag in sorted(tagged):
            encoded += write_varint(tag) + write_varint(len(tagged[tag])) + tagged[tag]
    return encoded


def _write_value(schema: Any, field: Any, value: Any, version: int) -> bytes:
    kind = field["type"]
    compact = includes(schema["flexibleVersions"], version) and field.get("flexibleVersions") != "none"
    if kind.startswith("[]"):
        element = {**field, "type": kind[2:], "nullableVersions": "none"}
        body = None if value is None else b"".join(_write_value(schema, element, item, version) for item in value)
        return _with_length(body, -1 if value is None else len(value), "i", compact)
    if is_struct(field):
        inner = b"" if value is None else _write_struct(schema, struct_fields(schema, field), value, version)
        if includes(field.get("nullableVersions", "none"), version):
            null = b"\0" if "tag" in field else b"\xff"
            return null if value is None else b"\x01" + inner
        return inner
    if kind in FIXED:
        return struct.pack(">" + FIXED[kind], value)
    body = value.encode() if kind == "string" and value is not None else value
    return _with_length(body, -1 if body is None else len(body), "h" if kind == "string" else "i", compact)


def _with_length(body: bytes | None, length: int, code: str, compact: bool) -> bytes:
    return (write_varint(length + 1) if compact else struct.pack(">" + code, length)) + (body or b"")


class Reader:
    """Reads one message; `position` is the next byte."""

    def __init__(self, schema: Any, data: bytes, version: int) -> None:
        self.schema, self.data, self.version, self.position = schema, data, version, 0
        self.flexible = includes(schema["flexibleVersions"], version)

    def take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        assert len(taken) == size, f"data ends at {len(self.data)}"
        self.position += size
        return taken

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def read(self) -> dict[str, Any]:
        return self.struct(self.schema["fields"])

    def struct(self, fields: Any) -> dict[str, Any]:
        value = {field["name"]: default_of(self.schema, field) for field in fields}
        fields = [field for field in fields if includes(field["versions"], self.version)]
        for field in fields:
            if "tag" not in field:
                value[field["name"]] = self.value(field)
        if self.flexible:
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                known = [field for field in fields if field.get("tag") == tag]
                if known:
                    value[known[0]["name"]] = self.value(known[0])
                else:
                    value.setdefault("?", []).append((tag, self.take(size)))
        return value

    def length(self, field: Any, code: str) -> int:
        if self.flexible and field.get("flexibleVersions") != "none":
            return self.varint() - 1
        return int(struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0])

    def value(self, field: Any) -> Any:
        kind = field["type"]
        if kind.startswith("[]"):
            element = {**field, "type": kind[2:], "nullableVersions": "none"}
            count = self.length(field, "i")
            return None if count < 0 else [self.value(element) for _ in range(count)]
        if is_struct(field):
            if includes(field.get("nullableVersions", "none"), self.version) and self.take(1) != b"\x01":
                return None
            return self.struct(struct_fields(self.schema, field))
        if kind in FIXED:
            return struct.unpack(">" + FIXED[kind], self.take(struct.calcsize(">" + FIXED[kind])))[0]
        length = self.length(field, "h" if kind == "string" else "i")
        if length < 0:
            return None
        return self.take(length).decode() if kind == "string" else self.take(length)
