"""UnfenceBrokerRecord. Generated from UnfenceBrokerRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i4_i8 = struct.Struct(">iq").unpack_from
_write_i4_i8 = struct.Struct(">iq").pack


class UnfenceBrokerRecord(Struct, gc=False):
    """Lifts the fence from a broker."""

    API_KEY: ClassVar[int] = 8
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    id: int = 0  # Number of the broker.
    epoch: int = 0  # Epoch of the broker.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            id, epoch = _read_i4_i8(buffer, position)
            position += 12
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(id, epoch, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("UnfenceBrokerRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.id, self.epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
