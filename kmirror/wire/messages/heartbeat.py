"""HeartbeatRequest and HeartbeatResponse. Generated from HeartbeatRequest.json and HeartbeatResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
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


class HeartbeatRequest(Struct, gc=False):
    """Asks to stay in a classic group."""

    API_KEY: ClassVar[int] = 12
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    group_id: str = ""  # Name of the group.
    generation_id: int = 0  # Generation of the group; goes up with every rebalance.
    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [3+]
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
            unknown_tagged_fields: TaggedFields = ()
            if version == 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, generation_id, member_id, group_instance_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("HeartbeatRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.group_instance_id is not None:
                raise unsupported_field("HeartbeatRequest", "group_instance_id", version)
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("HeartbeatRequest", "unknown_tagged_fields", version)
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
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class HeartbeatResponse(Struct, gc=False):
    """Answers a request to stay in a classic group."""

    API_KEY: ClassVar[int] = 12
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    error_code: int = 0  # Result as a code, 0 on success.
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
            unknown_tagged_fields: TaggedFields = ()
            if version == 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("HeartbeatResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("HeartbeatResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
