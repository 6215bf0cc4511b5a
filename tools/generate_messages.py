"""Writes `kmirror/wire/messages/` from the schemas in `protocol/`: one module an API (request and response) or a record.

    python tools/generate_messages.py            write the modules
    python tools/generate_messages.py --check    exit 1 and say what differs, write nothing

A schema is read into `Field`s whose version ranges are clipped to where their struct can occur; then every struct becomes
a `msgspec.Struct` with `read` and `write`. Neighbouring fields of fixed size are read and written by one `struct` call: a
run whose fields came and went with versions becomes a ladder of ifs with one call a rung. Reads and writes follow Kafka's
generated classes: known tags that the version does not allow are an error, unknown ones are kept, a field that
the version cannot carry is dropped when it is ignorable and an error when it is not and differs from its default.
"""

from __future__ import annotations

import dataclasses
import json
import keyword
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "protocol"
TARGET = ROOT / "kmirror" / "wire" / "messages"
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
        """The Python test for "version is in here", given that it is in `within`; empty when that is always so."""
        from_below, from_above = self.lowest > within.lowest, self.highest < within.highest
        if self.lowest == self.highest and (from_below or from_above):
            return f"version == {self.lowest}"
        if from_below and from_above:
            return f"{self.lowest} <= version <= {self.highest}"
        return f"version >= {self.lowest}" if from_below else f"version <= {self.highest}" if from_above else ""

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
        """The default as an expression to compare with or to assign (never a shared mutable object)."""
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

    def declaration(self) -> str:
        default = self.default_expression()
        if default == "[]":
            default = "field(default_factory=list)"
        elif self.is_struct and default != "None":
            default = f"field(default_factory={self.base_type})"
        return f"{self.name}: {self.python_type()} = {default}"

    def differs_from_default(self) -> str:
        value, default = f"self.{self.name}", self.default_expression()
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


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return name + "_" if keyword.iskeyword(name) else name


def load_message(path: pathlib.Path) -> Message:
    """Parse one schema file; ValueError names the file and what is wrong with it."""
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
            loaded.append(
                Field(
                    snake_case(field["name"]),
                    field["type"],
                    versions,
                    Range.parse(field.get("nullableVersions", "none")) & versions,
                    field.get("default"),
                    field.get("tag"),
                    field.get("ignorable", False),
                    field.get("flexibleVersions") == "none",
                )  # fmt: skip
            )
    structs.pop(name, None)
    structs[name] = StructSpec(name, loaded, within, about)
    return structs[name]


