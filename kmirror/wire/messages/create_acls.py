"""CreateAclsRequest and CreateAclsResponse. Generated from CreateAclsRequest.json and CreateAclsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i1_i1 = struct.Struct(">bb").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i1_i1 = struct.Struct(">bb").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class AclCreation(Struct, gc=False):
    """Access rules to create."""

    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    resource_pattern_type: int = 3  # How the resource name is compared: 3 literally, 4 as a prefix.
    principal: str = ""  # Who the rule is for.
    host: str = ""  # Name or address of the host.
    operation: int = 0  # What is allowed or denied, as a number.
    permission_type: int = 0  # 2 denies, 3 allows; in filters 1 means any.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (resource_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 2:
            resource_name, position = read_compact_string(buffer, position)
        else:
            resource_name, position = read_string(buffer, position)
        (resource_pattern_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 2:
            principal, position = read_compact_string(buffer, position)
        else:
            principal, position = read_string(buffer, position)
        if version >= 2:
            host, position = read_compact_string(buffer, position)
        else:
            host, position = read_string(buffer, position)
        operation, permission_type = _read_i1_i1(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(resource_type, resource_name, resource_pattern_type, principal, host, operation, permission_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateAclsRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i1(self.resource_type))
        if version >= 2:
            out.write_compact_string(self.resource_name)
        else:
            out.write_string(self.resource_name)
        append(_write_i1(self.resource_pattern_type))
        if version >= 2:
            out.write_compact_string(self.principal)
        else:
            out.write_string(self.principal)
        if version >= 2:
            out.write_compact_string(self.host)
        else:
            out.write_string(self.host)
        append(_write_i1_i1(self.operation, self.permission_type))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreateAclsRequest(Struct, gc=False):
    """Asks to create access rules."""

    API_KEY: ClassVar[int] = 30
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    creations: list[AclCreation] = field(default_factory=list)  # Access rules to create.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            creations: list[AclCreation]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            creations = []
            for _ in range(count):
                creations_element, position = AclCreation.read(buffer, position, version)
                creations.append(creations_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(creations, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreateAclsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateAclsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_array_length(len(self.creations))
        else:
            out.write_array_length(len(self.creations))
        for creations_element in self.creations:
            creations_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AclCreationResult(Struct, gc=False):
    """One result for each thing asked."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        if version >= 2:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateAclsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreateAclsResponse(Struct, gc=False):
    """Answers a request to create access rules."""

    API_KEY: ClassVar[int] = 30
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    results: list[AclCreationResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            results: list[AclCreationResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = AclCreationResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreateAclsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreateAclsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 2:
            out.write_compact_array_length(len(self.results))
        else:
            out.write_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
