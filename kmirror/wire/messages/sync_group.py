"""SyncGroupRequest and SyncGroupResponse. Generated from SyncGroupRequest.json and SyncGroupResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class SyncGroupRequestAssignment(Struct, gc=False):
    """Assignments of the members."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    assignment: bytes = b""  # What the member is to work on.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            member_id, position = read_compact_string(buffer, position)
        else:
            member_id, position = read_string(buffer, position)
        if version >= 4:
            assignment, position = read_compact_bytes(buffer, position)
        else:
            assignment, position = read_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, assignment, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("SyncGroupRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 4:
            out.write_compact_bytes(self.assignment)
        else:
            out.write_bytes(self.assignment)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class SyncGroupRequest(Struct, gc=False):
    """Asks to hand in or collect assignments of a classic group."""

    API_KEY: ClassVar[int] = 14
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group_id: str = ""  # Name of the group.
    generation_id: int = 0  # Generation of the group; goes up with every rebalance.
    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [3+]
    protocol_type: str | None = None  # Kind of the group, for example consumer. [5+]
    protocol_name: str | None = None  # Assignment strategy that was chosen. [5+]
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)  # Assignments of the members.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 4:
                group_id, position = read_compact_string(buffer, position)
            else:
                group_id, position = read_string(buffer, position)
            (generation_id,) = _read_i4(buffer, position)
            position += 4
            if version >= 4:
                member_id, position = read_compact_string(buffer, position)
            else:
                member_id, position = read_string(buffer, position)
            group_instance_id: str | None
            if version >= 3:
                if version >= 4:
                    group_instance_id, position = read_compact_nullable_string(buffer, position)
                else:
                    group_instance_id, position = read_nullable_string(buffer, position)
            else:
                group_instance_id = None
            protocol_type: str | None
            if version == 5:
                protocol_type, position = read_compact_nullable_string(buffer, position)
            else:
                protocol_type = None
            protocol_name: str | None
            if version == 5:
                protocol_name, position = read_compact_nullable_string(buffer, position)
            else:
                protocol_name = None
            assignments: list[SyncGroupRequestAssignment]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            assignments = []
            for _ in range(count):
                assignments_element, position = SyncGroupRequestAssignment.read(buffer, position, version)
                assignments.append(assignments_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name, assignments, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("SyncGroupRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.group_instance_id is not None:
                raise unsupported_field("SyncGroupRequest", "group_instance_id", version)
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("SyncGroupRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        append(_write_i4(self.generation_id))
        if version >= 4:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 3:
            if version >= 4:
                out.write_compact_nullable_string(self.group_instance_id)
            else:
                out.write_nullable_string(self.group_instance_id)
        if version == 5:
            out.write_compact_nullable_string(self.protocol_type)
        if version == 5:
            out.write_compact_nullable_string(self.protocol_name)
        if version >= 4:
            out.write_compact_array_length(len(self.assignments))
        else:
            out.write_array_length(len(self.assignments))
        for assignments_element in self.assignments:
            assignments_element.write(out, version)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class SyncGroupResponse(Struct, gc=False):
    """Answers a request to hand in or collect assignments of a classic group."""

    API_KEY: ClassVar[int] = 14
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    error_code: int = 0  # Result as a code, 0 on success.
    protocol_type: str | None = None  # Kind of the group, for example consumer. [5+]
    protocol_name: str | None = None  # Assignment strategy that was chosen. [5+]
    assignment: bytes = b""  # What the member is to work on.
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
            protocol_type: str | None
            if version == 5:
                protocol_type, position = read_compact_nullable_string(buffer, position)
            else:
                protocol_type = None
            protocol_name: str | None
            if version == 5:
                protocol_name, position = read_compact_nullable_string(buffer, position)
            else:
                protocol_name = None
            if version >= 4:
                assignment, position = read_compact_bytes(buffer, position)
            else:
                assignment, position = read_bytes(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, protocol_type, protocol_name, assignment, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("SyncGroupResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("SyncGroupResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if version == 5:
            out.write_compact_nullable_string(self.protocol_type)
        if version == 5:
            out.write_compact_nullable_string(self.protocol_name)
        if version >= 4:
            out.write_compact_bytes(self.assignment)
        else:
            out.write_bytes(self.assignment)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
