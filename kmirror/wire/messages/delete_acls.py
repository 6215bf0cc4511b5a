"""DeleteAclsRequest and DeleteAclsResponse. Generated from DeleteAclsRequest.json and DeleteAclsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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


class DeleteAclsFilter(Struct, gc=False):
    """What to match; an entity must match all of them."""

    resource_type_filter: int = 0  # Kind of resource that the rule must be for; 1 for any.
    resource_name_filter: str | None = ""  # Name that the rule must be for; null for any.
    pattern_type_filter: int = 3  # How the rule's name must be compared: 1 any, 2 whatever matches, 3 literally, 4 as a prefix.
    principal_filter: str | None = ""  # Who the rule must be for; null for anyone.
    host_filter: str | None = ""  # Host that the rule must be for; null for any.
    operation: int = 0  # What is allowed or denied, as a number.
    permission_type: int = 0  # 2 denies, 3 allows; in filters 1 means any.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (resource_type_filter,) = _read_i1(buffer, position)
        position += 1
        resource_name_filter: str | None
        if version >= 2:
            resource_name_filter, position = read_compact_nullable_string(buffer, position)
        else:
            resource_name_filter, position = read_nullable_string(buffer, position)
        (pattern_type_filter,) = _read_i1(buffer, position)
        position += 1
        principal_filter: str | None
        if version >= 2:
            principal_filter, position = read_compact_nullable_string(buffer, position)
        else:
            principal_filter, position = read_nullable_string(buffer, position)
        host_filter: str | None
        if version >= 2:
            host_filter, position = read_compact_nullable_string(buffer, position)
        else:
            host_filter, position = read_nullable_string(buffer, position)
        operation, permission_type = _read_i1_i1(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation, permission_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteAclsRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i1(self.resource_type_filter))
        if version >= 2:
            out.write_compact_nullable_string(self.resource_name_filter)
        else:
            out.write_nullable_string(self.resource_name_filter)
        append(_write_i1(self.pattern_type_filter))
        if version >= 2:
            out.write_compact_nullable_string(self.principal_filter)
        else:
            out.write_nullable_string(self.principal_filter)
        if version >= 2:
            out.write_compact_nullable_string(self.host_filter)
        else:
            out.write_nullable_string(self.host_filter)
        append(_write_i1_i1(self.operation, self.permission_type))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteAclsRequest(Struct, gc=False):
    """Asks to delete access rules."""

    API_KEY: ClassVar[int] = 31
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    filters: list[DeleteAclsFilter] = field(default_factory=list)  # What to match; an entity must match all of them.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            filters: list[DeleteAclsFilter]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            filters = []
            for _ in range(count):
                filters_element, position = DeleteAclsFilter.read(buffer, position, version)
                filters.append(filters_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(filters, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteAclsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteAclsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_array_length(len(self.filters))
        else:
            out.write_array_length(len(self.filters))
        for filters_element in self.filters:
            filters_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteAclsMatchingAcl(Struct, gc=False):
    """Rules that matched the filter."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    pattern_type: int = 3  # How the name is compared: 3 literally, 4 as a prefix.
    principal: str = ""  # Who the rule is for.
    host: str = ""  # Name or address of the host.
    operation: int = 0  # What is allowed or denied, as a number.
    permission_type: int = 0  # 2 denies, 3 allows; in filters 1 means any.
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
        (resource_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 2:
            resource_name, position = read_compact_string(buffer, position)
        else:
            resource_name, position = read_string(buffer, position)
        (pattern_type,) = _read_i1(buffer, position)
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
        return cls(error_code, error_message, resource_type, resource_name, pattern_type, principal, host, operation, permission_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteAclsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        append(_write_i1(self.resource_type))
        if version >= 2:
            out.write_compact_string(self.resource_name)
        else:
            out.write_string(self.resource_name)
        append(_write_i1(self.pattern_type))
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


class DeleteAclsFilterResult(Struct, gc=False):
    """What each filter matched."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)  # Rules that matched the filter.
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
        matching_acls: list[DeleteAclsMatchingAcl]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        matching_acls = []
        for _ in range(count):
            matching_acls_element, position = DeleteAclsMatchingAcl.read(buffer, position, version)
            matching_acls.append(matching_acls_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, matching_acls, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteAclsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version >= 2:
            out.write_compact_array_length(len(self.matching_acls))
        else:
            out.write_array_length(len(self.matching_acls))
        for matching_acls_element in self.matching_acls:
            matching_acls_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteAclsResponse(Struct, gc=False):
    """Answers a request to delete access rules."""

    API_KEY: ClassVar[int] = 31
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)  # What each filter matched.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            filter_results: list[DeleteAclsFilterResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            filter_results = []
            for _ in range(count):
                filter_results_element, position = DeleteAclsFilterResult.read(buffer, position, version)
                filter_results.append(filter_results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, filter_results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteAclsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteAclsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 2:
            out.write_compact_array_length(len(self.filter_results))
        else:
            out.write_array_length(len(self.filter_results))
        for filter_results_element in self.filter_results:
            filter_results_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
