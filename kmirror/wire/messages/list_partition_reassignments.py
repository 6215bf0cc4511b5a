"""ListPartitionReassignmentsRequest and ListPartitionReassignmentsResponse. Generated from ListPartitionReassignmentsRequest.json and ListPartitionReassignmentsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class ListPartitionReassignmentsTopics(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partition_indexes: list[int] = field(default_factory=list)  # Numbers of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partition_indexes: list[int]
        count, position = read_compact_array_length(buffer, position)
        partition_indexes, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partition_indexes, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_array_length(len(self.partition_indexes))
        out.write_int32s(self.partition_indexes)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ListPartitionReassignmentsRequest(Struct, gc=False):
    """Asks to list moves of replicas."""

    API_KEY: ClassVar[int] = 46
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: int = 60000  # How long to wait for the work to be done.
    topics: list[ListPartitionReassignmentsTopics] | None = None  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (timeout_ms,) = _read_i4(buffer, position)
            position += 4
            topics: list[ListPartitionReassignmentsTopics] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                topics = None
            else:
                topics = []
                for _ in range(count):
                    topics_element, position = ListPartitionReassignmentsTopics.read(buffer, position, version)
                    topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(timeout_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListPartitionReassignmentsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.timeout_ms))
        if self.topics is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.topics))
            for topics_element in self.topics:
                topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OngoingPartitionReassignment(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    replicas: list[int] = field(default_factory=list)  # Brokers that hold the partition, the preferred leader first.
    adding_replicas: list[int] = field(default_factory=list)  # Replicas that a reassignment is adding.
    removing_replicas: list[int] = field(default_factory=list)  # Replicas that a reassignment is removing.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        replicas: list[int]
        count, position = read_compact_array_length(buffer, position)
        replicas, position = read_int32s(buffer, position, count)
        adding_replicas: list[int]
        count, position = read_compact_array_length(buffer, position)
        adding_replicas, position = read_int32s(buffer, position, count)
        removing_replicas: list[int]
        count, position = read_compact_array_length(buffer, position)
        removing_replicas, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, replicas, adding_replicas, removing_replicas, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition_index))
        out.write_compact_array_length(len(self.replicas))
        out.write_int32s(self.replicas)
        out.write_compact_array_length(len(self.adding_replicas))
        out.write_int32s(self.adding_replicas)
        out.write_compact_array_length(len(self.removing_replicas))
        out.write_int32s(self.removing_replicas)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OngoingTopicReassignment(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[OngoingPartitionReassignment]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OngoingPartitionReassignment.read(buffer, position, version)
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


class ListPartitionReassignmentsResponse(Struct, gc=False):
    """Answers a request to list moves of replicas."""

    API_KEY: ClassVar[int] = 46
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    topics: list[OngoingTopicReassignment] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            topics: list[OngoingTopicReassignment]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OngoingTopicReassignment.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListPartitionReassignmentsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
