"""AllocateProducerIdsRequest and AllocateProducerIdsResponse. Generated from AllocateProducerIdsRequest.json and AllocateProducerIdsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_i4_i2_i8_i4 = struct.Struct(">ihqi").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_write_i4_i2_i8_i4 = struct.Struct(">ihqi").pack
_write_i4_i8 = struct.Struct(">iq").pack


class AllocateProducerIdsRequest(Struct, gc=False):
    """Asks to get a block of producer ids."""

    API_KEY: ClassVar[int] = 67
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0  # Number of the broker.
    broker_epoch: int = -1  # Epoch that the controller gave the broker when it registered.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            broker_id, broker_epoch = _read_i4_i8(buffer, position)
            position += 12
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(broker_id, broker_epoch, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AllocateProducerIdsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.broker_id, self.broker_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AllocateProducerIdsResponse(Struct, gc=False):
    """Answers a request to get a block of producer ids."""

    API_KEY: ClassVar[int] = 67
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    producer_id_start: int = 0  # First producer id that was allocated.
    producer_id_len: int = 0  # How many producer ids were allocated.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code, producer_id_start, producer_id_len = _read_i4_i2_i8_i4(buffer, position)
            position += 18
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, producer_id_start, producer_id_len, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AllocateProducerIdsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2_i8_i4(self.throttle_time_ms, self.error_code, self.producer_id_start, self.producer_id_len))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
