"""DescribeGroupsRequest and DescribeGroupsResponse. Generated from DescribeGroupsRequest.json and DescribeGroupsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_strings,
    read_nullable_string,
    read_string,
    read_strings,
    read_tagged_fields,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class DescribeGroupsRequest(Struct, gc=False):
    """Asks to describe classic groups."""

    API_KEY: ClassVar[int] = 15
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    groups: list[str] = field(default_factory=list)  # Groups concerned.
    include_authorized_operations: bool = False  # True if the answer is to say what the caller may do. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            groups: list[str]
            if version >= 5:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            groups, position = (read_compact_strings if version >= 5 else read_strings)(buffer, position, count)
            if version >= 3:
                (include_authorized_operations,) = _read_bool(buffer, position)
                position += 1
            else:
                include_authorized_operations = False
            unknown_tagged_fields: TaggedFields = ()
            if version >= 5:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(groups, include_authorized_operations, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeGroupsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.include_authorized_operations:
                raise unsupported_field("DescribeGroupsRequest", "include_authorized_operations", version)
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("DescribeGroupsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            out.write_compact_array_length(len(self.groups))
        else:
            out.write_array_length(len(self.groups))
        if version >= 5:
            out.write_compact_strings(self.groups)
        else:
            out.write_strings(self.groups)
        if version >= 3:
            append(_write_bool(self.include_authorized_operations))
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribedGroupMember(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [4+]
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    member_metadata: bytes = b""  # What the member said about itself, in the form of the group's protocol.
    member_assignment: bytes = b""  # Assignment in the form of the group's protocol.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            member_id, position = read_compact_string(buffer, position)
        else:
            member_id, position = read_string(buffer, position)
        group_instance_id: str | None
        if version >= 4:
            if version >= 5:
                group_instance_id, position = read_compact_nullable_string(buffer, position)
            else:
                group_instance_id, position = read_nullable_string(buffer, position)
        else:
            group_instance_id = None
        if version >= 5:
            client_id, position = read_compact_string(buffer, position)
        else:
            client_id, position = read_string(buffer, position)
        if version >= 5:
            client_host, position = read_compact_string(buffer, position)
        else:
            client_host, position = read_string(buffer, position)
        if version >= 5:
            member_metadata, position = read_compact_bytes(buffer, position)
        else:
            member_metadata, position = read_bytes(buffer, position)
        if version >= 5:
            member_assignment, position = read_compact_bytes(buffer, position)
        else:
            member_assignment, position = read_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 5:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, group_instance_id, client_id, client_host, member_metadata, member_assignment, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("DescribeGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 4:
            if version >= 5:
                out.write_compact_nullable_string(self.group_instance_id)
            else:
                out.write_nullable_string(self.group_instance_id)
        if version >= 5:
            out.write_compact_string(self.client_id)
        else:
            out.write_string(self.client_id)
        if version >= 5:
            out.write_compact_string(self.client_host)
        else:
            out.write_string(self.client_host)
        if version >= 5:
            out.write_compact_bytes(self.member_metadata)
        else:
            out.write_bytes(self.member_metadata)
        if version >= 5:
            out.write_compact_bytes(self.member_assignment)
        else:
            out.write_bytes(self.member_assignment)
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribedGroup(Struct, gc=False):
    """Groups concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success. [6+]
    group_id: str = ""  # Name of the group.
    group_state: str = ""  # State of the group.
    protocol_type: str = ""  # Kind of the group, for example consumer.
    protocol_data: str = ""  # Protocol of the group, in its own form.
    members: list[DescribedGroupMember] = field(default_factory=list)  # Members concerned.
    authorized_operations: int = -2147483648  # Bit set of what the caller may do here; the lowest int32 if not asked for. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        if version == 6:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message = None
        if version >= 5:
            group_id, position = read_compact_string(buffer, position)
        else:
            group_id, position = read_string(buffer, position)
        if version >= 5:
            group_state, position = read_compact_string(buffer, position)
        else:
            group_state, position = read_string(buffer, position)
        if version >= 5:
            protocol_type, position = read_compact_string(buffer, position)
        else:
            protocol_type, position = read_string(buffer, position)
        if version >= 5:
            protocol_data, position = read_compact_string(buffer, position)
        else:
            protocol_data, position = read_string(buffer, position)
        members: list[DescribedGroupMember]
        if version >= 5:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        members = []
        for _ in range(count):
            members_element, position = DescribedGroupMember.read(buffer, position, version)
            members.append(members_element)
        if version >= 3:
            (authorized_operations,) = _read_i4(buffer, position)
            position += 4
        else:
            authorized_operations = -2147483648
        unknown_tagged_fields: TaggedFields = ()
        if version >= 5:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, group_id, group_state, protocol_type, protocol_data, members, authorized_operations, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("DescribeGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version == 6:
            out.write_compact_nullable_string(self.error_message)
        if version >= 5:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        if version >= 5:
            out.write_compact_string(self.group_state)
        else:
            out.write_string(self.group_state)
        if version >= 5:
            out.write_compact_string(self.protocol_type)
        else:
            out.write_string(self.protocol_type)
        if version >= 5:
            out.write_compact_string(self.protocol_data)
        else:
            out.write_string(self.protocol_data)
        if version >= 5:
            out.write_compact_array_length(len(self.members))
        else:
            out.write_array_length(len(self.members))
        for members_element in self.members:
            members_element.write(out, version)
        if version >= 3:
            append(_write_i4(self.authorized_operations))
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeGroupsResponse(Struct, gc=False):
    """Answers a request to describe classic groups."""

    API_KEY: ClassVar[int] = 15
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    groups: list[DescribedGroup] = field(default_factory=list)  # Groups concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 1:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                throttle_time_ms = 0
            groups: list[DescribedGroup]
            if version >= 5:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            groups = []
            for _ in range(count):
                groups_element, position = DescribedGroup.read(buffer, position, version)
                groups.append(groups_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 5:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, groups, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeGroupsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("DescribeGroupsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i4(self.throttle_time_ms))
        if version >= 5:
            out.write_compact_array_length(len(self.groups))
        else:
            out.write_array_length(len(self.groups))
        for groups_element in self.groups:
            groups_element.write(out, version)
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
