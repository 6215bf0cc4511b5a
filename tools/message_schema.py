"""Schemas of `protocol/` as objects: what a message's fields are, in which versions, of which type.

Version ranges are clipped to where a field's struct can occur, so that code made from them asks no
needless questions.
"""

from __future__ import annotations

import dataclasses
import json
import keyword
import pathlib
import re
from collections.abc import Iterator
from typing import Any

RESERVED_LOCALS = {
    "buffer",
    "position",
    "version",
    "cls",
    "out",
    "count",
    "tag",
    "tag_count",
    "size",
    "element",
    "self",
    "append",
    "tagged",
}

# type -> (struct code, name in constants, Python type, default)
FIXED_TYPES = {
    "bool": ("?", "bool", "bool", "False"),
    "int8": ("b", "i1", "int", "0"),
    "int16": ("h", "i2", "int", "0"),
    "uint16": ("H", "u2", "int", "0"),
    "int32": ("i", "i4", "int", "0"),
    "uint32": ("I", "u4", "int", "0"),
    "int64": ("q", "i8", "int", "0"),
    "float64": ("d", "f8", "float", "0.0"),
    "uuid": ("16s", "uuid", "Uuid", "Uuid.ZERO"),
}
VARIABLE_TYPES = {"string": ("str", '""'), "bytes": ("bytes", 'b""'), "records": ("Records", 'b""')}
ARRAY_HELPERS = {"int8": "int8s", "int16": "int16s", "int32": "int32s", "int64": "int64s", "uuid": "uuids", "string": "strings"}

WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}


