"""TransactionLogValue. Generated from TransactionLogValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_array_length,
    read_compact_string,
    read_int32s,
    read_nullable_array_length,
    read_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_i8_i2_i4_i1 = struct.Struct(">qhib").unpack_from
_read_i8_i8 = struct.Struct(">qq").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i8 = struct.Struct(">q").pack
_write_i8_i2_i4_i1 = struct.Struct(">qhib").pack
_write_i8_i8 = struct.Struct(">qq").pack


class PartitionsSchema(Struct, gc=False):
    """Partitions in the transaction."""

    topic: str = ""  # Name of the topic.
    partition_ids: list[int] = field(default_factory=list)  # Numbers of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            topic, position = read_compact_string(buffer, position)
        else:
            topic, position = read_string(buffer, position)
        partition_ids: list[int]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partition_ids, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partition_ids, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("TransactionLogValue", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.topic)
        else:
            out.write_string(self.topic)
        if version == 1:
            out.write_compact_array_length(len(self.partition_ids))
        else:
            out.write_array_length(len(self.partition_ids))
        out.write_int32s(self.partition_ids)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TransactionLogValue(Struct, gc=False):
    """Value of the record of a transactional id and its transaction."""

    API_KEY: ClassVar[int] = 0
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    producer_id: int = 0  # Id of the producer.
    previous_producer_id: int = -1  # Producer id before this one, -1 for none. [1+]
    next_producer_id: int = -1  # Producer id that comes next. [1+]
    producer_epoch: int = 0  # Epoch of the producer.
    next_producer_epoch: int = -1  # Epoch of the producer after this transaction, -1 if unset. [1+]
    transaction_timeout_ms: int = 0  # How long a transaction may stay open before it is aborted.
    transaction_status: int = 0  # State of the transaction, as a number.
    transaction_partitions: list[PartitionsSchema] | None = field(default_factory=list)  # Partitions in the transaction.
    transaction_last_update_timestamp_ms: int = 0  # When the transaction last changed, in ms since 1970.
    transaction_start_timestamp_ms: int = 0  # When the transaction began, in ms since 1970.
    client_transaction_version: int = 0  # Transaction protocol that the producer last used. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            producer_id, producer_epoch, transaction_timeout_ms, transaction_status = _read_i8_i2_i4_i1(buffer, position)
            position += 15
            transaction_partitions: list[PartitionsSchema] | None
            if version >= 1:
                count, position = read_compact_nullable_array_length(buffer, position)
            else:
                count, position = read_nullable_array_length(buffer, position)
            if count < 0:
                transaction_partitions = None
            else:
                transaction_partitions = []
                for _ in range(count):
                    transaction_partitions_element, position = PartitionsSchema.read(buffer, position, version)
                    transaction_partitions.append(transaction_partitions_element)
            transaction_last_update_timestamp_ms, transaction_start_timestamp_ms = _read_i8_i8(buffer, position)
            position += 16
            previous_producer_id: int = -1
            next_producer_id: int = -1
            client_transaction_version: int = 0
            next_producer_epoch: int = -1
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
                            (previous_producer_id,) = _read_i8(buffer, position)
                            position += 8
                        elif tag == 1:
                            (next_producer_id,) = _read_i8(buffer, position)
                            position += 8
                        elif tag == 2:
                            (client_transaction_version,) = _read_i2(buffer, position)
                            position += 2
                        elif tag == 3:
                            (next_producer_epoch,) = _read_i2(buffer, position)
                            position += 2
                        else:
                            value, position = read_unknown_tagged_field(buffer, position, size)
                            unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(producer_id, previous_producer_id, next_producer_id, producer_epoch, next_producer_epoch, transaction_timeout_ms, transaction_status, transaction_partitions, transaction_last_update_timestamp_ms, transaction_start_timestamp_ms, client_transaction_version, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("TransactionLogValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.previous_producer_id != -1:
                raise unsupported_field("TransactionLogValue", "previous_producer_id", version)
            if self.next_producer_id != -1:
                raise unsupported_field("TransactionLogValue", "next_producer_id", version)
            if self.next_producer_epoch != -1:
                raise unsupported_field("TransactionLogValue", "next_producer_epoch", version)
            if self.client_transaction_version:
                raise unsupported_field("TransactionLogValue", "client_transaction_version", version)
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("TransactionLogValue", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i8_i2_i4_i1(self.producer_id, self.producer_epoch, self.transaction_timeout_ms, self.transaction_status))
        if self.transaction_partitions is None:
            if version >= 1:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version == 1:
                out.write_compact_array_length(len(self.transaction_partitions))
            else:
                out.write_array_length(len(self.transaction_partitions))
            for transaction_partitions_element in self.transaction_partitions:
                transaction_partitions_element.write(out, version)
        append(_write_i8_i8(self.transaction_last_update_timestamp_ms, self.transaction_start_timestamp_ms))
        if version == 1:
            tagged = list(self.unknown_tagged_fields)
            if self.previous_producer_id != -1:
                tagged.append((0, _write_i8(self.previous_producer_id)))
            if self.next_producer_id != -1:
                tagged.append((1, _write_i8(self.next_producer_id)))
            if self.client_transaction_version:
                tagged.append((2, _write_i2(self.client_transaction_version)))
            if self.next_producer_epoch != -1:
                tagged.append((3, _write_i2(self.next_producer_epoch)))
            out.write_tagged_fields(tagged)
