"""ListConfigResourcesRequest and ListConfigResourcesResponse. Generated from ListConfigResourcesRequest.json and ListConfigResourcesResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_int8s,
    read_tagged_fields,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i4_i2 = struct.Struct(">ih").pack


class ListConfigResourcesRequest(Struct, gc=False):
    """Asks to list resources that have configurations."""

    API_KEY: ClassVar[int] = 74
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    resource_types: list[int] = field(default_factory=list)  # Kinds of resources wanted; empty for all. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            resource_types: list[int]
            if version == 1:
                count, position = read_compact_array_length(buffer, position)
                resource_types, position = read_int8s(buffer, position, count)
            else:
                resource_types = []
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(resource_types, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListConfigResourcesRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.resource_types:
                raise unsupported_field("ListConfigResourcesRequest", "resource_types", version)
        append = out.append
        if version == 1:
            out.write_compact_array_length(len(self.resource_types))
            out.write_int8s(self.resource_types)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ConfigResource(Struct, gc=False):
    """Resources that have configurations."""

    resource_name: str = ""  # Name of the resource.
    resource_type: int = 16  # Kind of the resource. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        resource_name, position = read_compact_string(buffer, position)
        if version >= 1:
            (resource_type,) = _read_i1(buffer, position)
            position += 1
        else:
            resource_type = 16
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(resource_name, resource_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.resource_name)
        if version >= 1:
            append(_write_i1(self.resource_type))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ListConfigResourcesResponse(Struct, gc=False):
    """Answers a request to list resources that have configurations."""

    API_KEY: ClassVar[int] = 74
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    config_resources: list[ConfigResource] = field(default_factory=list)  # Resources that have configurations.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            config_resources: list[ConfigResource]
            count, position = read_compact_array_length(buffer, position)
            config_resources = []
            for _ in range(count):
                config_resources_element, position = ConfigResource.read(buffer, position, version)
                config_resources.append(config_resources_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, config_resources, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListConfigResourcesResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_array_length(len(self.config_resources))
        for config_resources_element in self.config_resources:
            config_resources_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
