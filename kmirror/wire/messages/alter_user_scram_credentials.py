"""AlterUserScramCredentialsRequest and AlterUserScramCredentialsResponse. Generated from AlterUserScramCredentialsRequest.json and AlterUserScramCredentialsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i1_i4 = struct.Struct(">bi").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i1_i4 = struct.Struct(">bi").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class ScramCredentialDeletion(Struct, gc=False):
    """What to delete."""

    name: str = ""  # Name of the user.
    mechanism: int = 0  # Name or number of the mechanism.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        (mechanism,) = _read_i1(buffer, position)
        position += 1
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, mechanism, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i1(self.mechanism))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ScramCredentialUpsertion(Struct, gc=False):
    """Credentials to create or replace."""

    name: str = ""  # Name of the user.
    mechanism: int = 0  # Name or number of the mechanism.
    iterations: int = 0  # How often the hash is applied.
    salt: bytes = b""  # Salt of the credential.
    salted_password: bytes = b""  # Password after salting and hashing.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        mechanism, iterations = _read_i1_i4(buffer, position)
        position += 5
        salt, position = read_compact_bytes(buffer, position)
        salted_password, position = read_compact_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, mechanism, iterations, salt, salted_password, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i1_i4(self.mechanism, self.iterations))
        out.write_compact_bytes(self.salt)
        out.write_compact_bytes(self.salted_password)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterUserScramCredentialsRequest(Struct, gc=False):
    """Asks to change SCRAM credentials."""

    API_KEY: ClassVar[int] = 51
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)  # What to delete.
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)  # Credentials to create or replace.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            deletions: list[ScramCredentialDeletion]
            count, position = read_compact_array_length(buffer, position)
            deletions = []
            for _ in range(count):
                deletions_element, position = ScramCredentialDeletion.read(buffer, position, version)
                deletions.append(deletions_element)
            upsertions: list[ScramCredentialUpsertion]
            count, position = read_compact_array_length(buffer, position)
            upsertions = []
            for _ in range(count):
                upsertions_element, position = ScramCredentialUpsertion.read(buffer, position, version)
                upsertions.append(upsertions_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(deletions, upsertions, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterUserScramCredentialsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.deletions))
        for deletions_element in self.deletions:
            deletions_element.write(out, version)
        out.write_compact_array_length(len(self.upsertions))
        for upsertions_element in self.upsertions:
            upsertions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterUserScramCredentialsResult(Struct, gc=False):
    """One result for each thing asked."""

    user: str = ""  # Name of the user.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        user, position = read_compact_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(user, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.user)
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterUserScramCredentialsResponse(Struct, gc=False):
    """Answers a request to change SCRAM credentials."""

    API_KEY: ClassVar[int] = 51
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            results: list[AlterUserScramCredentialsResult]
            count, position = read_compact_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = AlterUserScramCredentialsResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterUserScramCredentialsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        out.write_compact_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
