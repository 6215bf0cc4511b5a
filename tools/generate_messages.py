"""Writes `kmirror/wire/messages/` from the schemas in `protocol/`: one module per API (request and
response) or record.

    python tools/generate_messages.py            write the modules
    python tools/generate_messages.py --check    exit 1 and say what differs, write nothing

`message_schema` reads a schema, `message_code` writes a struct's `read` and `write`, and this
script puts them together into modules. Reads and writes follow Kafka's generated classes. A known
tag that the version does not allow is an error; unknown tags are kept. A field that the version
cannot carry is dropped if it is ignorable; otherwise it is an error if it differs from its default.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

from message_code import Lines, ReadCode, WriteCode
from message_schema import ARRAY_HELPERS, Message, StructSpec, default_constant, load_message, snake_case

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "protocol"
TARGET = ROOT / "kmirror" / "wire" / "messages"
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


class ModuleWriter:
    """Writes the module of one API or record."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.lines = Lines()
        self.constants: dict[str, str] = {}
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
        body = "\n".join(self.lines.lines) + self._default_structs()
        return self._head(body) + body + "\n"

    def _default_structs(self) -> str:
        """Returns constants, placed below the classes, for tagged structs that are written only
        when they differ from them.
        """
        body = "\n".join(self.lines.lines)
        names = [struct.class_name for message in self.messages for struct in message.structs]
        used = [name for name in names if re.search(rf"\b{default_constant(name)}\b", body)]
        return "".join(["\n\n", *(f"\n{default_constant(name)} = {name}()" for name in used)]) if used else ""

    def _head(self, body: str) -> str:
        body = re.sub(r"  # .*|\"\"\".*?\"\"\"", "", body)
        files = " and ".join(f"{message.name}.json" for message in self.messages)
        folder = "messages" if self.messages[0].kind in ("request", "response", "header") else "records"
        names = " and ".join(message.name for message in self.messages)
        lines = [f'"""{names}. Generated from {files} in protocol/{folder} by tools/generate_messages.py; do not edit."""', ""]
        lines += ["from __future__ import annotations", ""]
        typing = ["ClassVar"] if "ClassVar[" in body else []
        lines += [
            f"import struct\nfrom typing import {', '.join([*typing, 'Self'])}"
            if self.constants
            else f"from typing import {', '.join([*typing, 'Self'])}",
            "",
        ]
        lines += [f"from msgspec import {'Struct, field' if '= field(' in body else 'Struct'}", ""]
        if "Uuid" in body:
            lines.append("from kmirror.common.uuid import Uuid")
        names_used = sorted(
            set(re.findall(r"\b[A-Za-z_]\w*", body)) & PRIMITIVE_NAMES, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
        )
        lines += ["from kmirror.wire.primitives import (", *(f"    {name}," for name in names_used), ")", ""]
        for constant, expression in sorted(self.constants.items()):
            lines.append(f"{constant} = {expression}")
        return "\n".join(lines) + "\n"

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
                lines.add(field.declaration(struct.versions))
            if message.flexible & struct.versions:
                lines.add("unknown_tagged_fields: TaggedFields = ()")
            lines.add("")
            ReadCode(lines, self.constants).method(message, struct, guarded=top)
            lines.add("")
            WriteCode(lines, self.constants).method(message, struct)


def modules() -> dict[str, list[Message]]:
    """Returns the messages by module name: requests with their responses, everything else alone."""
    found: dict[str, list[Message]] = {}
    for folder in ("messages", "records"):
        for path in sorted((SCHEMAS / folder).glob("*.json")):
            message = load_message(path)
            name = re.sub("(Request|Response)$", "", message.name) if message.kind in ("request", "response") else message.name
            found.setdefault(snake_case(name), []).append(message)
    return found


def index_source(found: dict[str, list[Message]]) -> str:
    """Returns `index.py`: what the registry needs to know without importing any message."""
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
    """Returns the text of every generated file by its path."""
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
