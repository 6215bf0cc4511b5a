"""ProducerIdsRecord. Generated from ProducerIdsRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i4_i8_i8 = struct.Struct(">iqq").unpack_from
_write_i4_i8_i8 = struct.Struct(">iqq").pack


class ProducerIdsRecord(Struct, gc=False):
    """A block of producer ids was given to a broker."""

    API_KEY: ClassVar[int] = 15
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0  # Number of the broker.
    broker_epoch: int = -1  # Epoch that the controller gave the broker when it registered.
    next_producer_id: int = 0  # Producer id that comes next.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            broker_id, broker_epoch, next_producer_id = _read_i4_i8_i8(buffer, position)
            position += 20
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(broker_id, broker_epoch, next_producer_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ProducerIdsRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8_i8(self.broker_id, self.broker_epoch, self.next_producer_id))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