class Lines:
    """Source lines with an indentation that follows `with lines.block(...)`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def add(self, *lines: str) -> None:
        self.lines.extend("    " * self.depth + line if line else "" for line in lines)

    def block(self, head: str) -> Lines:
        """`head` opens a block; an empty one opens nothing, so that an always-true condition costs nothing."""
        self._opened = bool(head)
        if head:
            self.add(head)
        return self

    _opened = True

    def __enter__(self) -> None:
        self._stack = [*getattr(self, "_stack", []), self._opened]
        self.depth += self._opened

    def __exit__(self, *_: object) -> None:
        self.depth -= self._stack.pop()


def if_(condition: str) -> str:
    return f"if {condition}:" if condition else ""


def choose(choices: list[tuple[Range, str]], within: Range) -> str:
    """One expression that picks by version; `choices` cover `within`."""
    (versions, text), *rest = [(versions & within, text) for versions, text in choices if versions & within]
    condition = versions.condition(within)
    return f"{text} if {condition} else {choose(rest, within)}" if condition else text


class ModuleWriter:
    """Writes the module of one API or record."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.lines = Lines()
        self.struct_constants: dict[str, str] = {}
        self._rename_clashing_structs()

    def _rename_clashing_structs(self) -> None:
        seen: dict[str, int] = {}
        for message in self.messages:
            for struct in message.structs:
                seen[struct.name] = seen.get(struct.name, 0) + 1
        for message in self.messages:
            names = {struct.name: f"{message.name}{struct.name}" if seen[struct.name] > 1 else struct.name for struct in message.structs}
            for struct in message.structs:
                struct.class_name = names[struct.name]
                for field in struct.fields:
                    if field.is_struct:
                        field.type = field.type.replace(field.base_type, names[field.base_type])

    def source(self) -> str:
        for message in self.messages:
            for struct in message.structs:
                self._struct(message, struct)
        body = "\n".join(self.lines.lines)
        return self._head(body) + body + "\n"

    def _head(self, body: str) -> str:
        files = " and ".join(f"{message.name}.json" for message in self.messages)
        folder = "messages" if self.messages[0].kind in ("request", "response", "header") else "records"
        names = " and ".join(message.name for message in self.messages)
        lines = [f'"""{names}. Generated from {files} in protocol/{folder} by tools/generate_messages.py; do not edit."""', ""]
        lines += ["from __future__ import annotations", ""]
        typing = ["ClassVar"] if "ClassVar[" in body else []
        lines += [
            f"import struct\nfrom typing import {', '.join([*typing, 'Self'])}"
            if self.struct_constants
            else f"from typing import {', '.join([*typing, 'Self'])}",
            "",
        ]
        lines += [f"from msgspec import {'Struct, field' if 'field(' in body else 'Struct'}", ""]
        if "Uuid" in body:
            lines.append("from kmirror.common.uuid import Uuid")
        names_used = sorted(
            set(re.findall(r"\b[A-Za-z_]\w*", body)) & PRIMITIVE_NAMES, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
        )
        lines += ["from kmirror.wire.primitives import (", *(f"    {name}," for name in names_used), ")", ""]
        for constant, expression in sorted(self.struct_constants.items()):
            lines.append(f"{constant} = {expression}")
        return "\n".join(lines) + "\n"

    def _codec(self, direction: str, types: Iterable[str]) -> str:
        """The module constant that packs or unpacks these fixed-size types in one go."""
        types = list(types)
        name = f"_{direction}_" + "_".join(f"{FIXED_TYPES[type_][1]}" for type_ in types)
        method = "unpack_from" if direction == "read" else "pack"
        if len(name) > 60:
            name = f"_{direction}_" + re.sub(
                r"\W", "", "".join(FIXED_TYPES[type_][0] for type_ in types).replace("?", "o").replace("16s", "u")
            )
        self.struct_constants[name] = f'struct.Struct(">{"".join(FIXED_TYPES[type_][0] for type_ in types)}").{method}'
        return name

    def _struct(self, message: Message, struct: StructSpec) -> None:
        lines, top = self.lines, struct is message.top
        lines.add("", "")
        with lines.block(f"class {struct.class_name}(Struct, gc=False):"):
            lines.add(f'"""{struct.about}"""', "")
            if top:
                if message.api_key is not None:
                    lines.add(f"API_KEY: ClassVar[int] = {message.api_key}")
                lines.add(f"LOWEST_VERSION: ClassVar[int] = {message.valid.lowest}")
                lines.add(f"HIGHEST_VERSION: ClassVar[int] = {message.valid.highest}")
                lines.add(f"FLEXIBLE_FROM: ClassVar[int | None] = {message.flexible.lowest if message.flexible else None}", "")
            for field in struct.fields:
                lines.add(field.declaration())
            if message.flexible & struct.versions:
                lines.add("unknown_tagged_fields: TaggedFields = ()")
            lines.add("")
            self._read_method(message, struct, guarded=top)
            lines.add("")
            self._write_method(message, struct)

    def _read_method(self, message: Message, struct: StructSpec, *, guarded: bool) -> None:
        lines = self.lines
        lines.add("@classmethod")
        with lines.block("def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:"):
            with lines.block("try:" if guarded else ""):
                self._read_body(message, struct)
            if guarded:
                with lines.block("except READ_ERRORS as error:"):
                    lines.add(f'raise malformed("{message.name}", version, error) from error')

    def _read_body(self, message: Message, struct: StructSpec) -> None:
        lines = self.lines
        for run in fixed_runs(struct.fields):
            if isinstance(run, list):
                self._read_run(run, struct.versions)
            else:
                self._read_variable(message, run, struct.versions)
        flexible = message.flexible & struct.versions
        if flexible:
            self._read_tags(message, struct, flexible)
        arguments = ", ".join([*(field.local for field in struct.fields), *(["unknown_tagged_fields"] if flexible else [])])
        lines.add(f"return cls({arguments}), position")

    def _read_run(self, run: list[Field], within: Range) -> None:
        for head, present, absent in ladder(run, within):
            with self.lines.block(head):
                self._read_rung(present)
                for field in absent:
                    self.lines.add(f"{field.local} = {field.default_expression()}")

    def _read_rung(self, present: list[Field]) -> None:
        lines = self.lines
        if present:
            codec = self._codec("read", (field.type for field in present))
            targets = ", ".join(f"{field.local}_bytes" if field.type == "uuid" else field.local for field in present)
            lines.add(f"{f'({targets},)' if len(present) == 1 else targets} = {codec}(buffer, position)")
            lines.add(f"position += {sum(WIDTHS[field.type] for field in present)}")
            for field in present:
                if field.type == "uuid":
                    lines.add(f"{field.local} = Uuid({field.local}_bytes)")

    def _read_variable(self, message: Message, field: Field, within: Range) -> None:
        lines, condition = self.lines, field.versions.condition(within)
        if condition or field.is_array or field.is_struct or field.nullable:
            lines.add(f"{field.local}: {field.python_type()}")
        with lines.block(if_(condition)):
            self._read_value(message, field, field.versions)
        if condition:
            with lines.block("else:"):
                lines.add(f"{field.local} = {field.default_expression()}")

    def _forms(self, message: Message, field: Field, within: Range) -> Iterator[tuple[Range, bool, bool]]:
        """Ranges of `within`, newest first, in which compactness and nullability are constant."""
        edges = {within.lowest, within.highest + 1}
        for versions in (message.flexible, field.nullable):
            edges |= {edge for edge in (versions.lowest, versions.highest + 1) if versions and edge in within}
        ordered = sorted(edges)
        for lowest, next_lowest in reversed(list(zip(ordered, ordered[1:], strict=False))):
            yield Range(lowest, next_lowest - 1), lowest in message.flexible and not field.never_compact, lowest in field.nullable

    def _read_value(self, message: Message, field: Field, within: Range) -> None:
        """Lines that read one value of `field` into its local, for the versions `within`."""
        lines, local = self.lines, field.local
        if field.is_array:
            self._read_array(message, field, within)
        elif field.is_struct and field.nullable:
            self._read_nullable_struct(field)
        elif field.is_struct:
            lines.add(f"{local}, position = {field.base_type}.read(buffer, position, version)")
        elif field.is_fixed:
            self._read_rung([field])
        else:
            self._by_form(message, field, within, lambda prefix: [f"{local}, position = read_{prefix}{field.type}(buffer, position)"])

    def _read_nullable_struct(self, field: Field) -> None:
        """Before the struct comes a byte, negative for null; in a tagged field an unsigned varint, 0 for null."""
        lines, local = self.lines, field.local
        if field.tag is None:
            lines.add(f"(nullness,) = {self._codec('read', ['int8'])}(buffer, position)", "position += 1")
        else:
            lines.add("nullness, position = read_unsigned_varint(buffer, position)")
        with lines.block(f"if nullness {'<' if field.tag is None else '<='} 0:"):
            lines.add(f"{local} = None")
        with lines.block("else:"):
            lines.add(f"{local}, position = {field.base_type}.read(buffer, position, version)")

    def _by_form(self, message: Message, field: Field, within: Range, body: Any) -> None:
        """An if-ladder over the forms (compact, nullable) that the field has in `within`."""
        lines = self.lines
        forms = []
        for versions, compact, nullable in self._forms(message, field, within):
            text = body(f"{'compact_' if compact else ''}{'nullable_' if nullable else ''}")
            forms.append((versions, text))
        if len(forms) == 1:
            lines.add(*forms[0][1])
            return
        for index, (versions, text) in enumerate(forms):
            last = index == len(forms) - 1
            with lines.block("else:" if last else f"{'el' if index else ''}if version >= {versions.lowest}:"):
                lines.add(*text)

    def _read_array(self, message: Message, field: Field, within: Range) -> None:
        lines, local = self.lines, field.local
        self._by_form(message, field, within, lambda prefix: [f"count, position = read_{prefix}array_length(buffer, position)"])
        with lines.block("if count < 0:" if field.nullable else ""):
            if field.nullable:
                lines.add(f"{local} = None")
        with lines.block("else:" if field.nullable else ""):
            if field.is_struct:
                lines.add(f"{local} = []")
                with lines.block("for _ in range(count):"):
                    lines.add(
                        f"element, position = {field.base_type}.read(buffer, position, version)".replace("element", f"{local}_element")
                    )
                    lines.add(f"{local}.append({local}_element)")
            elif field.base_type == "string":
                compact = choose([(message.flexible, "read_compact_strings"), (within, "read_strings")], within)
                lines.add(f"{local}, position = {f'({compact})' if ' ' in compact else compact}(buffer, position, count)")
            else:
                lines.add(f"{local}, position = read_{ARRAY_HELPERS[field.base_type]}(buffer, position, count)")

    def _read_tags(self, message: Message, struct: StructSpec, flexible: Range) -> None:
        lines = self.lines
        tagged = sorted((field for field in struct.fields if field.tag is not None), key=lambda field: field.tag or 0)
        for field in tagged:
            lines.add(f"{field.local}: {field.python_type()} = {field.default_expression()}")
        lines.add("unknown_tagged_fields: TaggedFields = ()")
        with lines.block(if_(flexible.condition(struct.versions))):
            with lines.block("if not buffer[position]:"):
                lines.add("position += 1")
            if not tagged:
                with lines.block("else:"):
                    lines.add("unknown_tagged_fields, position = read_tagged_fields(buffer, position)")
                return
            with lines.block("else:"):
                self._read_known_tags(message, tagged, flexible)

    def _read_known_tags(self, message: Message, tagged: list[Field], flexible: Range) -> None:
        lines = self.lines
        lines.add("tag_count, position = read_unsigned_varint(buffer, position)")
        with lines.block("for _ in range(tag_count):"):
            lines.add("tag, position = read_unsigned_varint(buffer, position)")
            lines.add("size, position = read_unsigned_varint(buffer, position)")
            for index, field in enumerate(tagged):
                with lines.block(f"{'el' if index else ''}if tag == {field.tag}:"):
                    if condition := field.versions.condition(flexible):
                        with lines.block(
                            f"if not ({condition}):"
                            if " <= version <= " in condition
                            else f"if {field.versions.negated_condition(flexible)}:"
                        ):
                            lines.add(f'raise ProtocolReadError(f"tag {field.tag} is not valid for {message.name} version {{version}}")')
                    self._read_value(message, field, field.versions)
            with lines.block("else:"):
                lines.add("value, position = read_unknown_tagged_field(buffer, position, size)")
                lines.add("unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))")

    def _write_method(self, message: Message, struct: StructSpec) -> None:
        lines = self.lines
        flexible = message.flexible & struct.versions
        with lines.block("def write(self, out: Writer, version: int) -> None:"):
            before = len(lines.lines)
            self._write_checks(message, struct)
            append_at = len(lines.lines)
            for run in fixed_runs(struct.fields):
                if isinstance(run, list):
                    self._write_run(run, struct.versions)
                else:
                    with lines.block(if_(run.versions.condition(struct.versions))):
                        self._write_value(message, run, run.versions, "out")
            if flexible:
                self._write_tags(message, struct, flexible)
            if any(re.search(r"(?<![\w.])append\(", line) for line in lines.lines[append_at:]):
                lines.lines.insert(append_at, "    " * lines.depth + "append = out.append")
            if len(lines.lines) == before:
                lines.add("pass")

    def _write_checks(self, message: Message, struct: StructSpec) -> None:
        """Raise for set fields that the version cannot carry, unless they are ignorable."""
        groups: dict[str, list[Field]] = {}
        for field in struct.fields:
            if not field.ignorable and not field.versions.covers(struct.versions):
                groups.setdefault(field.versions.negated_condition(struct.versions), []).append(field)
        for condition, fields in groups.items():
            with self.lines.block(f"if {condition}:"):
                for field in fields:
                    with self.lines.block(f"if {field.differs_from_default()}:"):
                        self.lines.add(f'raise unsupported_field("{message.name}", "{field.name}", version)')
        flexible = message.flexible & struct.versions
        if flexible and (condition := flexible.condition(struct.versions)):
            with self.lines.block(f"if self.unknown_tagged_fields and {flexible.negated_condition(struct.versions)}:"):
                self.lines.add(f'raise unsupported_field("{message.name}", "unknown_tagged_fields", version)')

    def _write_run(self, run: list[Field], within: Range) -> None:
        for head, present, _ in ladder(run, within, skip_empty=True):
            with self.lines.block(head):
                self.lines.add(f"append({self._pack(present)})")

    def _pack(self, fields: list[Field]) -> str:
        values = ", ".join(f"self.{field.name}.raw" if field.type == "uuid" else f"self.{field.name}" for field in fields)
        return f"{self._codec('write', (field.type for field in fields))}({values})"

    def _write_value(self, message: Message, field: Field, within: Range, out: str) -> None:
        lines, value = self.lines, f"self.{field.name}"
        if field.is_array:
            self._write_array(message, field, within, out)
        elif field.is_struct and field.nullable:
            null = r"\xff" if field.tag is None else r"\0"
            with lines.block(f"if {value} is None:"):
                lines.add(f'{out}.append(b"{null}")')
            with lines.block("else:"):
                lines.add(f'{out}.append(b"\\x01")', f"{value}.write({out}, version)")
        elif field.is_struct:
            lines.add(f"{value}.write({out}, version)")
        elif field.is_fixed:
            lines.add(f"{out}.append({self._pack([field])})")
        else:
            self._by_form(
                message, field, within,
                lambda prefix: [f"{out}.write_{prefix}{field.type}({value})" if "nullable" in prefix or not field.nullable
                                else f'{out}.write_{prefix}{field.type}(not_null({value}, "{field.name}"))'],
            )  # fmt: skip

    def _write_array(self, message: Message, field: Field, within: Range, out: str) -> None:
        lines, value = self.lines, f"self.{field.name}"
        if field.nullable:
            with lines.block(f"if {value} is None:"):
                self._by_form(
                    message, field, within,
                    lambda prefix: [(f"{out}.append(b\"\\0\")" if "compact" in prefix else f"{out}.append(b\"\\xff\\xff\\xff\\xff\")") if "nullable" in prefix
                                    else f'not_null({value}, "{field.name}")'],
                )  # fmt: skip
        with lines.block("else:" if field.nullable else ""):
            compact_forms = [(message.flexible, "compact_"), (within, "")]
            length = [
                (versions & within, f"{out}.write_{prefix}array_length(len({value}))")
                for versions, prefix in compact_forms
                if versions & within
            ]
            self._ladder_of_lines(length, within)
            if field.is_struct:
                with lines.block(f"for {field.local}_element in {value}:"):
                    lines.add(f"{field.local}_element.write({out}, version)")
            elif field.base_type == "string":
                self._ladder_of_lines(
                    [
                        (versions & within, f"{out}.write_{prefix}strings({value})")
                        for versions, prefix in compact_forms
                        if versions & within
                    ],
                    within,
                )
            else:
                lines.add(f"{out}.write_{ARRAY_HELPERS[field.base_type]}({value})")

    def _ladder_of_lines(self, choices: list[tuple[Range, str]], within: Range) -> None:
        (versions, text), *rest = choices
        condition = versions.condition(within)
        if not condition or not rest:
            self.lines.add(text)
            return
        with self.lines.block(f"if {condition}:"):
            self.lines.add(text)
        with self.lines.block("else:"):
            self.lines.add(rest[0][1])

    def _write_tags(self, message: Message, struct: StructSpec, flexible: Range) -> None:
        lines = self.lines
        tagged = sorted((field for field in struct.fields if field.tag is not None), key=lambda field: field.tag or 0)
        with lines.block(if_(flexible.condition(struct.versions))):
            if not tagged:
                with lines.block("if self.unknown_tagged_fields:"):
                    lines.add("out.write_tagged_fields(self.unknown_tagged_fields)")
                with lines.block("else:"):
                    lines.add('append(b"\\0")')
                return
            lines.add("tagged = list(self.unknown_tagged_fields)")
            for field in tagged:
                condition = field.versions.condition(flexible)
                differs = field.differs_from_default()
                with lines.block(f"if {condition} and ({differs}):" if condition else f"if {differs}:"):
                    if field.is_fixed:
                        lines.add(f"tagged.append(({field.tag}, {self._pack([field])}))")
                    else:
                        writer = f"{field.local}_out"
                        lines.add(f"{writer} = Writer()")
                        self._write_value(message, field, field.versions, writer)
                        lines.add(f"tagged.append(({field.tag}, {writer}.to_bytes()))")
            lines.add("out.write_tagged_fields(tagged)")


