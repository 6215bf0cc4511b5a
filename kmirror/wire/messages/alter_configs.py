"""AlterConfigsRequest and AlterConfigsResponse. Generated from AlterConfigsRequest.json and AlterConfigsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_bool = struct.Struct(">?").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i1 = struct.Struct(">b").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class AlterableConfig(Struct, gc=False):
    """Configuration entries."""

    name: str = ""  # Key of the configuration.
    value: str | None = ""  # Value of the configuration; null if there is none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        value: str | None
        if version >= 2:
            value, position = read_compact_nullable_string(buffer, position)
        else:
            value, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, value, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterConfigsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 2:
            out.write_compact_nullable_string(self.value)
        else:
            out.write_nullable_string(self.value)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterConfigsResource(Struct, gc=False):
    """Resources concerned."""

    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    configs: list[AlterableConfig] = field(default_factory=list)  # Configuration entries.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (resource_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 2:
            resource_name, position = read_compact_string(buffer, position)
        else:
            resource_name, position = read_string(buffer, position)
        configs: list[AlterableConfig]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        configs = []
        for _ in range(count):
            configs_element, position = AlterableConfig.read(buffer, position, version)
            configs.append(configs_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(resource_type, resource_name, configs, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterConfigsRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i1(self.resource_type))
        if version >= 2:
            out.write_compact_string(self.resource_name)
        else:
            out.write_string(self.resource_name)
        if version == 2:
            out.write_compact_array_length(len(self.configs))
        else:
            out.write_array_length(len(self.configs))
        for configs_element in self.configs:
            configs_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterConfigsRequest(Struct, gc=False):
    """Asks to replace configurations."""

    API_KEY: ClassVar[int] = 33
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    resources: list[AlterConfigsResource] = field(default_factory=list)  # Resources concerned.
    validate_only: bool = False  # True to check everything and change nothing.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            resources: list[AlterConfigsResource]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            resources = []
            for _ in range(count):
                resources_element, position = AlterConfigsResource.read(buffer, position, version)
                resources.append(resources_element)
            (validate_only,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(resources, validate_only, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterConfigsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterConfigsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 2:
            out.write_compact_array_length(len(self.resources))
        else:
            out.write_array_length(len(self.resources))
        for resources_element in self.resources:
            resources_element.write(out, version)
        append(_write_bool(self.validate_only))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterConfigsResourceResponse(Struct, gc=False):
    """One result for each thing asked."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        if version >= 2:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message, position = read_nullable_string(buffer, position)
        (resource_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 2:
            resource_name, position = read_compact_string(buffer, position)
        else:
            resource_name, position = read_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, resource_type, resource_name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterConfigsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        append(_write_i1(self.resource_type))
        if version >= 2:
            out.write_compact_string(self.resource_name)
        else:
            out.write_string(self.resource_name)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterConfigsResponse(Struct, gc=False):
    """Answers a request to replace configurations."""

    API_KEY: ClassVar[int] = 33
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            responses: list[AlterConfigsResourceResponse]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = AlterConfigsResourceResponse.read(buffer, position, version)
                responses.append(responses_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, responses, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterConfigsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterConfigsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version == 2:
            out.write_compact_array_length(len(self.responses))
        else:
            out.write_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
