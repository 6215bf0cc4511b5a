"""RenewDelegationTokenRequest and RenewDelegationTokenResponse. Generated from RenewDelegationTokenRequest.json and RenewDelegationTokenResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_tagged_fields,
    unsupported_field,
)

_read_i2_i8_i4 = struct.Struct(">hqi").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_write_i2_i8_i4 = struct.Struct(">hqi").pack
_write_i8 = struct.Struct(">q").pack


class RenewDelegationTokenRequest(Struct, gc=False):
    """Asks to renew a delegation token."""

    API_KEY: ClassVar[int] = 39
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    hmac: bytes = b""  # Secret of the delegation token.
    renew_period_ms: int = 0  # For how long to renew the token.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                hmac, position = read_compact_bytes(buffer, position)
            else:
                hmac, position = read_bytes(buffer, position)
            (renew_period_ms,) = _read_i8(buffer, position)
            position += 8
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(hmac, renew_period_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RenewDelegationTokenRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("RenewDelegationTokenRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_bytes(self.hmac)
        else:
            out.write_bytes(self.hmac)
        append(_write_i8(self.renew_period_ms))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class RenewDelegationTokenResponse(Struct, gc=False):
    """Answers a request to renew a delegation token."""

    API_KEY: ClassVar[int] = 39
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    error_code: int = 0  # Result as a code, 0 on success.
    expiry_timestamp_ms: int = 0  # When the token expires unless renewed, in ms since 1970.
    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            error_code, expiry_timestamp_ms, throttle_time_ms = _read_i2_i8_i4(buffer, position)
            position += 14
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(error_code, expiry_timestamp_ms, throttle_time_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RenewDelegationTokenResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("RenewDelegationTokenResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2_i8_i4(self.error_code, self.expiry_timestamp_ms, self.throttle_time_ms))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
