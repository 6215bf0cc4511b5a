"""KRaftVersionRecord. Generated from KRaftVersionRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_tagged_fields,
)

_read_i2_i2 = struct.Struct(">hh").unpack_from
_write_i2_i2 = struct.Struct(">hh").pack


class KRaftVersionRecord(Struct, gc=False):
    """Control record that sets kraft.version."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    version: int = 0  # Version of this record.
    kraft_version: int = 0  # Level of kraft.version.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            version_, kraft_version = _read_i2_i2(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(version_, kraft_version, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("KRaftVersionRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2_i2(self.version, self.kraft_version))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
