"""CreateDelegationTokenRequest and CreateDelegationTokenResponse. Generated from CreateDelegationTokenRequest.json and CreateDelegationTokenResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_array_length,
    read_bytes,
    read_compact_array_length,
    read_compact_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_i8_i8_i8 = struct.Struct(">qqq").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i8 = struct.Struct(">q").pack
_write_i8_i8_i8 = struct.Struct(">qqq").pack


class CreatableRenewers(Struct, gc=False):
    """Principals that may renew the token."""

    principal_type: str = ""  # Type of the principal.
    principal_name: str = ""  # Name of the principal.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            principal_type, position = read_compact_string(buffer, position)
        else:
            principal_type, position = read_string(buffer, position)
        if version >= 2:
            principal_name, position = read_compact_string(buffer, position)
        else:
            principal_name, position = read_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(principal_type, principal_name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateDelegationTokenRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.principal_type)
        else:
            out.write_string(self.principal_type)
        if version >= 2:
            out.write_compact_string(self.principal_name)
        else:
            out.write_string(self.principal_name)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreateDelegationTokenRequest(Struct, gc=False):
    """Asks to make a delegation token."""

    API_KEY: ClassVar[int] = 38
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    owner_principal_type: str | None = ""  # Type of the token's owner; null for the caller. [3+]
    owner_principal_name: str | None = ""  # Name of the token's owner; null for the caller. [3+]
    renewers: list[CreatableRenewers] = field(default_factory=list)  # Principals that may renew the token.
    max_lifetime_ms: int = 0  # Longest life of the token in ms, -1 for the server's default.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            owner_principal_type: str | None
            if version == 3:
                owner_principal_type, position = read_compact_nullable_string(buffer, position)
            else:
                owner_principal_type = ""
            owner_principal_name: str | None
            if version == 3:
                owner_principal_name, position = read_compact_nullable_string(buffer, position)
            else:
                owner_principal_name = ""
            renewers: list[CreatableRenewers]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            renewers = []
            for _ in range(count):
                renewers_element, position = CreatableRenewers.read(buffer, position, version)
                renewers.append(renewers_element)
            (max_lifetime_ms,) = _read_i8(buffer, position)
            position += 8
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(owner_principal_type, owner_principal_name, renewers, max_lifetime_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreateDelegationTokenRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.owner_principal_type is None or self.owner_principal_type != "":
                raise unsupported_field("CreateDelegationTokenRequest", "owner_principal_type", version)
            if self.owner_principal_name is None or self.owner_principal_name != "":
                raise unsupported_field("CreateDelegationTokenRequest", "owner_principal_name", version)
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateDelegationTokenRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 3:
            out.write_compact_nullable_string(self.owner_principal_type)
        if version == 3:
            out.write_compact_nullable_string(self.owner_principal_name)
        if version >= 2:
            out.write_compact_array_length(len(self.renewers))
        else:
            out.write_array_length(len(self.renewers))
        for renewers_element in self.renewers:
            renewers_element.write(out, version)
        append(_write_i8(self.max_lifetime_ms))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreateDelegationTokenResponse(Struct, gc=False):
    """Answers a request to make a delegation token."""

    API_KEY: ClassVar[int] = 38
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    error_code: int = 0  # Result as a code, 0 on success.
    principal_type: str = ""  # Type of the principal.
    principal_name: str = ""  # Name of the principal.
    token_requester_principal_type: str = ""  # Type of who asked for the token. [3+]
    token_requester_principal_name: str = ""  # Name of who asked for the token. [3+]
    issue_timestamp_ms: int = 0  # When the token was made, in ms since 1970.
    expiry_timestamp_ms: int = 0  # When the token expires unless renewed, in ms since 1970.
    max_timestamp_ms: int = 0  # Time after which the token cannot be renewed, in ms since 1970.
    token_id: str = ""  # Id of the delegation token.
    hmac: bytes = b""  # Secret of the delegation token.
    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            if version >= 2:
                principal_type, position = read_compact_string(buffer, position)
            else:
                principal_type, position = read_string(buffer, position)
            if version >= 2:
                principal_name, position = read_compact_string(buffer, position)
            else:
                principal_name, position = read_string(buffer, position)
            token_requester_principal_type: str
            if version == 3:
                token_requester_principal_type, position = read_compact_string(buffer, position)
            else:
                token_requester_principal_type = ""
            token_requester_principal_name: str
            if version == 3:
                token_requester_principal_name, position = read_compact_string(buffer, position)
            else:
                token_requester_principal_name = ""
            issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms = _read_i8_i8_i8(buffer, position)
            position += 24
            if version >= 2:
                token_id, position = read_compact_string(buffer, position)
            else:
                token_id, position = read_string(buffer, position)
            if version >= 2:
                hmac, position = read_compact_bytes(buffer, position)
            else:
                hmac, position = read_bytes(buffer, position)
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(error_code, principal_type, principal_name, token_requester_principal_type, token_requester_principal_name, issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms, token_id, hmac, throttle_time_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreateDelegationTokenResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateDelegationTokenResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_string(self.principal_type)
        else:
            out.write_string(self.principal_type)
        if version >= 2:
            out.write_compact_string(self.principal_name)
        else:
            out.write_string(self.principal_name)
        if version == 3:
            out.write_compact_string(self.token_requester_principal_type)
        if version == 3:
            out.write_compact_string(self.token_requester_principal_name)
        append(_write_i8_i8_i8(self.issue_timestamp_ms, self.expiry_timestamp_ms, self.max_timestamp_ms))
        if version >= 2:
            out.write_compact_string(self.token_id)
        else:
            out.write_string(self.token_id)
        if version >= 2:
            out.write_compact_bytes(self.hmac)
        else:
            out.write_bytes(self.hmac)
        append(_write_i4(self.throttle_time_ms))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
