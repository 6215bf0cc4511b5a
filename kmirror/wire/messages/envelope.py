"""EnvelopeRequest and EnvelopeResponse. Generated from EnvelopeRequest.json and EnvelopeResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_bytes,
    read_compact_nullable_bytes,
    read_tagged_fields,
)

_read_i2 = struct.Struct(">h").unpack_from
_write_i2 = struct.Struct(">h").pack


class EnvelopeRequest(Struct, gc=False):
    """Asks to forward a client's request to the controller."""

    API_KEY: ClassVar[int] = 58
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    request_data: bytes = b""  # Request that is being forwarded, header included.
    request_principal: bytes | None = b""  # Who made the forwarded request, serialized.
    client_host_address: bytes = b""  # Address of the client whose request is forwarded, as raw bytes.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            request_data, position = read_compact_bytes(buffer, position)
            request_principal: bytes | None
            request_principal, position = read_compact_nullable_bytes(buffer, position)
            client_host_address, position = read_compact_bytes(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(request_data, request_principal, client_host_address, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("EnvelopeRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_bytes(self.request_data)
        out.write_compact_nullable_bytes(self.request_principal)
        out.write_compact_bytes(self.client_host_address)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class EnvelopeResponse(Struct, gc=False):
    """Answers a request to forward a client's request to the controller."""

    API_KEY: ClassVar[int] = 58
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    response_data: bytes | None = None  # Response to the forwarded request, header included.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            response_data: bytes | None
            response_data, position = read_compact_nullable_bytes(buffer, position)
            (error_code,) = _read_i2(buffer, position)
            position += 2
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(response_data, error_code, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("EnvelopeResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_bytes(self.response_data)
        append(_write_i2(self.error_code))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