@dataclasses.dataclass(frozen=True)
class Range:
    """Versions lowest..highest, both included; empty when lowest > highest."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Range:
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), 0x7FFF)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def __and__(self, other: Range) -> Range:
        return Range(max(self.lowest, other.lowest), min(self.highest, other.highest))

    def hull(self, other: Range) -> Range:
        return Range(min(self.lowest, other.lowest), max(self.highest, other.highest))

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def covers(self, other: Range) -> bool:
        return self.lowest <= other.lowest and self.highest >= other.highest

    def condition(self, within: Range) -> str:
        """Returns the Python test for "the version is in this range", given that it is in `within`.

        Empty if that is always so.
        """
        from_below, from_above = self.lowest > within.lowest, self.highest < within.highest
        if self.lowest == self.highest and (from_below or from_above):
            return f"version == {self.lowest}"
        if from_below and from_above:
            return f"{self.lowest} <= version <= {self.highest}"
        return f"version >= {self.lowest}" if from_below else f"version <= {self.highest}" if from_above else ""

    def describe(self, within: Range) -> str:
        """Returns the range as schemas write it: 3+, 1-4 or 2."""
        if self.highest >= within.highest:
            return f"{self.lowest}+"
        return f"{self.lowest}-{self.highest}" if self.lowest < self.highest else str(self.lowest)

    def negated_condition(self, within: Range) -> str:
        from_below, from_above = self.lowest > within.lowest, self.highest < within.highest
        if from_below and from_above:
            return f"not {self.lowest} <= version <= {self.highest}"
        return f"version < {self.lowest}" if from_below else f"version > {self.highest}"


@dataclasses.dataclass
class Field:
    name: str
    type: str
    versions: Range
    nullable: Range
    default: str | None
    tag: int | None
    ignorable: bool
    never_compact: bool
    about: str

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def base_type(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        return self.base_type[0].isupper()

    @property
    def is_fixed(self) -> bool:
        return self.type in FIXED_TYPES

    @property
    def local(self) -> str:
        return self.name + "_" if self.name in RESERVED_LOCALS else self.name

    def python_type(self) -> str:
        if self.is_struct:
            base = self.base_type
        elif self.base_type in FIXED_TYPES:
            base = FIXED_TYPES[self.base_type][2]
        else:
            base = VARIABLE_TYPES[self.base_type][0]
        return (f"list[{base}]" if self.is_array else base) + (" | None" if self.nullable else "")

    def default_expression(self) -> str:
        """Returns the default as an expression to compare with or to assign (never a shared mutable
        object).
        """
        if self.default == "null":
            return "None"
        if self.is_array:
            return "[]"
        if self.is_struct:
            return f"{self.base_type}()"
        if self.type == "string":
            return json.dumps(self.default or "")
        if self.default:
            return {"true": "True", "false": "False"}.get(self.default, self.default)
        return FIXED_TYPES[self.type][3] if self.is_fixed else VARIABLE_TYPES[self.type][1]

    def declaration(self, within: Range) -> str:
        """Returns the attribute of the generated class, with its meaning and the versions that have
        it.
        """
        default = self.default_expression()
        if default == "[]":
            default = "field(default_factory=list)"
        elif self.is_struct and default != "None":
            default = f"field(default_factory={self.base_type})"
        versions = "" if self.versions.covers(within) else f" [{self.versions.describe(within)}]"
        return f"{self.name}: {self.python_type()} = {default}  # {self.about}{versions}"

    def differs_from_default(self) -> str:
        value, default = f"self.{self.name}", self.default_expression()
        if self.is_struct and not self.is_array and default != "None":
            default = default_constant(self.base_type)
        if default == "None":
            return f"{value} is not None"
        if self.nullable:
            return f"{value} is None or {value} != {default}"
        if default in ("[]", '""', 'b""', "0", "False", "Uuid.ZERO"):
            return value
        if default == "True":
            return f"not {value}"
        return f"{value} != {default}"


@dataclasses.dataclass
class StructSpec:
    name: str
    fields: list[Field]
    versions: Range
    about: str
    class_name: str = ""
    constants: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Message:
    name: str
    kind: str
    api_key: int | None
    valid: Range
    flexible: Range
    listeners: list[str]
    latest_unstable: bool
    about: str
    structs: list[StructSpec]
    """Innermost first; the message itself is the last."""

    @property
    def top(self) -> StructSpec:
        return self.structs[-1]


def default_constant(class_name: str) -> str:
    """Returns the module constant that holds a struct with nothing set, to compare with."""
    return f"_DEFAULT_{snake_case(class_name).upper()}"


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def load_message(path: pathlib.Path) -> Message:
    """Parses one schema file; ValueError names the file and what is wrong with it."""
    schema = json.loads(path.read_text())
    if schema["name"] != path.stem:
        raise ValueError(f"{path}: the message is called {schema['name']}")
    valid = Range.parse(schema["validVersions"])
    flexible = Range.parse(schema["flexibleVersions"]) & valid
    structs: dict[str, StructSpec] = {}
    common = {struct["name"]: struct for struct in schema.get("commonStructs", [])}
    top = _load_struct(path, schema["name"], schema["fields"], valid, schema["about"], common, structs)
    del structs[top.name]
    return Message(
        schema["name"], schema["type"], schema.get("apiKey"), valid, flexible, schema.get("listeners", []),
        schema.get("latestVersionUnstable", False), schema["about"], [*structs.values(), top],
    )  # fmt: skip


def _load_field(field: Any, versions: Range) -> Field:
    return Field(
        name=snake_case(field["name"]),
        type=field["type"],
        versions=versions,
        nullable=Range.parse(field.get("nullableVersions", "none")) & versions,
        default=field.get("default"),
        tag=field.get("tag"),
        ignorable=field.get("ignorable", False),
        never_compact=field.get("flexibleVersions") == "none",
        about=field["about"],
    )


def _load_struct(
    path: pathlib.Path, name: str, fields: list[Any], within: Range, about: str, common: dict[str, Any], structs: dict[str, StructSpec]
) -> StructSpec:
    loaded = []
    for field in fields:
        if not field.get("about", "").endswith("."):
            raise ValueError(f"{path}: {name}.{field['name']} needs an about that ends in a full stop")
        versions = Range.parse(field["versions"]) & within
        if "tag" in field and Range.parse(field["taggedVersions"]) & within != versions:
            raise ValueError(f"{path}: {name}.{field['name']} is tagged in some of its versions only")
        base = field["type"].removeprefix("[]")
        if versions and base[0].isupper():
            inner = field.get("fields") or common[base]["fields"]
            reach = versions if base not in structs else versions.hull(structs[base].versions)
            _load_struct(path, base, inner, reach, field["about"], common, structs)
        if versions:
            loaded.append(_load_field(field, versions))
    structs.pop(name, None)
    structs[name] = StructSpec(name, loaded, within, about)
    return structs[name]


def fixed_runs(fields: list[Field]) -> Iterator[list[Field] | Field]:
    """Returns untagged fields in order: neighbours of fixed size as lists, all others alone.

    Tagged fields are alone, too.
    """
    run: list[Field] = []
    for field in fields:
        if field.tag is not None:
            continue
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            yield run
            run = []
        yield field
    if run:
        yield run


def ladder(run: list[Field], within: Range, *, skip_empty: bool = False) -> Iterator[tuple[str, list[Field], list[Field]]]:
    """Returns (if-line, fields present, fields absent) for each group of versions, newest first."""
    edges = sorted(
        {within.lowest, *(edge for field in run for edge in (field.versions.lowest, field.versions.highest + 1) if edge in within)}
    )
    rungs = []
    for lowest in reversed(edges):
        present = [field for field in run if lowest in field.versions]
        rungs.append((lowest, present, [field for field in run if field not in present]))
    if skip_empty and rungs and not rungs[-1][1]:
        rungs.pop()
    for index, (lowest, present, absent) in enumerate(rungs):
        head = "" if lowest == within.lowest else f"if version >= {lowest}:"
        if skip_empty and not present:
            yield f"{'el' if index else ''}{head}" or "else:", [], []
            continue
        if index and head:
            head = f"el{head}"
        elif index:
            head = "else:"
        yield head, present, absent
