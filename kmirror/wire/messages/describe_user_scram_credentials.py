"""DescribeUserScramCredentialsRequest and DescribeUserScramCredentialsResponse. Generated from DescribeUserScramCredentialsRequest.json and DescribeUserScramCredentialsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i1_i4 = struct.Struct(">bi").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i1_i4 = struct.Struct(">bi").pack
_write_i2 = struct.Struct(">h").pack
_write_i4_i2 = struct.Struct(">ih").pack


class UserName(Struct, gc=False):
    """Users concerned; null or empty for all."""

    name: str = ""  # Name of the user.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeUserScramCredentialsRequest(Struct, gc=False):
    """Asks to list SCRAM credentials."""

    API_KEY: ClassVar[int] = 50
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    users: list[UserName] | None = field(default_factory=list)  # Users concerned; null or empty for all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            users: list[UserName] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                users = None
            else:
                users = []
                for _ in range(count):
                    users_element, position = UserName.read(buffer, position, version)
                    users.append(users_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(users, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeUserScramCredentialsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if self.users is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.users))
            for users_element in self.users:
                users_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class CredentialInfo(Struct, gc=False):
    """Kinds of credentials that the user has."""

    mechanism: int = 0  # Name or number of the mechanism.
    iterations: int = 0  # How often the hash is applied.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        mechanism, iterations = _read_i1_i4(buffer, position)
        position += 5
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(mechanism, iterations, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i1_i4(self.mechanism, self.iterations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeUserScramCredentialsResult(Struct, gc=False):
    """One result for each thing asked."""

    user: str = ""  # Name of the user.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    credential_infos: list[CredentialInfo] = field(default_factory=list)  # Kinds of credentials that the user has.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        user, position = read_compact_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        credential_infos: list[CredentialInfo]
        count, position = read_compact_array_length(buffer, position)
        credential_infos = []
        for _ in range(count):
            credential_infos_element, position = CredentialInfo.read(buffer, position, version)
            credential_infos.append(credential_infos_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(user, error_code, error_message, credential_infos, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.user)
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.credential_infos))
        for credential_infos_element in self.credential_infos:
            credential_infos_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeUserScramCredentialsResponse(Struct, gc=False):
    """Answers a request to list SCRAM credentials."""

    API_KEY: ClassVar[int] = 50
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            results: list[DescribeUserScramCredentialsResult]
            count, position = read_compact_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = DescribeUserScramCredentialsResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeUserScramCredentialsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
