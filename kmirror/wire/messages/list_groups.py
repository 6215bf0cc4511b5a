"""ListGroupsRequest and ListGroupsResponse. Generated from ListGroupsRequest.json and ListGroupsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4_i2 = struct.Struct(">ih").pack


class ListGroupsRequest(Struct, gc=False):
    """Asks to list groups."""

    API_KEY: ClassVar[int] = 16
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    states_filter: list[str] = field(default_factory=list)  # Only groups in these states; empty for all. [4+]
    types_filter: list[str] = field(default_factory=list)  # Only groups of these kinds; empty for all. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            states_filter: list[str]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
                states_filter, position = read_compact_strings(buffer, position, count)
            else:
                states_filter = []
            types_filter: list[str]
            if version == 5:
                count, position = read_compact_array_length(buffer, position)
                types_filter, position = read_compact_strings(buffer, position, count)
            else:
                types_filter = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(states_filter, types_filter, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListGroupsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 4:
            if self.states_filter:
                raise unsupported_field("ListGroupsRequest", "states_filter", version)
        if version < 5:
            if self.types_filter:
                raise unsupported_field("ListGroupsRequest", "types_filter", version)
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("ListGroupsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_array_length(len(self.states_filter))
            out.write_compact_strings(self.states_filter)
        if version == 5:
            out.write_compact_array_length(len(self.types_filter))
            out.write_compact_strings(self.types_filter)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListedGroup(Struct, gc=False):
    """Groups concerned."""

    group_id: str = ""  # Name of the group.
    protocol_type: str = ""  # Kind of the group, for example consumer.
    group_state: str = ""  # State of the group. [4+]
    group_type: str = ""  # Kind of the group. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 3:
            group_id, position = read_compact_string(buffer, position)
        else:
            group_id, position = read_string(buffer, position)
        if version >= 3:
            protocol_type, position = read_compact_string(buffer, position)
        else:
            protocol_type, position = read_string(buffer, position)
        group_state: str
        if version >= 4:
            group_state, position = read_compact_string(buffer, position)
        else:
            group_state = ""
        group_type: str
        if version == 5:
            group_type, position = read_compact_string(buffer, position)
        else:
            group_type = ""
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(group_id, protocol_type, group_state, group_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("ListGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        if version >= 3:
            out.write_compact_string(self.protocol_type)
        else:
            out.write_string(self.protocol_type)
        if version >= 4:
            out.write_compact_string(self.group_state)
        if version == 5:
            out.write_compact_string(self.group_type)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListGroupsResponse(Struct, gc=False):
    """Answers a request to list groups."""

    API_KEY: ClassVar[int] = 16
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    error_code: int = 0  # Result as a code, 0 on success.
    groups: list[ListedGroup] = field(default_factory=list)  # Groups concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 1:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
            else:
                (error_code,) = _read_i2(buffer, position)
                position += 2
                throttle_time_ms = 0
            groups: list[ListedGroup]
            if version >= 3:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            groups = []
            for _ in range(count):
                groups_element, position = ListedGroup.read(buffer, position, version)
                groups.append(groups_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, groups, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListGroupsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("ListGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if version >= 3:
            out.write_compact_array_length(len(self.groups))
        else:
            out.write_array_length(len(self.groups))
        for groups_element in self.groups:
            groups_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
