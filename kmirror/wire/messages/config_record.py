"""ConfigRecord. Generated from ConfigRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i1 = struct.Struct(">b").unpack_from
_write_i1 = struct.Struct(">b").pack


class ConfigRecord(Struct, gc=False):
    """Sets or removes one configuration value."""

    API_KEY: ClassVar[int] = 4
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    name: str = ""  # Key of the configuration.
    value: str | None = ""  # Value of the configuration; null to remove it.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (resource_type,) = _read_i1(buffer, position)
            position += 1
            resource_name, position = read_compact_string(buffer, position)
            name, position = read_compact_string(buffer, position)
            value: str | None
            value, position = read_compact_nullable_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(resource_type, resource_name, name, value, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConfigRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i1(self.resource_type))
        out.write_compact_string(self.resource_name)
        out.write_compact_string(self.name)
        out.write_compact_nullable_string(self.value)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
