"""MirrorPidResetRecord. Generated from MirrorPidResetRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_string,
    read_tagged_fields,
)

_read_i2 = struct.Struct(">h").unpack_from
_write_i2 = struct.Struct(">h").pack


class MirrorPidResetRecord(Struct, gc=False):
    """Control record at which every replica forgets its producers (KIP-1279)."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    version: int = 0  # Version of this record, 0.
    source_cluster_id: str = ""  # Id of the source cluster.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (version_,) = _read_i2(buffer, position)
            position += 2
            source_cluster_id, position = read_compact_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(version_, source_cluster_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("MirrorPidResetRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.version))
        out.write_compact_string(self.source_cluster_id)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
