"""ListTransactionsRequest and ListTransactionsResponse. Generated from ListTransactionsRequest.json and ListTransactionsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_int64s,
    read_tagged_fields,
    unsupported_field,
)

_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_i8 = struct.Struct(">q").pack


class ListTransactionsRequest(Struct, gc=False):
    """Asks to list transactions."""

    API_KEY: ClassVar[int] = 66
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    state_filters: list[str] = field(default_factory=list)  # Only transactions in these states; empty for all.
    producer_id_filters: list[int] = field(default_factory=list)  # Only these producers; empty for all.
    duration_filter: int = -1  # Only transactions that have been open for longer, in ms; negative for all. [1+]
    transactional_id_pattern: str | None = None  # Only transactional ids that match this pattern; null for all. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            state_filters: list[str]
            count, position = read_compact_array_length(buffer, position)
            state_filters, position = read_compact_strings(buffer, position, count)
            producer_id_filters: list[int]
            count, position = read_compact_array_length(buffer, position)
            producer_id_filters, position = read_int64s(buffer, position, count)
            if version >= 1:
                (duration_filter,) = _read_i8(buffer, position)
                position += 8
            else:
                duration_filter = -1
            transactional_id_pattern: str | None
            if version == 2:
                transactional_id_pattern, position = read_compact_nullable_string(buffer, position)
            else:
                transactional_id_pattern = None
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(state_filters, producer_id_filters, duration_filter, transactional_id_pattern, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListTransactionsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.duration_filter != -1:
                raise unsupported_field("ListTransactionsRequest", "duration_filter", version)
        if version < 2:
            if self.transactional_id_pattern is not None:
                raise unsupported_field("ListTransactionsRequest", "transactional_id_pattern", version)
        append = out.append
        out.write_compact_array_length(len(self.state_filters))
        out.write_compact_strings(self.state_filters)
        out.write_compact_array_length(len(self.producer_id_filters))
        out.write_int64s(self.producer_id_filters)
        if version >= 1:
            append(_write_i8(self.duration_filter))
        if version == 2:
            out.write_compact_nullable_string(self.transactional_id_pattern)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TransactionState(Struct, gc=False):
    """Transactions."""

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    producer_id: int = 0  # Id of the producer.
    transaction_state: str = ""  # State of the transaction.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        transactional_id, position = read_compact_string(buffer, position)
        (producer_id,) = _read_i8(buffer, position)
        position += 8
        transaction_state, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(transactional_id, producer_id, transaction_state, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.transactional_id)
        append(_write_i8(self.producer_id))
        out.write_compact_string(self.transaction_state)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ListTransactionsResponse(Struct, gc=False):
    """Answers a request to list transactions."""

    API_KEY: ClassVar[int] = 66
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_state_filters: list[str] = field(default_factory=list)  # State filters that the broker does not know.
    transaction_states: list[TransactionState] = field(default_factory=list)  # Transactions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            unknown_state_filters: list[str]
            count, position = read_compact_array_length(buffer, position)
            unknown_state_filters, position = read_compact_strings(buffer, position, count)
            transaction_states: list[TransactionState]
            count, position = read_compact_array_length(buffer, position)
            transaction_states = []
            for _ in range(count):
                transaction_states_element, position = TransactionState.read(buffer, position, version)
                transaction_states.append(transaction_states_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, unknown_state_filters, transaction_states, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListTransactionsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_array_length(len(self.unknown_state_filters))
        out.write_compact_strings(self.unknown_state_filters)
        out.write_compact_array_length(len(self.transaction_states))
        for transaction_states_element in self.transaction_states:
            transaction_states_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