PRIMITIVE_NAMES = (
    {"READ_ERRORS", "ProtocolReadError", "Records", "TaggedFields", "Writer", "malformed", "not_null", "unsupported_field"}
    | {"read_unsigned_varint", "read_unknown_tagged_field", "read_tagged_fields"}
    | {
        f"read_{compact}{nullable}{kind}"
        for compact in ("", "compact_")
        for nullable in ("", "nullable_")
        for kind in ("string", "bytes", "records", "array_length")
    }
    | {f"read_{kind}" for kind in (*ARRAY_HELPERS.values(), "compact_strings")}
)
WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}


def fixed_runs(fields: list[Field]) -> Iterator[list[Field] | Field]:
    """Untagged fields in order: neighbours of fixed size as lists, the others (and tagged ones) alone."""
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
    """(if-line, fields present, fields absent) for each group of versions, newest first."""
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


def modules() -> dict[str, list[Message]]:
    """Module name -> its messages: requests with their responses, everything else alone."""
    found: dict[str, list[Message]] = {}
    for folder in ("messages", "records"):
        for path in sorted((SCHEMAS / folder).glob("*.json")):
            message = load_message(path)
            name = re.sub("(Request|Response)$", "", message.name) if message.kind in ("request", "response") else message.name
            found.setdefault(snake_case(name), []).append(message)
    return found


