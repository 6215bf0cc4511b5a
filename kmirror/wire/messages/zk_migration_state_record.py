"""ZkMigrationStateRecord. Generated from ZkMigrationStateRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_tagged_fields,
)

_read_i1 = struct.Struct(">b").unpack_from
_write_i1 = struct.Struct(">b").pack


class ZkMigrationStateRecord(Struct, gc=False):
    """State of the migration from ZooKeeper."""

    API_KEY: ClassVar[int] = 21
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    zk_migration_state: int = 0  # State of the migration from ZooKeeper, as a number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (zk_migration_state,) = _read_i1(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(zk_migration_state, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ZkMigrationStateRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i1(self.zk_migration_state))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
