"""GroupMetadataValue. Generated from GroupMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i8 = struct.Struct(">q").pack


class MemberMetadata(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [3+]
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    rebalance_timeout: int = -1  # How long members have to join a rebalance, in ms. [1+]
    session_timeout: int = 0  # How long the member may be silent, in ms.
    subscription: bytes = b""  # What the member subscribed to, in the form of the group's protocol.
    assignment: bytes = b""  # What the member is to work on.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
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
        if version >= 4:
            client_id, position = read_compact_string(buffer, position)
        else:
            client_id, position = read_string(buffer, position)
        if version >= 4:
            client_host, position = read_compact_string(buffer, position)
        else:
            client_host, position = read_string(buffer, position)
        if version >= 1:
            rebalance_timeout, session_timeout = _read_i4_i4(buffer, position)
            position += 8
        else:
            (session_timeout,) = _read_i4(buffer, position)
            position += 4
            rebalance_timeout = -1
        if version >= 4:
            subscription, position = read_compact_bytes(buffer, position)
        else:
            subscription, position = read_bytes(buffer, position)
        if version >= 4:
            assignment, position = read_compact_bytes(buffer, position)
        else:
            assignment, position = read_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version == 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, group_instance_id, client_id, client_host, rebalance_timeout, session_timeout, subscription, assignment, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("GroupMetadataValue", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 3:
            if version >= 4:
                out.write_compact_nullable_string(self.group_instance_id)
            else:
                out.write_nullable_string(self.group_instance_id)
        if version >= 4:
            out.write_compact_string(self.client_id)
        else:
            out.write_string(self.client_id)
        if version >= 4:
            out.write_compact_string(self.client_host)
        else:
            out.write_string(self.client_host)
        if version >= 1:
            append(_write_i4_i4(self.rebalance_timeout, self.session_timeout))
        else:
            append(_write_i4(self.session_timeout))
        if version >= 4:
            out.write_compact_bytes(self.subscription)
        else:
            out.write_bytes(self.subscription)
        if version >= 4:
            out.write_compact_bytes(self.assignment)
        else:
            out.write_bytes(self.assignment)
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class GroupMetadataValue(Struct, gc=False):
    """Value of the record of a classic group."""

    API_KEY: ClassVar[int] = 2
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    protocol_type: str = ""  # Kind of the group, for example consumer.
    generation: int = 0  # Generation of the group.
    protocol: str | None = ""  # Assignment strategy in use; null if none.
    leader: str | None = ""  # Number of the leading broker, -1 for none.
    current_state_timestamp: int = -1  # When the group entered its state, in ms since 1970; -1 if unknown. [2+]
    members: list[MemberMetadata] = field(default_factory=list)  # Members concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 4:
                protocol_type, position = read_compact_string(buffer, position)
            else:
                protocol_type, position = read_string(buffer, position)
            (generation,) = _read_i4(buffer, position)
            position += 4
            protocol: str | None
            if version >= 4:
                protocol, position = read_compact_nullable_string(buffer, position)
            else:
                protocol, position = read_nullable_string(buffer, position)
            leader: str | None
            if version >= 4:
                leader, position = read_compact_nullable_string(buffer, position)
            else:
                leader, position = read_nullable_string(buffer, position)
            if version >= 2:
                (current_state_timestamp,) = _read_i8(buffer, position)
                position += 8
            else:
                current_state_timestamp = -1
            members: list[MemberMetadata]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            members = []
            for _ in range(count):
                members_element, position = MemberMetadata.read(buffer, position, version)
                members.append(members_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(protocol_type, generation, protocol, leader, current_state_timestamp, members, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("GroupMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("GroupMetadataValue", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.protocol_type)
        else:
            out.write_string(self.protocol_type)
        append(_write_i4(self.generation))
        if version >= 4:
            out.write_compact_nullable_string(self.protocol)
        else:
            out.write_nullable_string(self.protocol)
        if version >= 4:
            out.write_compact_nullable_string(self.leader)
        else:
            out.write_nullable_string(self.leader)
        if version >= 2:
            append(_write_i8(self.current_state_timestamp))
        if version == 4:
            out.write_compact_array_length(len(self.members))
        else:
            out.write_array_length(len(self.members))
        for members_element in self.members:
            members_element.write(out, version)
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
