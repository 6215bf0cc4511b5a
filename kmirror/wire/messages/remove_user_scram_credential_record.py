"""RemoveUserScramCredentialRecord. Generated from RemoveUserScramCredentialRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i1 = struct.Struct(">b").unpack_from
_write_i1 = struct.Struct(">b").pack


class RemoveUserScramCredentialRecord(Struct, gc=False):
    """A SCRAM credential was removed."""

    API_KEY: ClassVar[int] = 22
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    name: str = ""  # Name of the user.
    mechanism: int = 0  # Name or number of the mechanism.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            name, position = read_compact_string(buffer, position)
            (mechanism,) = _read_i1(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(name, mechanism, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RemoveUserScramCredentialRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i1(self.mechanism))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
