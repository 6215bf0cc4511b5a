"""AccessControlEntryRecord. Generated from AccessControlEntryRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_string,
    read_tagged_fields,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i1_i1 = struct.Struct(">bb").unpack_from
_read_uuid_i1 = struct.Struct(">16sb").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i1_i1 = struct.Struct(">bb").pack
_write_uuid_i1 = struct.Struct(">16sb").pack


class AccessControlEntryRecord(Struct, gc=False):
    """An access rule came into being."""

    API_KEY: ClassVar[int] = 18
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    id: Uuid = Uuid.ZERO  # Id of the rule.
    resource_type: int = 0  # Kind of the resource.
    resource_name: str = ""  # Name of the resource.
    pattern_type: int = 0  # How the name is compared: 3 literally, 4 as a prefix.
    principal: str = ""  # Who the rule is for.
    host: str = ""  # Name or address of the host.
    operation: int = 0  # What is allowed or denied, as a number.
    permission_type: int = 0  # 2 denies, 3 allows; in filters 1 means any.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            id_bytes, resource_type = _read_uuid_i1(buffer, position)
            position += 17
            id = Uuid(id_bytes)
            resource_name, position = read_compact_string(buffer, position)
            (pattern_type,) = _read_i1(buffer, position)
            position += 1
            principal, position = read_compact_string(buffer, position)
            host, position = read_compact_string(buffer, position)
            operation, permission_type = _read_i1_i1(buffer, position)
            position += 2
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(id, resource_type, resource_name, pattern_type, principal, host, operation, permission_type, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AccessControlEntryRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid_i1(self.id.raw, self.resource_type))
        out.write_compact_string(self.resource_name)
        append(_write_i1(self.pattern_type))
        out.write_compact_string(self.principal)
        out.write_compact_string(self.host)
        append(_write_i1_i1(self.operation, self.permission_type))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
