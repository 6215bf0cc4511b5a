"""SaslAuthenticateRequest and SaslAuthenticateResponse. Generated from SaslAuthenticateRequest.json and SaslAuthenticateResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_bytes,
    read_compact_bytes,
    read_compact_nullable_string,
    read_nullable_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i8 = struct.Struct(">q").pack


class SaslAuthenticateRequest(Struct, gc=False):
    """Asks to exchange SASL tokens."""

    API_KEY: ClassVar[int] = 36
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    auth_bytes: bytes = b""  # Token of the SASL exchange.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                auth_bytes, position = read_compact_bytes(buffer, position)
            else:
                auth_bytes, position = read_bytes(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(auth_bytes, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("SaslAuthenticateRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("SaslAuthenticateRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_bytes(self.auth_bytes)
        else:
            out.write_bytes(self.auth_bytes)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class SaslAuthenticateResponse(Struct, gc=False):
    """Answers a request to exchange SASL tokens."""

    API_KEY: ClassVar[int] = 36
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    auth_bytes: bytes = b""  # Token of the SASL exchange.
    session_lifetime_ms: int = 0  # How long the connection may live without authenticating again, 0 for ever. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            error_message: str | None
            if version >= 2:
                error_message, position = read_compact_nullable_string(buffer, position)
            else:
                error_message, position = read_nullable_string(buffer, position)
            if version >= 2:
                auth_bytes, position = read_compact_bytes(buffer, position)
            else:
                auth_bytes, position = read_bytes(buffer, position)
            if version >= 1:
                (session_lifetime_ms,) = _read_i8(buffer, position)
                position += 8
            else:
                session_lifetime_ms = 0
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(error_code, error_message, auth_bytes, session_lifetime_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("SaslAuthenticateResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("SaslAuthenticateResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version >= 2:
            out.write_compact_bytes(self.auth_bytes)
        else:
            out.write_bytes(self.auth_bytes)
        if version >= 1:
            append(_write_i8(self.session_lifetime_ms))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
