"""DescribeDelegationTokenRequest and DescribeDelegationTokenResponse. Generated from DescribeDelegationTokenRequest.json and DescribeDelegationTokenResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_compact_string,
    read_nullable_array_length,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i8_i8_i8 = struct.Struct(">qqq").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i8_i8_i8 = struct.Struct(">qqq").pack


class DescribeDelegationTokenOwner(Struct, gc=False):
    """Owners whose tokens are wanted; null for all."""

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
            raise unsupported_field("DescribeDelegationTokenRequest", "unknown_tagged_fields", version)
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


class DescribeDelegationTokenRequest(Struct, gc=False):
    """Asks to list delegation tokens."""

    API_KEY: ClassVar[int] = 41
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)  # Owners whose tokens are wanted; null for all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            owners: list[DescribeDelegationTokenOwner] | None
            if version >= 2:
                count, position = read_compact_nullable_array_length(buffer, position)
            else:
                count, position = read_nullable_array_length(buffer, position)
            if count < 0:
                owners = None
            else:
                owners = []
                for _ in range(count):
                    owners_element, position = DescribeDelegationTokenOwner.read(buffer, position, version)
                    owners.append(owners_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(owners, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeDelegationTokenRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeDelegationTokenRequest", "unknown_tagged_fields", version)
        append = out.append
        if self.owners is None:
            if version >= 2:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version >= 2:
                out.write_compact_array_length(len(self.owners))
            else:
                out.write_array_length(len(self.owners))
            for owners_element in self.owners:
                owners_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribedDelegationTokenRenewer(Struct, gc=False):
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
            raise unsupported_field("DescribeDelegationTokenResponse", "unknown_tagged_fields", version)
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


class DescribedDelegationToken(Struct, gc=False):
    """Delegation tokens."""

    principal_type: str = ""  # Type of the principal.
    principal_name: str = ""  # Name of the principal.
    token_requester_principal_type: str = ""  # Type of who asked for the token. [3+]
    token_requester_principal_name: str = ""  # Name of who asked for the token. [3+]
    issue_timestamp: int = 0  # When the token was made, in ms since 1970.
    expiry_timestamp: int = 0  # When the token expires unless renewed, in ms since 1970.
    max_timestamp: int = 0  # Time after which the token cannot be renewed, in ms since 1970.
    token_id: str = ""  # Id of the delegation token.
    hmac: bytes = b""  # Secret of the delegation token.
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)  # Principals that may renew the token.
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
        issue_timestamp, expiry_timestamp, max_timestamp = _read_i8_i8_i8(buffer, position)
        position += 24
        if version >= 2:
            token_id, position = read_compact_string(buffer, position)
        else:
            token_id, position = read_string(buffer, position)
        if version >= 2:
            hmac, position = read_compact_bytes(buffer, position)
        else:
            hmac, position = read_bytes(buffer, position)
        renewers: list[DescribedDelegationTokenRenewer]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        renewers = []
        for _ in range(count):
            renewers_element, position = DescribedDelegationTokenRenewer.read(buffer, position, version)
            renewers.append(renewers_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(principal_type, principal_name, token_requester_principal_type, token_requester_principal_name, issue_timestamp, expiry_timestamp, max_timestamp, token_id, hmac, renewers, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeDelegationTokenResponse", "unknown_tagged_fields", version)
        append = out.append
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
        append(_write_i8_i8_i8(self.issue_timestamp, self.expiry_timestamp, self.max_timestamp))
        if version >= 2:
            out.write_compact_string(self.token_id)
        else:
            out.write_string(self.token_id)
        if version >= 2:
            out.write_compact_bytes(self.hmac)
        else:
            out.write_bytes(self.hmac)
        if version >= 2:
            out.write_compact_array_length(len(self.renewers))
        else:
            out.write_array_length(len(self.renewers))
        for renewers_element in self.renewers:
            renewers_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeDelegationTokenResponse(Struct, gc=False):
    """Answers a request to list delegation tokens."""

    API_KEY: ClassVar[int] = 41
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    error_code: int = 0  # Result as a code, 0 on success.
    tokens: list[DescribedDelegationToken] = field(default_factory=list)  # Delegation tokens.
    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            tokens: list[DescribedDelegationToken]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            tokens = []
            for _ in range(count):
                tokens_element, position = DescribedDelegationToken.read(buffer, position, version)
                tokens.append(tokens_element)
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(error_code, tokens, throttle_time_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeDelegationTokenResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeDelegationTokenResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_array_length(len(self.tokens))
        else:
            out.write_array_length(len(self.tokens))
        for tokens_element in self.tokens:
            tokens_element.write(out, version)
        append(_write_i4(self.throttle_time_ms))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
