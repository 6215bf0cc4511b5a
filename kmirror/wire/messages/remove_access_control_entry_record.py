"""RemoveAccessControlEntryRecord. Generated from RemoveAccessControlEntryRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_tagged_fields,
)

_read_uuid = struct.Struct(">16s").unpack_from
_write_uuid = struct.Struct(">16s").pack


class RemoveAccessControlEntryRecord(Struct, gc=False):
    """An access rule was removed."""

    API_KEY: ClassVar[int] = 19
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    id: Uuid = Uuid.ZERO  # Id of the rule.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (id_bytes,) = _read_uuid(buffer, position)
            position += 16
            id = Uuid(id_bytes)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RemoveAccessControlEntryRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
