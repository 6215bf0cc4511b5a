"""DescribeConfigsRequest and DescribeConfigsResponse. Generated from DescribeConfigsRequest.json and DescribeConfigsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_nullable_array_length,
    read_nullable_string,
    read_string,
    read_strings,
    read_tagged_fields,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_bool_bool = struct.Struct(">??").unpack_from
_read_bool_i1_bool = struct.Struct(">?b?").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_bool = struct.Struct(">?").pack
_write_bool_bool = struct.Struct(">??").pack
_write_bool_i1_bool = struct.Struct(">?b?").pack
_write_i1 = struct.Struct(">b").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class DescribeConfigsResource(Struct, gc=False):
    """Resources concerned."""

    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    configuration_keys: list[str] | None = field(default_factory=list)  # Keys to describe; null for all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (resource_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 4:
            resource_name, position = read_compact_string(buffer, position)
        else:
            resource_name, position = read_string(buffer, position)
        configuration_keys: list[str] | None
        if version >= 4:
            count, position = read_compact_nullable_array_length(buffer, position)
        else:
            count, position = read_nullable_array_length(buffer, position)
        if count < 0:
            configuration_keys = None
        else:
            configuration_keys, position = (read_compact_strings if version >= 4 else read_strings)(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(resource_type, resource_name, configuration_keys, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DescribeConfigsRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i1(self.resource_type))
        if version >= 4:
            out.write_compact_string(self.resource_name)
        else:
            out.write_string(self.resource_name)
        if self.configuration_keys is None:
            if version >= 4:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version >= 4:
                out.write_compact_array_length(len(self.configuration_keys))
            else:
                out.write_array_length(len(self.configuration_keys))
            if version >= 4:
                out.write_compact_strings(self.configuration_keys)
            else:
                out.write_strings(self.configuration_keys)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeConfigsRequest(Struct, gc=False):
    """Asks to describe configurations."""

    API_KEY: ClassVar[int] = 32
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    resources: list[DescribeConfigsResource] = field(default_factory=list)  # Resources concerned.
    include_synonyms: bool = False  # True if the answer is to list the other places a value could come from.
    include_documentation: bool = False  # True if the answer is to include help texts. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            resources: list[DescribeConfigsResource]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            resources = []
            for _ in range(count):
                resources_element, position = DescribeConfigsResource.read(buffer, position, version)
                resources.append(resources_element)
            if version >= 3:
                include_synonyms, include_documentation = _read_bool_bool(buffer, position)
                position += 2
            else:
                (include_synonyms,) = _read_bool(buffer, position)
                position += 1
                include_documentation = False
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(resources, include_synonyms, include_documentation, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeConfigsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.include_documentation:
                raise unsupported_field("DescribeConfigsRequest", "include_documentation", version)
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DescribeConfigsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_array_length(len(self.resources))
        else:
            out.write_array_length(len(self.resources))
        for resources_element in self.resources:
            resources_element.write(out, version)
        if version >= 3:
            append(_write_bool_bool(self.include_synonyms, self.include_documentation))
        else:
            append(_write_bool(self.include_synonyms))
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeConfigsSynonym(Struct, gc=False):
    """Other places that the value could come from, the winner first."""

    name: str = ""  # Key of the configuration.
    value: str | None = ""  # Value there; null if secret.
    source: int = 0  # Where the value comes from, as a number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        value: str | None
        if version >= 4:
            value, position = read_compact_nullable_string(buffer, position)
        else:
            value, position = read_nullable_string(buffer, position)
        (source,) = _read_i1(buffer, position)
        position += 1
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, value, source, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DescribeConfigsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 4:
            out.write_compact_nullable_string(self.value)
        else:
            out.write_nullable_string(self.value)
        append(_write_i1(self.source))
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeConfigsResourceResult(Struct, gc=False):
    """Configuration entries."""

    name: str = ""  # Key of the configuration.
    value: str | None = ""  # Value of the configuration; null if there is none.
    read_only: bool = False  # True if the value cannot be changed while running.
    config_source: int = -1  # Where the value comes from, as a number.
    is_sensitive: bool = False  # True if the value is secret and left out.
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)  # Other places that the value could come from, the winner first.
    config_type: int = 0  # Type of the value, as a number; 0 if unknown. [3+]
    documentation: str | None = ""  # Help text of the key. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        value: str | None
        if version >= 4:
            value, position = read_compact_nullable_string(buffer, position)
        else:
            value, position = read_nullable_string(buffer, position)
        read_only, config_source, is_sensitive = _read_bool_i1_bool(buffer, position)
        position += 3
        synonyms: list[DescribeConfigsSynonym]
        if version >= 4:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        synonyms = []
        for _ in range(count):
            synonyms_element, position = DescribeConfigsSynonym.read(buffer, position, version)
            synonyms.append(synonyms_element)
        if version >= 3:
            (config_type,) = _read_i1(buffer, position)
            position += 1
        else:
            config_type = 0
        documentation: str | None
        if version >= 3:
            if version >= 4:
                documentation, position = read_compact_nullable_string(buffer, position)
            else:
                documentation, position = read_nullable_string(buffer, position)
        else:
            documentation = ""
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, value, read_only, config_source, is_sensitive, synonyms, config_type, documentation, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DescribeConfigsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 4:
            out.write_compact_nullable_string(self.value)
        else:
            out.write_nullable_string(self.value)
        append(_write_bool_i1_bool(self.read_only, self.config_source, self.is_sensitive))
        if version >= 4:
            out.write_compact_array_length(len(self.synonyms))
        else:
            out.write_array_length(len(self.synonyms))
        for synonyms_element in self.synonyms:
            synonyms_element.write(out, version)
        if version >= 3:
            append(_write_i1(self.config_type))
        if version >= 3:
            if version >= 4:
                out.write_compact_nullable_string(self.documentation)
            else:
                out.write_nullable_string(self.documentation)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeConfigsResult(Struct, gc=False):
    """One result for each thing asked."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)  # Configuration entries.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        if version >= 4:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message, position = read_nullable_string(buffer, position)
        (resource_type,) = _read_i1(buffer, position)
        position += 1
        if version >= 4:
            resource_name, position = read_compact_string(buffer, position)
        else:
            resource_name, position = read_string(buffer, position)
        configs: list[DescribeConfigsResourceResult]
        if version >= 4:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        configs = []
        for _ in range(count):
            configs_element, position = DescribeConfigsResourceResult.read(buffer, position, version)
            configs.append(configs_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, resource_type, resource_name, configs, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DescribeConfigsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 4:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        append(_write_i1(self.resource_type))
        if version >= 4:
            out.write_compact_string(self.resource_name)
        else:
            out.write_string(self.resource_name)
        if version >= 4:
            out.write_compact_array_length(len(self.configs))
        else:
            out.write_array_length(len(self.configs))
        for configs_element in self.configs:
            configs_element.write(out, version)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeConfigsResponse(Struct, gc=False):
    """Answers a request to describe configurations."""

    API_KEY: ClassVar[int] = 32
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    results: list[DescribeConfigsResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            results: list[DescribeConfigsResult]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = DescribeConfigsResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeConfigsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DescribeConfigsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 4:
            out.write_compact_array_length(len(self.results))
        else:
            out.write_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
