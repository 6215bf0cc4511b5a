"""OffsetForLeaderEpochRequest and OffsetForLeaderEpochResponse. Generated from OffsetForLeaderEpochRequest.json and OffsetForLeaderEpochResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_i2_i4_i4_i8 = struct.Struct(">hiiq").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i4_i4 = struct.Struct(">iii").unpack_from
_write_i2_i4_i4_i8 = struct.Struct(">hiiq").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i4_i4 = struct.Struct(">iii").pack


class OffsetForLeaderPartition(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    current_leader_epoch: int = -1  # Leader epoch that the caller knows, to be fenced if it is old; -1 for none.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition, current_leader_epoch, leader_epoch = _read_i4_i4_i4(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if version == 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition, current_leader_epoch, leader_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetForLeaderEpochRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i4_i4(self.partition, self.current_leader_epoch, self.leader_epoch))
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetForLeaderTopic(Struct, gc=False):
    """Topics concerned."""

    topic: str = ""  # Name of the topic.
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            topic, position = read_compact_string(buffer, position)
        else:
            topic, position = read_string(buffer, position)
        partitions: list[OffsetForLeaderPartition]
        if version >= 4:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetForLeaderPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetForLeaderEpochRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.topic)
        else:
            out.write_string(self.topic)
        if version == 4:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetForLeaderEpochRequest(Struct, gc=False):
    """Asks to find where leader epochs end."""

    API_KEY: ClassVar[int] = 23
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    replica_id: int = -2  # Number of the replica, -1 for a consumer. [3+]
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                (replica_id,) = _read_i4(buffer, position)
                position += 4
            else:
                replica_id = -2
            topics: list[OffsetForLeaderTopic]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OffsetForLeaderTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(replica_id, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetForLeaderEpochRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetForLeaderEpochRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            append(_write_i4(self.replica_id))
        if version == 4:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EpochEndOffset(Struct, gc=False):
    """Partitions concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    partition: int = 0  # Number of the partition.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown.
    end_offset: int = -1  # Offset after the last one of the epoch or range.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        error_code, partition, leader_epoch, end_offset = _read_i2_i4_i4_i8(buffer, position)
        position += 18
        unknown_tagged_fields: TaggedFields = ()
        if version == 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, partition, leader_epoch, end_offset, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetForLeaderEpochResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2_i4_i4_i8(self.error_code, self.partition, self.leader_epoch, self.end_offset))
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetForLeaderTopicResult(Struct, gc=False):
    """Topics concerned."""

    topic: str = ""  # Name of the topic.
    partitions: list[EpochEndOffset] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 4:
            topic, position = read_compact_string(buffer, position)
        else:
            topic, position = read_string(buffer, position)
        partitions: list[EpochEndOffset]
        if version >= 4:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = EpochEndOffset.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetForLeaderEpochResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 4:
            out.write_compact_string(self.topic)
        else:
            out.write_string(self.topic)
        if version == 4:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetForLeaderEpochResponse(Struct, gc=False):
    """Answers a request to find where leader epochs end."""

    API_KEY: ClassVar[int] = 23
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            topics: list[OffsetForLeaderTopicResult]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OffsetForLeaderTopicResult.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetForLeaderEpochResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetForLeaderEpochResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version == 4:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version == 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
