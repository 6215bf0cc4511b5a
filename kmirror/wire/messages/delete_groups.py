"""DeleteGroupsRequest and DeleteGroupsResponse. Generated from DeleteGroupsRequest.json and DeleteGroupsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_compact_strings,
    read_string,
    read_strings,
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class DeleteGroupsRequest(Struct, gc=False):
    """Asks to delete groups."""

    API_KEY: ClassVar[int] = 42
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    groups_names: list[str] = field(default_factory=list)  # Groups to delete.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            groups_names: list[str]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            groups_names, position = (read_compact_strings if version == 2 else read_strings)(buffer, position, count)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(groups_names, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteGroupsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteGroupsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 2:
            out.write_compact_array_length(len(self.groups_names))
        else:
            out.write_array_length(len(self.groups_names))
        if version == 2:
            out.write_compact_strings(self.groups_names)
        else:
            out.write_strings(self.groups_names)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeletableGroupResult(Struct, gc=False):
    """One result for each thing asked."""

    group_id: str = ""  # Name of the group.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            group_id, position = read_compact_string(buffer, position)
        else:
            group_id, position = read_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(group_id, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        append(_write_i2(self.error_code))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteGroupsResponse(Struct, gc=False):
    """Answers a request to delete groups."""

    API_KEY: ClassVar[int] = 42
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    results: list[DeletableGroupResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            results: list[DeletableGroupResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = DeletableGroupResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteGroupsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version == 2:
            out.write_compact_array_length(len(self.results))
        else:
            out.write_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
