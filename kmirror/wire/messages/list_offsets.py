"""ListOffsetsRequest and ListOffsetsResponse. Generated from ListOffsetsRequest.json and ListOffsetsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i1 = struct.Struct(">ib").unpack_from
_read_i4_i2_i8_i8 = struct.Struct(">ihqq").unpack_from
_read_i4_i2_i8_i8_i4 = struct.Struct(">ihqqi").unpack_from
_read_i4_i4_i8 = struct.Struct(">iiq").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i1 = struct.Struct(">ib").pack
_write_i4_i2_i8_i8 = struct.Struct(">ihqq").pack
_write_i4_i2_i8_i8_i4 = struct.Struct(">ihqqi").pack
_write_i4_i4_i8 = struct.Struct(">iiq").pack
_write_i4_i8 = struct.Struct(">iq").pack


class ListOffsetsPartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    current_leader_epoch: int = -1  # Leader epoch that the caller knows, to be fenced if it is old; -1 for none. [4+]
    timestamp: int = 0  # Timestamp to look for or found, in ms; negative in requests: -1 end, -2 start, -3 largest, -4 local start, -5 tiered end, -6 earliest to be tiered.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            partition_index, current_leader_epoch, timestamp = _read_i4_i4_i8(buffer, position)
            position += 16
        else:
            partition_index, timestamp = _read_i4_i8(buffer, position)
            position += 12
            current_leader_epoch = -1
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, current_leader_epoch, timestamp, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("ListOffsetsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            append(_write_i4_i4_i8(self.partition_index, self.current_leader_epoch, self.timestamp))
        else:
            append(_write_i4_i8(self.partition_index, self.timestamp))
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListOffsetsTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[ListOffsetsPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[ListOffsetsPartition]
        if version >= 6:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = ListOffsetsPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("ListOffsetsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 6:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListOffsetsRequest(Struct, gc=False):
    """Asks to find offsets by timestamp."""

    API_KEY: ClassVar[int] = 2
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    replica_id: int = 0  # Number of the replica, -1 for a consumer.
    isolation_level: int = 0  # Which records are visible: 0 all, 1 committed ones. [2+]
    topics: list[ListOffsetsTopic] = field(default_factory=list)  # Topics concerned.
    timeout_ms: int = 0  # How long to wait for the work to be done. [10+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                replica_id, isolation_level = _read_i4_i1(buffer, position)
                position += 5
            else:
                (replica_id,) = _read_i4(buffer, position)
                position += 4
                isolation_level = 0
            topics: list[ListOffsetsTopic]
            if version >= 6:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = ListOffsetsTopic.read(buffer, position, version)
                topics.append(topics_element)
            if version >= 10:
                (timeout_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                timeout_ms = 0
            unknown_tagged_fields: TaggedFields = ()
            if version >= 6:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(replica_id, isolation_level, topics, timeout_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListOffsetsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 2:
            if self.isolation_level:
                raise unsupported_field("ListOffsetsRequest", "isolation_level", version)
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("ListOffsetsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            append(_write_i4_i1(self.replica_id, self.isolation_level))
        else:
            append(_write_i4(self.replica_id))
        if version >= 6:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 10:
            append(_write_i4(self.timeout_ms))
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListOffsetsPartitionResponse(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    timestamp: int = -1  # Timestamp to look for or found, in ms; negative in requests: -1 end, -2 start, -3 largest, -4 local start, -5 tiered end, -6 earliest to be tiered.
    offset: int = -1  # Offset found, -1 for none.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown. [4+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            partition_index, error_code, timestamp, offset, leader_epoch = _read_i4_i2_i8_i8_i4(buffer, position)
            position += 26
        else:
            partition_index, error_code, timestamp, offset = _read_i4_i2_i8_i8(buffer, position)
            position += 22
            leader_epoch = -1
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, timestamp, offset, leader_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("ListOffsetsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            append(_write_i4_i2_i8_i8_i4(self.partition_index, self.error_code, self.timestamp, self.offset, self.leader_epoch))
        else:
            append(_write_i4_i2_i8_i8(self.partition_index, self.error_code, self.timestamp, self.offset))
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListOffsetsTopicResponse(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[ListOffsetsPartitionResponse]
        if version >= 6:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = ListOffsetsPartitionResponse.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("ListOffsetsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 6:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ListOffsetsResponse(Struct, gc=False):
    """Answers a request to find offsets by timestamp."""

    API_KEY: ClassVar[int] = 2
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 11
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [2+]
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                throttle_time_ms = 0
            topics: list[ListOffsetsTopicResponse]
            if version >= 6:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = ListOffsetsTopicResponse.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 6:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListOffsetsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("ListOffsetsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            append(_write_i4(self.throttle_time_ms))
        if version >= 6:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
