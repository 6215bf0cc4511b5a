"""ResponseHeader. Generated from ResponseHeader.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_write_i4 = struct.Struct(">i").pack


class ResponseHeader(Struct, gc=False):
    """What comes before every response."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    correlation_id: int = 0  # Number that ties a response to its request.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (correlation_id,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(correlation_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ResponseHeader", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("ResponseHeader", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.correlation_id))
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
