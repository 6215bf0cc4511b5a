"""ClientQuotaRecord. Generated from ClientQuotaRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_tagged_fields,
)

_read_f8_bool = struct.Struct(">d?").unpack_from
_write_f8_bool = struct.Struct(">d?").pack


class EntityData(Struct, gc=False):
    """Who the quota is for."""

    entity_type: str = ""  # Kind of the entity: user, client-id or ip.
    entity_name: str | None = ""  # Name of the entity; null for the default.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        entity_type, position = read_compact_string(buffer, position)
        entity_name: str | None
        entity_name, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(entity_type, entity_name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.entity_type)
        out.write_compact_nullable_string(self.entity_name)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ClientQuotaRecord(Struct, gc=False):
    """Sets or removes a client quota."""

    API_KEY: ClassVar[int] = 14
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    entity: list[EntityData] = field(default_factory=list)  # Who the quota is for.
    key: str = ""  # Name of the quota.
    value: float = 0.0  # Value of the quota.
    remove: bool = False  # True to remove the quota.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            entity: list[EntityData]
            count, position = read_compact_array_length(buffer, position)
            entity = []
            for _ in range(count):
                entity_element, position = EntityData.read(buffer, position, version)
                entity.append(entity_element)
            key, position = read_compact_string(buffer, position)
            value, remove = _read_f8_bool(buffer, position)
            position += 9
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(entity, key, value, remove, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ClientQuotaRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.entity))
        for entity_element in self.entity:
            entity_element.write(out, version)
        out.write_compact_string(self.key)
        append(_write_f8_bool(self.value, self.remove))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
