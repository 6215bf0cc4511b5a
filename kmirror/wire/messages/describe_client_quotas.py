"""DescribeClientQuotasRequest and DescribeClientQuotasResponse. Generated from DescribeClientQuotasRequest.json and DescribeClientQuotasResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_nullable_array_length,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_f8 = struct.Struct(">d").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_bool = struct.Struct(">?").pack
_write_f8 = struct.Struct(">d").pack
_write_i1 = struct.Struct(">b").pack
_write_i4_i2 = struct.Struct(">ih").pack


class ComponentData(Struct, gc=False):
    """Parts of the entity that must match."""

    entity_type: str = ""  # Kind of the entity: user, client-id or ip.
    match_type: int = 0  # How to match: 0 this name, 1 the default, 2 any.
    match: str | None = ""  # Name to match; null for the default.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            entity_type, position = read_compact_string(buffer, position)
        else:
            entity_type, position = read_string(buffer, position)
        (match_type,) = _read_i1(buffer, position)
        position += 1
        match: str | None
        if version >= 1:
            match, position = read_compact_nullable_string(buffer, position)
        else:
            match, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(entity_type, match_type, match, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("DescribeClientQuotasRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.entity_type)
        else:
            out.write_string(self.entity_type)
        append(_write_i1(self.match_type))
        if version >= 1:
            out.write_compact_nullable_string(self.match)
        else:
            out.write_nullable_string(self.match)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeClientQuotasRequest(Struct, gc=False):
    """Asks to list client quotas."""

    API_KEY: ClassVar[int] = 48
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    components: list[ComponentData] = field(default_factory=list)  # Parts of the entity that must match.
    strict: bool = False  # True if entities with other components must not match.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            components: list[ComponentData]
            if version >= 1:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            components = []
            for _ in range(count):
                components_element, position = ComponentData.read(buffer, position, version)
                components.append(components_element)
            (strict,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(components, strict, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeClientQuotasRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("DescribeClientQuotasRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 1:
            out.write_compact_array_length(len(self.components))
        else:
            out.write_array_length(len(self.components))
        for components_element in self.components:
            components_element.write(out, version)
        append(_write_bool(self.strict))
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EntityData(Struct, gc=False):
    """Who the quota is for."""

    entity_type: str = ""  # Kind of the entity: user, client-id or ip.
    entity_name: str | None = ""  # Name of the entity; null for the default.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            entity_type, position = read_compact_string(buffer, position)
        else:
            entity_type, position = read_string(buffer, position)
        entity_name: str | None
        if version >= 1:
            entity_name, position = read_compact_nullable_string(buffer, position)
        else:
            entity_name, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(entity_type, entity_name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("DescribeClientQuotasResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.entity_type)
        else:
            out.write_string(self.entity_type)
        if version >= 1:
            out.write_compact_nullable_string(self.entity_name)
        else:
            out.write_nullable_string(self.entity_name)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ValueData(Struct, gc=False):
    """Quotas in force."""

    key: str = ""  # Name of the quota.
    value: float = 0.0  # Value of the quota.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            key, position = read_compact_string(buffer, position)
        else:
            key, position = read_string(buffer, position)
        (value,) = _read_f8(buffer, position)
        position += 8
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(key, value, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("DescribeClientQuotasResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.key)
        else:
            out.write_string(self.key)
        append(_write_f8(self.value))
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EntryData(Struct, gc=False):
    """Matching entries."""

    entity: list[EntityData] = field(default_factory=list)  # Who the quota is for.
    values: list[ValueData] = field(default_factory=list)  # Quotas in force.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        entity: list[EntityData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        entity = []
        for _ in range(count):
            entity_element, position = EntityData.read(buffer, position, version)
            entity.append(entity_element)
        values: list[ValueData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        values = []
        for _ in range(count):
            values_element, position = ValueData.read(buffer, position, version)
            values.append(values_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(entity, values, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("DescribeClientQuotasResponse", "unknown_tagged_fields", version)
        append = out.append
        if version == 1:
            out.write_compact_array_length(len(self.entity))
        else:
            out.write_array_length(len(self.entity))
        for entity_element in self.entity:
            entity_element.write(out, version)
        if version == 1:
            out.write_compact_array_length(len(self.values))
        else:
            out.write_array_length(len(self.values))
        for values_element in self.values:
            values_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeClientQuotasResponse(Struct, gc=False):
    """Answers a request to list client quotas."""

    API_KEY: ClassVar[int] = 48
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    entries: list[EntryData] | None = field(default_factory=list)  # Matching entries.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            if version >= 1:
                error_message, position = read_compact_nullable_string(buffer, position)
            else:
                error_message, position = read_nullable_string(buffer, position)
            entries: list[EntryData] | None
            if version >= 1:
                count, position = read_compact_nullable_array_length(buffer, position)
            else:
                count, position = read_nullable_array_length(buffer, position)
            if count < 0:
                entries = None
            else:
                entries = []
                for _ in range(count):
                    entries_element, position = EntryData.read(buffer, position, version)
                    entries.append(entries_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, entries, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeClientQuotasResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("DescribeClientQuotasResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        if version >= 1:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if self.entries is None:
            if version >= 1:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version == 1:
                out.write_compact_array_length(len(self.entries))
            else:
                out.write_array_length(len(self.entries))
            for entries_element in self.entries:
                entries_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
