"""DescribeLogDirsRequest and DescribeLogDirsResponse. Generated from DescribeLogDirsRequest.json and DescribeLogDirsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i8_i8_bool = struct.Struct(">iqq?").unpack_from
_read_i8_i8 = struct.Struct(">qq").unpack_from
_read_i8_i8_bool = struct.Struct(">qq?").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i8_i8_bool = struct.Struct(">iqq?").pack
_write_i8_i8 = struct.Struct(">qq").pack
_write_i8_i8_bool = struct.Struct(">qq?").pack


class DescribableLogDirTopic(Struct, gc=False):
    """Topics concerned."""

    topic: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            topic, position = read_compact_string(buffer, position)
        else:
            topic, position = read_string(buffer, position)
        partitions: list[int]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeLogDirsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.topic)
        else:
            out.write_string(self.topic)
        if version >= 2:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeLogDirsRequest(Struct, gc=False):
    """Asks to describe log directories and what is in them."""

    API_KEY: ClassVar[int] = 35
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[DescribableLogDirTopic] | None
            if version >= 2:
                count, position = read_compact_nullable_array_length(buffer, position)
            else:
                count, position = read_nullable_array_length(buffer, position)
            if count < 0:
                topics = None
            else:
                topics = []
                for _ in range(count):
                    topics_element, position = DescribableLogDirTopic.read(buffer, position, version)
                    topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeLogDirsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeLogDirsRequest", "unknown_tagged_fields", version)
        append = out.append
        if self.topics is None:
            if version >= 2:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version >= 2:
                out.write_compact_array_length(len(self.topics))
            else:
                out.write_array_length(len(self.topics))
            for topics_element in self.topics:
                topics_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeLogDirsPartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    partition_size: int = 0  # Size of the replica's log in bytes.
    offset_lag: int = 0  # Log end offset less the replica's, as far as known.
    is_future_key: bool = False  # True if this replica is the copy that will replace the current one.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, partition_size, offset_lag, is_future_key = _read_i4_i8_i8_bool(buffer, position)
        position += 21
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, partition_size, offset_lag, is_future_key, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i8_i8_bool(self.partition_index, self.partition_size, self.offset_lag, self.is_future_key))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeLogDirsTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[DescribeLogDirsPartition]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DescribeLogDirsPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 2:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeLogDirsResult(Struct, gc=False):
    """One result for each thing asked."""

    error_code: int = 0  # Result as a code, 0 on success.
    log_dir: str = ""  # Path of the log directory.
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)  # Topics concerned.
    total_bytes: int = -1  # Size of the volume in bytes, -1 if unknown. [4+]
    usable_bytes: int = -1  # Free bytes of the volume, -1 if unknown. [4+]
    is_cordoned: bool = False  # True if the directory takes no new partitions. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        if version >= 2:
            log_dir, position = read_compact_string(buffer, position)
        else:
            log_dir, position = read_string(buffer, position)
        topics: list[DescribeLogDirsTopic]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = DescribeLogDirsTopic.read(buffer, position, version)
            topics.append(topics_element)
        if version >= 5:
            total_bytes, usable_bytes, is_cordoned = _read_i8_i8_bool(buffer, position)
            position += 17
        elif version >= 4:
            total_bytes, usable_bytes = _read_i8_i8(buffer, position)
            position += 16
            is_cordoned = False
        else:
            total_bytes = -1
            usable_bytes = -1
            is_cordoned = False
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, log_dir, topics, total_bytes, usable_bytes, is_cordoned, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_string(self.log_dir)
        else:
            out.write_string(self.log_dir)
        if version >= 2:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 5:
            append(_write_i8_i8_bool(self.total_bytes, self.usable_bytes, self.is_cordoned))
        elif version >= 4:
            append(_write_i8_i8(self.total_bytes, self.usable_bytes))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DescribeLogDirsResponse(Struct, gc=False):
    """Answers a request to describe log directories and what is in them."""

    API_KEY: ClassVar[int] = 35
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success. [3+]
    results: list[DescribeLogDirsResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
            else:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
                error_code = 0
            results: list[DescribeLogDirsResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = DescribeLogDirsResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeLogDirsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("DescribeLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i4(self.throttle_time_ms))
        if version >= 2:
            out.write_compact_array_length(len(self.results))
        else:
            out.write_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
