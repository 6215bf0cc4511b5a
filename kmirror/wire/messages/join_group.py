"""JoinGroupRequest and JoinGroupResponse. Generated from JoinGroupRequest.json and JoinGroupResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    not_null,
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

_read_bool = struct.Struct(">?").unpack_from
_read_i2_i4 = struct.Struct(">hi").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i4 = struct.Struct(">ihi").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2_i4 = struct.Struct(">hi").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i4 = struct.Struct(">ihi").pack
_write_i4_i4 = struct.Struct(">ii").pack


class JoinGroupRequestProtocol(Struct, gc=False):
    """Assignment strategies that the member supports, best first."""

    name: str = ""  # Name of the assignment strategy.
    metadata: bytes = b""  # What the member says about itself, in the form of the strategy.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        if version >= 6:
            metadata, position = read_compact_bytes(buffer, position)
        else:
            metadata, position = read_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, metadata, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("JoinGroupRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 6:
            out.write_compact_bytes(self.metadata)
        else:
            out.write_bytes(self.metadata)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class JoinGroupRequest(Struct, gc=False):
    """Asks to join a classic group."""

    API_KEY: ClassVar[int] = 11
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    group_id: str = ""  # Name of the group.
    session_timeout_ms: int = 0  # How long a member may be silent before it is removed.
    rebalance_timeout_ms: int = -1  # How long members have to give up partitions in a rebalance. [1+]
    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [5+]
    protocol_type: str = ""  # Kind of the group, for example consumer.
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)  # Assignment strategies that the member supports, best first.
    reason: str | None = None  # Why, in words. [8+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 6:
                group_id, position = read_compact_string(buffer, position)
            else:
                group_id, position = read_string(buffer, position)
            if version >= 1:
                session_timeout_ms, rebalance_timeout_ms = _read_i4_i4(buffer, position)
                position += 8
            else:
                (session_timeout_ms,) = _read_i4(buffer, position)
                position += 4
                rebalance_timeout_ms = -1
            if version >= 6:
                member_id, position = read_compact_string(buffer, position)
            else:
                member_id, position = read_string(buffer, position)
            group_instance_id: str | None
            if version >= 5:
                if version >= 6:
                    group_instance_id, position = read_compact_nullable_string(buffer, position)
                else:
                    group_instance_id, position = read_nullable_string(buffer, position)
            else:
                group_instance_id = None
            if version >= 6:
                protocol_type, position = read_compact_string(buffer, position)
            else:
                protocol_type, position = read_string(buffer, position)
            protocols: list[JoinGroupRequestProtocol]
            if version >= 6:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            protocols = []
            for _ in range(count):
                protocols_element, position = JoinGroupRequestProtocol.read(buffer, position, version)
                protocols.append(protocols_element)
            reason: str | None
            if version >= 8:
                reason, position = read_compact_nullable_string(buffer, position)
            else:
                reason = None
            unknown_tagged_fields: TaggedFields = ()
            if version >= 6:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type, protocols, reason, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("JoinGroupRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 5:
            if self.group_instance_id is not None:
                raise unsupported_field("JoinGroupRequest", "group_instance_id", version)
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("JoinGroupRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        if version >= 1:
            append(_write_i4_i4(self.session_timeout_ms, self.rebalance_timeout_ms))
        else:
            append(_write_i4(self.session_timeout_ms))
        if version >= 6:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 5:
            if version >= 6:
                out.write_compact_nullable_string(self.group_instance_id)
            else:
                out.write_nullable_string(self.group_instance_id)
        if version >= 6:
            out.write_compact_string(self.protocol_type)
        else:
            out.write_string(self.protocol_type)
        if version >= 6:
            out.write_compact_array_length(len(self.protocols))
        else:
            out.write_array_length(len(self.protocols))
        for protocols_element in self.protocols:
            protocols_element.write(out, version)
        if version >= 8:
            out.write_compact_nullable_string(self.reason)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class JoinGroupResponseMember(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [5+]
    metadata: bytes = b""  # What the member said about itself, in the form of the group's protocol.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            member_id, position = read_compact_string(buffer, position)
        else:
            member_id, position = read_string(buffer, position)
        group_instance_id: str | None
        if version >= 5:
            if version >= 6:
                group_instance_id, position = read_compact_nullable_string(buffer, position)
            else:
                group_instance_id, position = read_nullable_string(buffer, position)
        else:
            group_instance_id = None
        if version >= 6:
            metadata, position = read_compact_bytes(buffer, position)
        else:
            metadata, position = read_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, group_instance_id, metadata, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("JoinGroupResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 5:
            if version >= 6:
                out.write_compact_nullable_string(self.group_instance_id)
            else:
                out.write_nullable_string(self.group_instance_id)
        if version >= 6:
            out.write_compact_bytes(self.metadata)
        else:
            out.write_bytes(self.metadata)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class JoinGroupResponse(Struct, gc=False):
    """Answers a request to join a classic group."""

    API_KEY: ClassVar[int] = 11
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 9
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [2+]
    error_code: int = 0  # Result as a code, 0 on success.
    generation_id: int = -1  # Generation of the group; goes up with every rebalance.
    protocol_type: str | None = None  # Kind of the group, for example consumer. [7+]
    protocol_name: str | None = ""  # Assignment strategy that was chosen.
    leader: str = ""  # Number of the leading broker, -1 for none.
    skip_assignment: bool = False  # True if the leader keeps the present assignment. [9+]
    member_id: str = ""  # Id of the member; empty when it has none yet.
    members: list[JoinGroupResponseMember] = field(default_factory=list)  # Members concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                throttle_time_ms, error_code, generation_id = _read_i4_i2_i4(buffer, position)
                position += 10
            else:
                error_code, generation_id = _read_i2_i4(buffer, position)
                position += 6
                throttle_time_ms = 0
            protocol_type: str | None
            if version >= 7:
                protocol_type, position = read_compact_nullable_string(buffer, position)
            else:
                protocol_type = None
            protocol_name: str | None
            if version >= 7:
                protocol_name, position = read_compact_nullable_string(buffer, position)
            elif version >= 6:
                protocol_name, position = read_compact_string(buffer, position)
            else:
                protocol_name, position = read_string(buffer, position)
            if version >= 6:
                leader, position = read_compact_string(buffer, position)
            else:
                leader, position = read_string(buffer, position)
            if version >= 9:
                (skip_assignment,) = _read_bool(buffer, position)
                position += 1
            else:
                skip_assignment = False
            if version >= 6:
                member_id, position = read_compact_string(buffer, position)
            else:
                member_id, position = read_string(buffer, position)
            members: list[JoinGroupResponseMember]
            if version >= 6:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            members = []
            for _ in range(count):
                members_element, position = JoinGroupResponseMember.read(buffer, position, version)
                members.append(members_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 6:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("JoinGroupResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 9:
            if self.skip_assignment:
                raise unsupported_field("JoinGroupResponse", "skip_assignment", version)
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("JoinGroupResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            append(_write_i4_i2_i4(self.throttle_time_ms, self.error_code, self.generation_id))
        else:
            append(_write_i2_i4(self.error_code, self.generation_id))
        if version >= 7:
            out.write_compact_nullable_string(self.protocol_type)
        if version >= 7:
            out.write_compact_nullable_string(self.protocol_name)
        elif version >= 6:
            out.write_compact_string(not_null(self.protocol_name, "protocol_name"))
        else:
            out.write_string(not_null(self.protocol_name, "protocol_name"))
        if version >= 6:
            out.write_compact_string(self.leader)
        else:
            out.write_string(self.leader)
        if version >= 9:
            append(_write_bool(self.skip_assignment))
        if version >= 6:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 6:
            out.write_compact_array_length(len(self.members))
        else:
            out.write_array_length(len(self.members))
        for members_element in self.members:
            members_element.write(out, version)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