def index_source(found: dict[str, list[Message]]) -> str:
    """`index.py`: what the registry needs to know without importing any message."""
    lines = ['"""What the schemas say about each API and stored record. Generated by tools/generate_messages.py; do not edit."""', ""]
    lines += [
        "from __future__ import annotations",
        "",
        "# API key -> (name, module, lowest version, highest version, flexible from, listeners, latest version unstable)",
    ]
    lines.append("APIS: dict[int, tuple[str, str, int, int, int | None, tuple[str, ...], bool]] = {")
    requests = [(message, module) for module, messages in found.items() for message in messages if message.kind == "request"]
    for message, module in sorted(requests, key=lambda pair: pair[0].api_key or 0):
        flexible = message.flexible.lowest if message.flexible else None
        listeners = (
            "(" + ", ".join(json.dumps(listener) for listener in message.listeners) + ("," if len(message.listeners) == 1 else "") + ")"
        )
        row = f'("{message.name.removesuffix("Request")}", "{module}", {message.valid.lowest}, {message.valid.highest}, {flexible}, {listeners}, {message.latest_unstable})'
        lines.append(f"    {message.api_key}: {row},")
    lines += ["}", "", "# Type of a record in __cluster_metadata -> (class, module)", "METADATA_RECORDS: dict[int, tuple[str, str]] = {"]
    records = [(message, module) for module, messages in found.items() for message in messages if message.kind == "metadata"]
    for message, module in sorted(records, key=lambda pair: pair[0].api_key or 0):
        lines.append(f'    {message.api_key}: ("{message.name}", "{module}"),')
    return "\n".join([*lines, "}", ""])


def generate() -> dict[pathlib.Path, str]:
    """Path -> text of every generated file."""
    found = modules()
    generated = {TARGET / f"{name}.py": ModuleWriter(messages).source() for name, messages in found.items()}
    generated[TARGET / "index.py"] = index_source(found)
    generated[TARGET / "__init__.py"] = (
        '"""Generated message classes: one module an API or stored record (see tools/generate_messages.py)."""\n'
    )
    return generated


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: generate_messages.py [--check]", file=sys.stderr)
        return 2
    generated = generate()
    present = {path: path.read_text() for path in TARGET.glob("*.py")}
    stale = sorted(path for path in generated.keys() | present.keys() if generated.get(path) != present.get(path))
    if arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what protocol/ says; run tools/generate_messages.py", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in generated:
            path.write_text(generated[path])
        else:
            path.unlink()
    print(f"{len(generated)} modules, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
