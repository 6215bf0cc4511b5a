"""DeleteShareGroupStateRequest and DeleteShareGroupStateResponse. Generated from DeleteShareGroupStateRequest.json and DeleteShareGroupStateResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_uuid = struct.Struct(">16s").pack


class PartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteStateData(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[PartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[PartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteShareGroupStateRequest(Struct, gc=False):
    """Asks to delete the state of share partitions."""

    API_KEY: ClassVar[int] = 86
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_id: str = ""  # Name of the group.
    topics: list[DeleteStateData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_compact_string(buffer, position)
            topics: list[DeleteStateData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DeleteStateData.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteShareGroupStateRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class PartitionResult(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteStateResult(Struct, gc=False):
    """One result for each thing asked."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[PartitionResult] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[PartitionResult]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionResult.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteShareGroupStateResponse(Struct, gc=False):
    """Answers a request to delete the state of share partitions."""

    API_KEY: ClassVar[int] = 86
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    results: list[DeleteStateResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            results: list[DeleteStateResult]
            count, position = read_compact_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = DeleteStateResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteShareGroupStateResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
