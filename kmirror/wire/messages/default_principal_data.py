"""DefaultPrincipalData. Generated from DefaultPrincipalData.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_string,
    read_tagged_fields,
)

_read_bool = struct.Struct(">?").unpack_from
_write_bool = struct.Struct(">?").pack


class DefaultPrincipalData(Struct, gc=False):
    """A principal as brokers forward it."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    type: str = ""  # Type of the principal.
    name: str = ""  # Name of the principal.
    token_authenticated: bool = False  # True if the forwarded request was authenticated by a delegation token.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            type, position = read_compact_string(buffer, position)
            name, position = read_compact_string(buffer, position)
            (token_authenticated,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(type, name, token_authenticated, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DefaultPrincipalData", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.type)
        out.write_compact_string(self.name)
        append(_write_bool(self.token_authenticated))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
