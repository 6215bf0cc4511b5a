"""RequestHeader. Generated from RequestHeader.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_nullable_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i2_i2_i4 = struct.Struct(">hhi").unpack_from
_write_i2_i2_i4 = struct.Struct(">hhi").pack


class RequestHeader(Struct, gc=False):
    """What comes before every request."""

    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    request_api_key: int = 0  # Number of the API.
    request_api_version: int = 0  # Version of the API.
    correlation_id: int = 0  # Number that ties a response to its request.
    client_id: str | None = ""  # Name that the client gave itself.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            request_api_key, request_api_version, correlation_id = _read_i2_i2_i4(buffer, position)
            position += 8
            client_id: str | None
            if version >= 2:
                client_id, position = read_nullable_string(buffer, position)
            else:
                client_id, position = read_nullable_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(request_api_key, request_api_version, correlation_id, client_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RequestHeader", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("RequestHeader", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2_i2_i4(self.request_api_key, self.request_api_version, self.correlation_id))
        if version >= 2:
            out.write_nullable_string(self.client_id)
        else:
            out.write_nullable_string(self.client_id)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
