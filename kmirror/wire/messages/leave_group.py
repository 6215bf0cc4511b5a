"""LeaveGroupRequest and LeaveGroupResponse. Generated from LeaveGroupRequest.json and LeaveGroupResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_i2 = struct.Struct(">h").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4_i2 = struct.Struct(">ih").pack


class MemberIdentity(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one.
    reason: str | None = None  # Why, in words. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            member_id, position = read_compact_string(buffer, position)
        else:
            member_id, position = read_string(buffer, position)
        group_instance_id: str | None
        if version >= 4:
            group_instance_id, position = read_compact_nullable_string(buffer, position)
        else:
            group_instance_id, position = read_nullable_string(buffer, position)
        reason: str | None
        if version == 5:
            reason, position = read_compact_nullable_string(buffer, position)
        else:
            reason = None
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, group_instance_id, reason, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("LeaveGroupRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 4:
            out.write_compact_nullable_string(self.group_instance_id)
        else:
            out.write_nullable_string(self.group_instance_id)
        if version == 5:
            out.write_compact_nullable_string(self.reason)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class LeaveGroupRequest(Struct, gc=False):
    """Asks to take members out of a classic group."""

    API_KEY: ClassVar[int] = 13
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group_id: str = ""  # Name of the group.
    member_id: str = ""  # Id of the member; empty when it has none yet. [0-2]
    members: list[MemberIdentity] = field(default_factory=list)  # Members concerned. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 4:
                group_id, position = read_compact_string(buffer, position)
            else:
                group_id, position = read_string(buffer, position)
            member_id: str
            if version <= 2:
                member_id, position = read_string(buffer, position)
            else:
                member_id = ""
            members: list[MemberIdentity]
            if version >= 3:
                if version >= 4:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                members = []
                for _ in range(count):
                    members_element, position = MemberIdentity.read(buffer, position, version)
                    members.append(members_element)
            else:
                members = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, member_id, members, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("LeaveGroupRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version > 2:
            if self.member_id:
                raise unsupported_field("LeaveGroupRequest", "member_id", version)
        if version < 3:
            if self.members:
                raise unsupported_field("LeaveGroupRequest", "members", version)
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("LeaveGroupRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        if version <= 2:
            out.write_string(self.member_id)
        if version >= 3:
            if version >= 4:
                out.write_compact_array_length(len(self.members))
            else:
                out.write_array_length(len(self.members))
            for members_element in self.members:
                members_element.write(out, version)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MemberResponse(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = ""  # Id of a static member; null for a dynamic one.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            member_id, position = read_compact_string(buffer, position)
        else:
            member_id, position = read_string(buffer, position)
        group_instance_id: str | None
        if version >= 4:
            group_instance_id, position = read_compact_nullable_string(buffer, position)
        else:
            group_instance_id, position = read_nullable_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, group_instance_id, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("LeaveGroupResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 4:
            out.write_compact_nullable_string(self.group_instance_id)
        else:
            out.write_nullable_string(self.group_instance_id)
        append(_write_i2(self.error_code))
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class LeaveGroupResponse(Struct, gc=False):
    """Answers a request to take members out of a classic group."""

    API_KEY: ClassVar[int] = 13
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    error_code: int = 0  # Result as a code, 0 on success.
    members: list[MemberResponse] = field(default_factory=list)  # Members concerned. [3+]
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
            members: list[MemberResponse]
            if version >= 3:
                if version >= 4:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                members = []
                for _ in range(count):
                    members_element, position = MemberResponse.read(buffer, position, version)
                    members.append(members_element)
            else:
                members = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, members, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("LeaveGroupResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.members:
                raise unsupported_field("LeaveGroupResponse", "members", version)
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("LeaveGroupResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if version >= 3:
            if version >= 4:
                out.write_compact_array_length(len(self.members))
            else:
                out.write_array_length(len(self.members))
            for members_element in self.members:
                members_element.write(out, version)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
