"""EndTxnRequest and EndTxnResponse. Generated from EndTxnRequest.json and EndTxnResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
_read_i4_i2_i8_i2 = struct.Struct(">ihqh").unpack_from
_read_i8_i2_bool = struct.Struct(">qh?").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i2_i8_i2 = struct.Struct(">ihqh").pack
_write_i8_i2_bool = struct.Struct(">qh?").pack


class EndTxnRequest(Struct, gc=False):
    """Asks to commit or abort a transaction."""

    API_KEY: ClassVar[int] = 26
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    producer_id: int = 0  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    committed: bool = False  # True if the transaction is to be committed, false if aborted.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                transactional_id, position = read_compact_string(buffer, position)
            else:
                transactional_id, position = read_string(buffer, position)
            producer_id, producer_epoch, committed = _read_i8_i2_bool(buffer, position)
            position += 11
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactional_id, producer_id, producer_epoch, committed, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("EndTxnRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("EndTxnRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.transactional_id)
        else:
            out.write_string(self.transactional_id)
        append(_write_i8_i2_bool(self.producer_id, self.producer_epoch, self.committed))
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EndTxnResponse(Struct, gc=False):
    """Answers a request to commit or abort a transaction."""

    API_KEY: ClassVar[int] = 26
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    producer_id: int = -1  # Id of the producer. [5+]
    producer_epoch: int = -1  # Epoch of the producer. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 5:
                throttle_time_ms, error_code, producer_id, producer_epoch = _read_i4_i2_i8_i2(buffer, position)
                position += 16
            else:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
                producer_id = -1
                producer_epoch = -1
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, producer_id, producer_epoch, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("EndTxnResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("EndTxnResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            append(_write_i4_i2_i8_i2(self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch))
        else:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
