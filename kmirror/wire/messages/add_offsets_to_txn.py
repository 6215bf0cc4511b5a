"""AddOffsetsToTxnRequest and AddOffsetsToTxnResponse. Generated from AddOffsetsToTxnRequest.json and AddOffsetsToTxnResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i8_i2 = struct.Struct(">qh").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_i8_i2 = struct.Struct(">qh").pack


class AddOffsetsToTxnRequest(Struct, gc=False):
    """Asks to add a group's offsets to a transaction."""

    API_KEY: ClassVar[int] = 25
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    producer_id: int = 0  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    group_id: str = ""  # Name of the group.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                transactional_id, position = read_compact_string(buffer, position)
            else:
                transactional_id, position = read_string(buffer, position)
            producer_id, producer_epoch = _read_i8_i2(buffer, position)
            position += 10
            if version >= 3:
                group_id, position = read_compact_string(buffer, position)
            else:
                group_id, position = read_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactional_id, producer_id, producer_epoch, group_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AddOffsetsToTxnRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddOffsetsToTxnRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.transactional_id)
        else:
            out.write_string(self.transactional_id)
        append(_write_i8_i2(self.producer_id, self.producer_epoch))
        if version >= 3:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AddOffsetsToTxnResponse(Struct, gc=False):
    """Answers a request to add a group's offsets to a transaction."""

    API_KEY: ClassVar[int] = 25
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AddOffsetsToTxnResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddOffsetsToTxnResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
