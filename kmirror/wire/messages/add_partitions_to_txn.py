"""AddPartitionsToTxnRequest and AddPartitionsToTxnResponse. Generated from AddPartitionsToTxnRequest.json and AddPartitionsToTxnResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_int32s,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i8_i2 = struct.Struct(">qh").unpack_from
_read_i8_i2_bool = struct.Struct(">qh?").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i8_i2 = struct.Struct(">qh").pack
_write_i8_i2_bool = struct.Struct(">qh?").pack


class AddPartitionsToTxnTransaction(Struct, gc=False):
    """Transactions concerned."""

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    producer_id: int = 0  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    verify_only: bool = False  # True to check that the partitions are in the transaction, without adding them.
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        transactional_id, position = read_compact_string(buffer, position)
        producer_id, producer_epoch, verify_only = _read_i8_i2_bool(buffer, position)
        position += 11
        topics: list[AddPartitionsToTxnTopic]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = AddPartitionsToTxnTopic.read(buffer, position, version)
            topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(transactional_id, producer_id, producer_epoch, verify_only, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.transactional_id)
        append(_write_i8_i2_bool(self.producer_id, self.producer_epoch, self.verify_only))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AddPartitionsToTxnTopic(Struct, gc=False):
    """Partitions to add, in the form for clients."""

    name: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 3:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[int]
        if version >= 3:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddPartitionsToTxnRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 3:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AddPartitionsToTxnRequest(Struct, gc=False):
    """Asks to add partitions to transactions."""

    API_KEY: ClassVar[int] = 24
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)  # Transactions concerned. [4+]
    v3_and_below_transactional_id: str = ""  # Transactional id, in the form for clients. [0-3]
    v3_and_below_producer_id: int = 0  # Id of the producer, in the form for clients. [0-3]
    v3_and_below_producer_epoch: int = 0  # Epoch of the producer, in the form for clients. [0-3]
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)  # Partitions to add, in the form for clients. [0-3]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            transactions: list[AddPartitionsToTxnTransaction]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
                transactions = []
                for _ in range(count):
                    transactions_element, position = AddPartitionsToTxnTransaction.read(buffer, position, version)
                    transactions.append(transactions_element)
            else:
                transactions = []
            v3_and_below_transactional_id: str
            if version <= 3:
                if version >= 3:
                    v3_and_below_transactional_id, position = read_compact_string(buffer, position)
                else:
                    v3_and_below_transactional_id, position = read_string(buffer, position)
            else:
                v3_and_below_transactional_id = ""
            if version >= 4:
                v3_and_below_producer_id = 0
                v3_and_below_producer_epoch = 0
            else:
                v3_and_below_producer_id, v3_and_below_producer_epoch = _read_i8_i2(buffer, position)
                position += 10
            v3_and_below_topics: list[AddPartitionsToTxnTopic]
            if version <= 3:
                if version >= 3:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                v3_and_below_topics = []
                for _ in range(count):
                    v3_and_below_topics_element, position = AddPartitionsToTxnTopic.read(buffer, position, version)
                    v3_and_below_topics.append(v3_and_below_topics_element)
            else:
                v3_and_below_topics = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactions, v3_and_below_transactional_id, v3_and_below_producer_id, v3_and_below_producer_epoch, v3_and_below_topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AddPartitionsToTxnRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 4:
            if self.transactions:
                raise unsupported_field("AddPartitionsToTxnRequest", "transactions", version)
        if version > 3:
            if self.v3_and_below_transactional_id:
                raise unsupported_field("AddPartitionsToTxnRequest", "v3_and_below_transactional_id", version)
            if self.v3_and_below_producer_id:
                raise unsupported_field("AddPartitionsToTxnRequest", "v3_and_below_producer_id", version)
            if self.v3_and_below_producer_epoch:
                raise unsupported_field("AddPartitionsToTxnRequest", "v3_and_below_producer_epoch", version)
            if self.v3_and_below_topics:
                raise unsupported_field("AddPartitionsToTxnRequest", "v3_and_below_topics", version)
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddPartitionsToTxnRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_array_length(len(self.transactions))
            for transactions_element in self.transactions:
                transactions_element.write(out, version)
        if version <= 3:
            if version >= 3:
                out.write_compact_string(self.v3_and_below_transactional_id)
            else:
                out.write_string(self.v3_and_below_transactional_id)
        if version >= 4:
            pass
        else:
            append(_write_i8_i2(self.v3_and_below_producer_id, self.v3_and_below_producer_epoch))
        if version <= 3:
            if version == 3:
                out.write_compact_array_length(len(self.v3_and_below_topics))
            else:
                out.write_array_length(len(self.v3_and_below_topics))
            for v3_and_below_topics_element in self.v3_and_below_topics:
                v3_and_below_topics_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AddPartitionsToTxnResult(Struct, gc=False):
    """Results of the transactions, in the form for brokers."""

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)  # Results of the topics.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        transactional_id, position = read_compact_string(buffer, position)
        topic_results: list[AddPartitionsToTxnTopicResult]
        count, position = read_compact_array_length(buffer, position)
        topic_results = []
        for _ in range(count):
            topic_results_element, position = AddPartitionsToTxnTopicResult.read(buffer, position, version)
            topic_results.append(topic_results_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(transactional_id, topic_results, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.transactional_id)
        out.write_compact_array_length(len(self.topic_results))
        for topic_results_element in self.topic_results:
            topic_results_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AddPartitionsToTxnPartitionResult(Struct, gc=False):
    """Results of the partitions."""

    partition_index: int = 0  # Number of the partition.
    partition_error_code: int = 0  # Result for the partition as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, partition_error_code = _read_i4_i2(buffer, position)
        position += 6
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, partition_error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddPartitionsToTxnResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.partition_index, self.partition_error_code))
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AddPartitionsToTxnTopicResult(Struct, gc=False):
    """Results of the topics, in the form for clients."""

    name: str = ""  # Name of the topic.
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)  # Results of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 3:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        results_by_partition: list[AddPartitionsToTxnPartitionResult]
        if version >= 3:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        results_by_partition = []
        for _ in range(count):
            results_by_partition_element, position = AddPartitionsToTxnPartitionResult.read(buffer, position, version)
            results_by_partition.append(results_by_partition_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, results_by_partition, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddPartitionsToTxnResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 3:
            out.write_compact_array_length(len(self.results_by_partition))
        else:
            out.write_array_length(len(self.results_by_partition))
        for results_by_partition_element in self.results_by_partition:
            results_by_partition_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AddPartitionsToTxnResponse(Struct, gc=False):
    """Answers a request to add partitions to transactions."""

    API_KEY: ClassVar[int] = 24
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success. [4+]
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)  # Results of the transactions, in the form for brokers. [4+]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)  # Results of the topics, in the form for clients. [0-3]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 4:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
            else:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
                error_code = 0
            results_by_transaction: list[AddPartitionsToTxnResult]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
                results_by_transaction = []
                for _ in range(count):
                    results_by_transaction_element, position = AddPartitionsToTxnResult.read(buffer, position, version)
                    results_by_transaction.append(results_by_transaction_element)
            else:
                results_by_transaction = []
            results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult]
            if version <= 3:
                if version >= 3:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                results_by_topic_v3_and_below = []
                for _ in range(count):
                    results_by_topic_v3_and_below_element, position = AddPartitionsToTxnTopicResult.read(buffer, position, version)
                    results_by_topic_v3_and_below.append(results_by_topic_v3_and_below_element)
            else:
                results_by_topic_v3_and_below = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, results_by_transaction, results_by_topic_v3_and_below, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AddPartitionsToTxnResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 4:
            if self.results_by_transaction:
                raise unsupported_field("AddPartitionsToTxnResponse", "results_by_transaction", version)
        if version > 3:
            if self.results_by_topic_v3_and_below:
                raise unsupported_field("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below", version)
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("AddPartitionsToTxnResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i4(self.throttle_time_ms))
        if version >= 4:
            out.write_compact_array_length(len(self.results_by_transaction))
            for results_by_transaction_element in self.results_by_transaction:
                results_by_transaction_element.write(out, version)
        if version <= 3:
            if version == 3:
                out.write_compact_array_length(len(self.results_by_topic_v3_and_below))
            else:
                out.write_array_length(len(self.results_by_topic_v3_and_below))
            for results_by_topic_v3_and_below_element in self.results_by_topic_v3_and_below:
                results_by_topic_v3_and_below_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
