"""FindCoordinatorRequest and FindCoordinatorResponse. Generated from FindCoordinatorRequest.json and FindCoordinatorResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class FindCoordinatorRequest(Struct, gc=False):
    """Asks to find the broker that coordinates a key."""

    API_KEY: ClassVar[int] = 10
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    key: str = ""  # Group id or transactional id to find the coordinator of. [0-3]
    key_type: int = 0  # What the key names: 0 group, 1 transactional id, 2 share partition, 3 mirror partition. [1+]
    coordinator_keys: list[str] = field(default_factory=list)  # Group ids or transactional ids to find the coordinators of. [4+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            key: str
            if version <= 3:
                if version >= 3:
                    key, position = read_compact_string(buffer, position)
                else:
                    key, position = read_string(buffer, position)
            else:
                key = ""
            if version >= 1:
                (key_type,) = _read_i1(buffer, position)
                position += 1
            else:
                key_type = 0
            coordinator_keys: list[str]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
                coordinator_keys, position = read_compact_strings(buffer, position, count)
            else:
                coordinator_keys = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(key, key_type, coordinator_keys, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FindCoordinatorRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version > 3:
            if self.key:
                raise unsupported_field("FindCoordinatorRequest", "key", version)
        if version < 1:
            if self.key_type:
                raise unsupported_field("FindCoordinatorRequest", "key_type", version)
        if version < 4:
            if self.coordinator_keys:
                raise unsupported_field("FindCoordinatorRequest", "coordinator_keys", version)
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("FindCoordinatorRequest", "unknown_tagged_fields", version)
        append = out.append
        if version <= 3:
            if version >= 3:
                out.write_compact_string(self.key)
            else:
                out.write_string(self.key)
        if version >= 1:
            append(_write_i1(self.key_type))
        if version >= 4:
            out.write_compact_array_length(len(self.coordinator_keys))
            out.write_compact_strings(self.coordinator_keys)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class Coordinator(Struct, gc=False):
    """Where the coordinator of each key is."""

    key: str = ""  # Group id or transactional id, as asked.
    node_id: int = 0  # Number of the node.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        key, position = read_compact_string(buffer, position)
        (node_id,) = _read_i4(buffer, position)
        position += 4
        host, position = read_compact_string(buffer, position)
        port, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(key, node_id, host, port, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.key)
        append(_write_i4(self.node_id))
        out.write_compact_string(self.host)
        append(_write_i4_i2(self.port, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FindCoordinatorResponse(Struct, gc=False):
    """Answers a request to find the broker that coordinates a key."""

    API_KEY: ClassVar[int] = 10
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 7
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    error_code: int = 0  # Result as a code, 0 on success. [0-3]
    error_message: str | None = ""  # Result in words, null on success. [1-3]
    node_id: int = 0  # Number of the node. [0-3]
    host: str = ""  # Name or address of the host. [0-3]
    port: int = 0  # Port number. [0-3]
    coordinators: list[Coordinator] = field(default_factory=list)  # Where the coordinator of each key is. [4+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 4:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
                error_code = 0
            elif version >= 1:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
            else:
                (error_code,) = _read_i2(buffer, position)
                position += 2
                throttle_time_ms = 0
            error_message: str | None
            if 1 <= version <= 3:
                if version >= 3:
                    error_message, position = read_compact_nullable_string(buffer, position)
                else:
                    error_message, position = read_nullable_string(buffer, position)
            else:
                error_message = ""
            if version >= 4:
                node_id = 0
            else:
                (node_id,) = _read_i4(buffer, position)
                position += 4
            host: str
            if version <= 3:
                if version >= 3:
                    host, position = read_compact_string(buffer, position)
                else:
                    host, position = read_string(buffer, position)
            else:
                host = ""
            if version >= 4:
                port = 0
            else:
                (port,) = _read_i4(buffer, position)
                position += 4
            coordinators: list[Coordinator]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
                coordinators = []
                for _ in range(count):
                    coordinators_element, position = Coordinator.read(buffer, position, version)
                    coordinators.append(coordinators_element)
            else:
                coordinators = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, node_id, host, port, coordinators, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FindCoordinatorResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version > 3:
            if self.error_code:
                raise unsupported_field("FindCoordinatorResponse", "error_code", version)
            if self.node_id:
                raise unsupported_field("FindCoordinatorResponse", "node_id", version)
            if self.host:
                raise unsupported_field("FindCoordinatorResponse", "host", version)
            if self.port:
                raise unsupported_field("FindCoordinatorResponse", "port", version)
        if version < 4:
            if self.coordinators:
                raise unsupported_field("FindCoordinatorResponse", "coordinators", version)
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("FindCoordinatorResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            append(_write_i4(self.throttle_time_ms))
        elif version >= 1:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if 1 <= version <= 3:
            if version >= 3:
                out.write_compact_nullable_string(self.error_message)
            else:
                out.write_nullable_string(self.error_message)
        if version >= 4:
            pass
        else:
            append(_write_i4(self.node_id))
        if version <= 3:
            if version >= 3:
                out.write_compact_string(self.host)
            else:
                out.write_string(self.host)
        if version >= 4:
            pass
        else:
            append(_write_i4(self.port))
        if version >= 4:
            out.write_compact_array_length(len(self.coordinators))
            for coordinators_element in self.coordinators:
                coordinators_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
