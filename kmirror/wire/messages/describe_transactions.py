"""DescribeTransactionsRequest and DescribeTransactionsResponse. Generated from DescribeTransactionsRequest.json and DescribeTransactionsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_compact_strings,
    read_int32s,
    read_tagged_fields,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i8_i8_i2 = struct.Struct(">iqqh").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i8_i8_i2 = struct.Struct(">iqqh").pack


class DescribeTransactionsRequest(Struct, gc=False):
    """Asks to describe transactions."""

    API_KEY: ClassVar[int] = 65
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    transactional_ids: list[str] = field(default_factory=list)  # Transactional ids.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            transactional_ids: list[str]
            count, position = read_compact_array_length(buffer, position)
            transactional_ids, position = read_compact_strings(buffer, position, count)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactional_ids, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeTransactionsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.transactional_ids))
        out.write_compact_strings(self.transactional_ids)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TopicData(Struct, gc=False):
    """Topics concerned."""

    topic: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic, position = read_compact_string(buffer, position)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic)
        out.write_compact_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TransactionState(Struct, gc=False):
    """Transactions."""

    error_code: int = 0  # Result as a code, 0 on success.
    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    transaction_state: str = ""  # State of the transaction.
    transaction_timeout_ms: int = 0  # How long a transaction may stay open before it is aborted.
    transaction_start_time_ms: int = 0  # When the transaction began, in ms since 1970.
    producer_id: int = 0  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    topics: list[TopicData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        transactional_id, position = read_compact_string(buffer, position)
        transaction_state, position = read_compact_string(buffer, position)
        transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch = _read_i4_i8_i8_i2(buffer, position)
        position += 22
        topics: list[TopicData]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = TopicData.read(buffer, position, version)
            topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, transactional_id, transaction_state, transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_compact_string(self.transactional_id)
        out.write_compact_string(self.transaction_state)
        append(_write_i4_i8_i8_i2(self.transaction_timeout_ms, self.transaction_start_time_ms, self.producer_id, self.producer_epoch))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTransactionsResponse(Struct, gc=False):
    """Answers a request to describe transactions."""

    API_KEY: ClassVar[int] = 65
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    transaction_states: list[TransactionState] = field(default_factory=list)  # Transactions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
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
            return cls(throttle_time_ms, transaction_states, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeTransactionsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        out.write_compact_array_length(len(self.transaction_states))
        for transaction_states_element in self.transaction_states:
            transaction_states_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
