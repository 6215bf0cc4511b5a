"""AlterClientQuotasRequest and AlterClientQuotasResponse. Generated from AlterClientQuotasRequest.json and AlterClientQuotasResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
_read_f8_bool = struct.Struct(">d?").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_write_bool = struct.Struct(">?").pack
_write_f8_bool = struct.Struct(">d?").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack


class AlterClientQuotasRequestEntityData(Struct, gc=False):
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
            raise unsupported_field("AlterClientQuotasRequest", "unknown_tagged_fields", version)
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


class OpData(Struct, gc=False):
    """Quota values to set or remove."""

    key: str = ""  # Name of the quota.
    value: float = 0.0  # Value of the quota.
    remove: bool = False  # True to remove the quota.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            key, position = read_compact_string(buffer, position)
        else:
            key, position = read_string(buffer, position)
        value, remove = _read_f8_bool(buffer, position)
        position += 9
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(key, value, remove, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("AlterClientQuotasRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.key)
        else:
            out.write_string(self.key)
        append(_write_f8_bool(self.value, self.remove))
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterClientQuotasRequestEntryData(Struct, gc=False):
    """Matching entries."""

    entity: list[AlterClientQuotasRequestEntityData] = field(default_factory=list)  # Who the quota is for.
    ops: list[OpData] = field(default_factory=list)  # Quota values to set or remove.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        entity: list[AlterClientQuotasRequestEntityData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        entity = []
        for _ in range(count):
            entity_element, position = AlterClientQuotasRequestEntityData.read(buffer, position, version)
            entity.append(entity_element)
        ops: list[OpData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        ops = []
        for _ in range(count):
            ops_element, position = OpData.read(buffer, position, version)
            ops.append(ops_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(entity, ops, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("AlterClientQuotasRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 1:
            out.write_compact_array_length(len(self.entity))
        else:
            out.write_array_length(len(self.entity))
        for entity_element in self.entity:
            entity_element.write(out, version)
        if version == 1:
            out.write_compact_array_length(len(self.ops))
        else:
            out.write_array_length(len(self.ops))
        for ops_element in self.ops:
            ops_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterClientQuotasRequest(Struct, gc=False):
    """Asks to change client quotas."""

    API_KEY: ClassVar[int] = 49
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    entries: list[AlterClientQuotasRequestEntryData] = field(default_factory=list)  # Matching entries.
    validate_only: bool = False  # True to check everything and change nothing.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            entries: list[AlterClientQuotasRequestEntryData]
            if version >= 1:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            entries = []
            for _ in range(count):
                entries_element, position = AlterClientQuotasRequestEntryData.read(buffer, position, version)
                entries.append(entries_element)
            (validate_only,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(entries, validate_only, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterClientQuotasRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("AlterClientQuotasRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 1:
            out.write_compact_array_length(len(self.entries))
        else:
            out.write_array_length(len(self.entries))
        for entries_element in self.entries:
            entries_element.write(out, version)
        append(_write_bool(self.validate_only))
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterClientQuotasResponseEntityData(Struct, gc=False):
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
            raise unsupported_field("AlterClientQuotasResponse", "unknown_tagged_fields", version)
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


class AlterClientQuotasResponseEntryData(Struct, gc=False):
    """Matching entries."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    entity: list[AlterClientQuotasResponseEntityData] = field(default_factory=list)  # Who the quota is for.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        if version >= 1:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message, position = read_nullable_string(buffer, position)
        entity: list[AlterClientQuotasResponseEntityData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        entity = []
        for _ in range(count):
            entity_element, position = AlterClientQuotasResponseEntityData.read(buffer, position, version)
            entity.append(entity_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, entity, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("AlterClientQuotasResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 1:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version == 1:
            out.write_compact_array_length(len(self.entity))
        else:
            out.write_array_length(len(self.entity))
        for entity_element in self.entity:
            entity_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterClientQuotasResponse(Struct, gc=False):
    """Answers a request to change client quotas."""

    API_KEY: ClassVar[int] = 49
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    entries: list[AlterClientQuotasResponseEntryData] = field(default_factory=list)  # Matching entries.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            entries: list[AlterClientQuotasResponseEntryData]
            if version >= 1:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            entries = []
            for _ in range(count):
                entries_element, position = AlterClientQuotasResponseEntryData.read(buffer, position, version)
                entries.append(entries_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, entries, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterClientQuotasResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("AlterClientQuotasResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
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
