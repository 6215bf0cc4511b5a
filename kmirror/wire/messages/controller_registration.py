"""ControllerRegistrationRequest and ControllerRegistrationResponse. Generated from ControllerRegistrationRequest.json and ControllerRegistrationResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i2_i2 = struct.Struct(">hh").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_uuid_bool = struct.Struct(">i16s?").unpack_from
_read_u2_i2 = struct.Struct(">Hh").unpack_from
_write_i2_i2 = struct.Struct(">hh").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_uuid_bool = struct.Struct(">i16s?").pack
_write_u2_i2 = struct.Struct(">Hh").pack


class Listener(Struct, gc=False):
    """Listeners of the node."""

    name: str = ""  # Name of the listener.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    security_protocol: int = 0  # Protocol of the listener, as a number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        host, position = read_compact_string(buffer, position)
        port, security_protocol = _read_u2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, host, port, security_protocol, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_string(self.host)
        append(_write_u2_i2(self.port, self.security_protocol))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Feature(Struct, gc=False):
    """Features with their levels."""

    name: str = ""  # Name of the feature.
    min_supported_version: int = 0  # Lowest level supported.
    max_supported_version: int = 0  # Highest level supported.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        min_supported_version, max_supported_version = _read_i2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, min_supported_version, max_supported_version, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i2_i2(self.min_supported_version, self.max_supported_version))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ControllerRegistrationRequest(Struct, gc=False):
    """Asks to register a controller."""

    API_KEY: ClassVar[int] = 70
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    controller_id: int = 0  # Number of the active controller, -1 if unknown.
    incarnation_id: Uuid = Uuid.ZERO  # Random id of this run of the process.
    zk_migration_ready: bool = False  # True if the node is ready to migrate from ZooKeeper.
    listeners: list[Listener] = field(default_factory=list)  # Listeners of the node.
    features: list[Feature] = field(default_factory=list)  # Features with their levels.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            controller_id, incarnation_id_bytes, zk_migration_ready = _read_i4_uuid_bool(buffer, position)
            position += 21
            incarnation_id = Uuid(incarnation_id_bytes)
            listeners: list[Listener]
            count, position = read_compact_array_length(buffer, position)
            listeners = []
            for _ in range(count):
                listeners_element, position = Listener.read(buffer, position, version)
                listeners.append(listeners_element)
            features: list[Feature]
            count, position = read_compact_array_length(buffer, position)
            features = []
            for _ in range(count):
                features_element, position = Feature.read(buffer, position, version)
                features.append(features_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(controller_id, incarnation_id, zk_migration_ready, listeners, features, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ControllerRegistrationRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_uuid_bool(self.controller_id, self.incarnation_id.raw, self.zk_migration_ready))
        out.write_compact_array_length(len(self.listeners))
        for listeners_element in self.listeners:
            listeners_element.write(out, version)
        out.write_compact_array_length(len(self.features))
        for features_element in self.features:
            features_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ControllerRegistrationResponse(Struct, gc=False):
    """Answers a request to register a controller."""

    API_KEY: ClassVar[int] = 70
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ControllerRegistrationResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
