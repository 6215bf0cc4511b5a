"""AlterReplicaLogDirsRequest and AlterReplicaLogDirsResponse. Generated from AlterReplicaLogDirsRequest.json and AlterReplicaLogDirsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class AlterReplicaLogDirTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[int]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterReplicaLogDirsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version == 2:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterReplicaLogDir(Struct, gc=False):
    """Log directories concerned."""

    path: str = ""  # Absolute path of the directory.
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            path, position = read_compact_string(buffer, position)
        else:
            path, position = read_string(buffer, position)
        topics: list[AlterReplicaLogDirTopic]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = AlterReplicaLogDirTopic.read(buffer, position, version)
            topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(path, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterReplicaLogDirsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.path)
        else:
            out.write_string(self.path)
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


class AlterReplicaLogDirsRequest(Struct, gc=False):
    """Asks to move replicas to other log directories."""

    API_KEY: ClassVar[int] = 34
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)  # Log directories concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            dirs: list[AlterReplicaLogDir]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            dirs = []
            for _ in range(count):
                dirs_element, position = AlterReplicaLogDir.read(buffer, position, version)
                dirs.append(dirs_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(dirs, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterReplicaLogDirsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterReplicaLogDirsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 2:
            out.write_compact_array_length(len(self.dirs))
        else:
            out.write_array_length(len(self.dirs))
        for dirs_element in self.dirs:
            dirs_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterReplicaLogDirPartitionResult(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterReplicaLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class AlterReplicaLogDirTopicResult(Struct, gc=False):
    """One result for each thing asked."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            topic_name, position = read_compact_string(buffer, position)
        else:
            topic_name, position = read_string(buffer, position)
        partitions: list[AlterReplicaLogDirPartitionResult]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = AlterReplicaLogDirPartitionResult.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterReplicaLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.topic_name)
        else:
            out.write_string(self.topic_name)
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


class AlterReplicaLogDirsResponse(Struct, gc=False):
    """Answers a request to move replicas to other log directories."""

    API_KEY: ClassVar[int] = 34
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            results: list[AlterReplicaLogDirTopicResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = AlterReplicaLogDirTopicResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterReplicaLogDirsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("AlterReplicaLogDirsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version == 2:
            out.write_compact_array_length(len(self.results))
        else:
            out.write_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
