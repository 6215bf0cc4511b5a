"""InitProducerIdRequest and InitProducerIdResponse. Generated from InitProducerIdRequest.json and InitProducerIdResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_nullable_string,
    read_nullable_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i8_i2 = struct.Struct(">ihqh").unpack_from
_read_i4_i2_i8_i2_i8_i2 = struct.Struct(">ihqhqh").unpack_from
_read_i4_i8_i2 = struct.Struct(">iqh").unpack_from
_read_i4_i8_i2_bool_bool = struct.Struct(">iqh??").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i8_i2 = struct.Struct(">ihqh").pack
_write_i4_i2_i8_i2_i8_i2 = struct.Struct(">ihqhqh").pack
_write_i4_i8_i2 = struct.Struct(">iqh").pack
_write_i4_i8_i2_bool_bool = struct.Struct(">iqh??").pack


class InitProducerIdRequest(Struct, gc=False):
    """Asks to get a producer id and epoch."""

    API_KEY: ClassVar[int] = 22
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    transactional_id: str | None = ""  # Transactional id of the producer; null if it has none.
    transaction_timeout_ms: int = 0  # How long a transaction may stay open before it is aborted.
    producer_id: int = -1  # Id of the producer. [3+]
    producer_epoch: int = -1  # Epoch of the producer. [3+]
    enable_2pc: bool = False  # True if the producer takes part in an outside two-phase commit. [6+]
    keep_prepared_txn: bool = False  # True if a prepared transaction is to be kept instead of aborted. [6+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            transactional_id: str | None
            if version >= 2:
                transactional_id, position = read_compact_nullable_string(buffer, position)
            else:
                transactional_id, position = read_nullable_string(buffer, position)
            if version >= 6:
                transaction_timeout_ms, producer_id, producer_epoch, enable_2pc, keep_prepared_txn = _read_i4_i8_i2_bool_bool(buffer, position)
                position += 16
            elif version >= 3:
                transaction_timeout_ms, producer_id, producer_epoch = _read_i4_i8_i2(buffer, position)
                position += 14
                enable_2pc = False
                keep_prepared_txn = False
            else:
                (transaction_timeout_ms,) = _read_i4(buffer, position)
                position += 4
                producer_id = -1
                producer_epoch = -1
                enable_2pc = False
                keep_prepared_txn = False
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactional_id, transaction_timeout_ms, producer_id, producer_epoch, enable_2pc, keep_prepared_txn, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("InitProducerIdRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.producer_id != -1:
                raise unsupported_field("InitProducerIdRequest", "producer_id", version)
            if self.producer_epoch != -1:
                raise unsupported_field("InitProducerIdRequest", "producer_epoch", version)
        if version < 6:
            if self.enable_2pc:
                raise unsupported_field("InitProducerIdRequest", "enable_2pc", version)
            if self.keep_prepared_txn:
                raise unsupported_field("InitProducerIdRequest", "keep_prepared_txn", version)
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("InitProducerIdRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_nullable_string(self.transactional_id)
        else:
            out.write_nullable_string(self.transactional_id)
        if version >= 6:
            append(_write_i4_i8_i2_bool_bool(self.transaction_timeout_ms, self.producer_id, self.producer_epoch, self.enable_2pc, self.keep_prepared_txn))
        elif version >= 3:
            append(_write_i4_i8_i2(self.transaction_timeout_ms, self.producer_id, self.producer_epoch))
        else:
            append(_write_i4(self.transaction_timeout_ms))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class InitProducerIdResponse(Struct, gc=False):
    """Answers a request to get a producer id and epoch."""

    API_KEY: ClassVar[int] = 22
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    producer_id: int = -1  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    ongoing_txn_producer_id: int = -1  # Producer id of the open prepared transaction, -1 for none. [6+]
    ongoing_txn_producer_epoch: int = -1  # Epoch of the open prepared transaction, -1 for none. [6+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 6:
                throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch = _read_i4_i2_i8_i2_i8_i2(buffer, position)
                position += 26
            else:
                throttle_time_ms, error_code, producer_id, producer_epoch = _read_i4_i2_i8_i2(buffer, position)
                position += 16
                ongoing_txn_producer_id = -1
                ongoing_txn_producer_epoch = -1
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("InitProducerIdResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("InitProducerIdResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            append(_write_i4_i2_i8_i2_i8_i2(self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch, self.ongoing_txn_producer_id, self.ongoing_txn_producer_epoch))
        else:
            append(_write_i4_i2_i8_i2(self.throttle_time_ms, self.error_code, self.producer_id, self.producer_epoch))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
