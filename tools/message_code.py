"""Writes the `read` and `write` methods of a struct.

Neighbouring fields of fixed size are read and written by one `struct` call. If some of them exist
only in some versions, an if-ladder has one call in each branch. `Code` holds what both methods
share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from message_schema import ARRAY_HELPERS, FIXED_TYPES, WIDTHS, Field, Message, Range, StructSpec, fixed_runs, ladder


class Lines:
    """Source lines with an indentation that follows `with lines.block(...)`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def add(self, *lines: str) -> None:
        self.lines.extend("    " * self.depth + line if line else "" for line in lines)

    def block(self, head: str) -> Lines:
        """Opens a block with `head`; an empty head opens nothing, so an always-true condition costs
        nothing.
        """
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
    """Returns one expression that selects by version; `choices` cover `within`."""
    (versions, text), *rest = [(versions & within, text) for versions, text in choices if versions & within]
    condition = versions.condition(within)
    return f"{text} if {condition} else {choose(rest, within)}" if condition else text


class Code:
    """Lines of one module, and the module constants that they use (name -> expression)."""

    def __init__(self, lines: Lines, constants: dict[str, str]) -> None:
        self.lines = lines
        self.constants = constants

    def codec(self, direction: str, types: Iterable[str]) -> str:
        """Returns the module constant that packs or unpacks these fixed-size types in one call."""
        types = list(types)
        name = f"_{direction}_" + "_".join(f"{FIXED_TYPES[type_][1]}" for type_ in types)
        method = "unpack_from" if direction == "read" else "pack"
        if len(name) > 60:
            name = f"_{direction}_" + re.sub(
                r"\W", "", "".join(FIXED_TYPES[type_][0] for type_ in types).replace("?", "o").replace("16s", "u")
            )
        self.constants[name] = f'struct.Struct(">{"".join(FIXED_TYPES[type_][0] for type_ in types)}").{method}'
        return name

    def forms(self, message: Message, field: Field, within: Range) -> Iterator[tuple[Range, bool, bool]]:
        """Returns ranges of `within`, newest first, in which compactness and nullability are
        constant.
        """
        edges = {within.lowest, within.highest + 1}
        for versions in (message.flexible, field.nullable):
            edges |= {edge for edge in (versions.lowest, versions.highest + 1) if versions and edge in within}
        ordered = sorted(edges)
        for lowest, next_lowest in reversed(list(zip(ordered, ordered[1:], strict=False))):
            yield Range(lowest, next_lowest - 1), lowest in message.flexible and not field.never_compact, lowest in field.nullable

    def by_form(self, message: Message, field: Field, within: Range, body: Callable[[str], list[str]]) -> None:
        """Writes an if-ladder over the forms (compact, nullable) that the field has in `within`."""
        lines = self.lines
        forms = []
        for versions, compact, nullable in self.forms(message, field, within):
            text = body(f"{'compact_' if compact else ''}{'nullable_' if nullable else ''}")
            forms.append((versions, text))
        if len(forms) == 1:
            lines.add(*forms[0][1])
            return
        for index, (versions, text) in enumerate(forms):
            last = index == len(forms) - 1
            with lines.block("else:" if last else f"{'el' if index else ''}if version >= {versions.lowest}:"):
                lines.add(*text)


class ReadCode(Code):
    """The class method `read`."""

    def method(self, message: Message, struct: StructSpec, *, guarded: bool) -> None:
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
            codec = self.codec("read", (field.type for field in present))
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

    def _read_value(self, message: Message, field: Field, within: Range) -> None:
        """Writes lines that read one value of `field` into its local, for the versions `within`."""
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
            self.by_form(message, field, within, lambda prefix: [f"{local}, position = read_{prefix}{field.type}(buffer, position)"])

    def _read_nullable_struct(self, field: Field) -> None:
        """Writes the reading of a nullable struct.

        A byte comes before the struct, negative for null; in a tagged field it is an unsigned
        varint, 0 for null.
        """
        lines, local = self.lines, field.local
        if field.tag is None:
            lines.add(f"(nullness,) = {self.codec('read', ['int8'])}(buffer, position)", "position += 1")
        else:
            lines.add("nullness, position = read_unsigned_varint(buffer, position)")
        with lines.block(f"if nullness {'<' if field.tag is None else '<='} 0:"):
            lines.add(f"{local} = None")
        with lines.block("else:"):
            lines.add(f"{local}, position = {field.base_type}.read(buffer, position, version)")

    def _read_array(self, message: Message, field: Field, within: Range) -> None:
        lines, local = self.lines, field.local
        self.by_form(message, field, within, lambda prefix: [f"count, position = read_{prefix}array_length(buffer, position)"])
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


class WriteCode(Code):
    """The method `write`."""

    def method(self, message: Message, struct: StructSpec) -> None:
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
        """Writes lines that raise for set fields that the version cannot carry, unless they are
        ignorable.
        """
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
                self.lines.add(f"append({self._pack(present)})" if present else "pass")

    def _pack(self, fields: list[Field]) -> str:
        values = ", ".join(f"self.{field.name}.raw" if field.type == "uuid" else f"self.{field.name}" for field in fields)
        return f"{self.codec('write', (field.type for field in fields))}({values})"

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
            self.by_form(
                message, field, within,
                lambda prefix: [f"{out}.write_{prefix}{field.type}({value})" if "nullable" in prefix or not field.nullable
                                else f'{out}.write_{prefix}{field.type}(not_null({value}, "{field.name}"))'],
            )  # fmt: skip

    def _write_array(self, message: Message, field: Field, within: Range, out: str) -> None:
        lines, value = self.lines, f"self.{field.name}"
        if field.nullable:
            with lines.block(f"if {value} is None:"):
                self.by_form(
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
