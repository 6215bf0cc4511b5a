"""DeleteRecordsRequest and DeleteRecordsResponse. Generated from DeleteRecordsRequest.json and DeleteRecordsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_i4_i8_i2 = struct.Struct(">iqh").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_i4_i8_i2 = struct.Struct(">iqh").pack


class DeleteRecordsPartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    offset: int = 0  # Offset found, -1 for none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, offset = _read_i4_i8(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, offset, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteRecordsRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i8(self.partition_index, self.offset))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteRecordsTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[DeleteRecordsPartition]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DeleteRecordsPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteRecordsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version == 2:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteRecordsRequest(Struct, gc=False):
    """Asks to delete records below an offset."""

    API_KEY: ClassVar[int] = 21
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: list[DeleteRecordsTopic] = field(default_factory=list)  # Topics concerned.
    timeout_ms: int = 0  # How long to wait for the work to be done.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[DeleteRecordsTopic]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DeleteRecordsTopic.read(buffer, position, version)
                topics.append(topics_element)
            (timeout_ms,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, timeout_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteRecordsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteRecordsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 2:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        append(_write_i4(self.timeout_ms))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteRecordsPartitionResult(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    low_watermark: int = 0  # First offset that is left.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, low_watermark, error_code = _read_i4_i8_i2(buffer, position)
        position += 14
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, low_watermark, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteRecordsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i8_i2(self.partition_index, self.low_watermark, self.error_code))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteRecordsTopicResult(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[DeleteRecordsPartitionResult]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DeleteRecordsPartitionResult.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteRecordsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version == 2:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteRecordsResponse(Struct, gc=False):
    """Answers a request to delete records below an offset."""

    API_KEY: ClassVar[int] = 21
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            topics: list[DeleteRecordsTopicResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DeleteRecordsTopicResult.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteRecordsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DeleteRecordsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version == 2:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
