"""AlterPartitionReassignmentsRequest and AlterPartitionReassignmentsResponse. Generated from AlterPartitionReassignmentsRequest.json and AlterPartitionReassignmentsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_bool = struct.Struct(">i?").unpack_from
_read_i4_bool_i2 = struct.Struct(">i?h").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_bool = struct.Struct(">i?").pack
_write_i4_bool_i2 = struct.Struct(">i?h").pack
_write_i4_i2 = struct.Struct(">ih").pack


class ReassignablePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    replicas: list[int] | None = None  # Brokers that hold the partition, the preferred leader first.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        replicas: list[int] | None
        count, position = read_compact_nullable_array_length(buffer, position)
        if count < 0:
            replicas = None
        else:
            replicas, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, replicas, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition_index))
        if self.replicas is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.replicas))
            out.write_int32s(self.replicas)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ReassignableTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[ReassignablePartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[ReassignablePartition]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = ReassignablePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterPartitionReassignmentsRequest(Struct, gc=False):
    """Asks to begin or cancel moves of replicas."""

    API_KEY: ClassVar[int] = 45
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: int = 60000  # How long to wait for the work to be done.
    allow_replication_factor_change: bool = True  # False if a reassignment must keep the number of replicas. [1+]
    topics: list[ReassignableTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 1:
                timeout_ms, allow_replication_factor_change = _read_i4_bool(buffer, position)
                position += 5
            else:
                (timeout_ms,) = _read_i4(buffer, position)
                position += 4
                allow_replication_factor_change = True
            topics: list[ReassignableTopic]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = ReassignableTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(timeout_ms, allow_replication_factor_change, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterPartitionReassignmentsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if not self.allow_replication_factor_change:
                raise unsupported_field("AlterPartitionReassignmentsRequest", "allow_replication_factor_change", version)
        append = out.append
        if version >= 1:
            append(_write_i4_bool(self.timeout_ms, self.allow_replication_factor_change))
        else:
            append(_write_i4(self.timeout_ms))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ReassignablePartitionResponse(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ReassignableTopicResponse(Struct, gc=False):
    """One result for each thing asked."""

    name: str = ""  # Name of the topic.
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[ReassignablePartitionResponse]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = ReassignablePartitionResponse.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterPartitionReassignmentsResponse(Struct, gc=False):
    """Answers a request to begin or cancel moves of replicas."""

    API_KEY: ClassVar[int] = 45
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    allow_replication_factor_change: bool = True  # False if a reassignment must keep the number of replicas. [1+]
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    responses: list[ReassignableTopicResponse] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 1:
                throttle_time_ms, allow_replication_factor_change, error_code = _read_i4_bool_i2(buffer, position)
                position += 7
            else:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
                allow_replication_factor_change = True
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            responses: list[ReassignableTopicResponse]
            count, position = read_compact_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = ReassignableTopicResponse.read(buffer, position, version)
                responses.append(responses_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, allow_replication_factor_change, error_code, error_message, responses, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterPartitionReassignmentsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if version >= 1:
            append(_write_i4_bool_i2(self.throttle_time_ms, self.allow_replication_factor_change, self.error_code))
        else:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
