"""DescribeShareGroupOffsetsRequest and DescribeShareGroupOffsetsResponse. Generated from DescribeShareGroupOffsetsRequest.json and DescribeShareGroupOffsetsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_tagged_fields,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i8_i4_i2 = struct.Struct(">iqih").unpack_from
_read_i4_i8_i4_i8_i2 = struct.Struct(">iqiqh").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i8_i4_i2 = struct.Struct(">iqih").pack
_write_i4_i8_i4_i8_i2 = struct.Struct(">iqiqh").pack
_write_uuid = struct.Struct(">16s").pack


class DescribeShareGroupOffsetsRequestTopic(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        out.write_compact_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeShareGroupOffsetsRequestGroup(Struct, gc=False):
    """Groups concerned."""

    group_id: str = ""  # Name of the group.
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        group_id, position = read_compact_string(buffer, position)
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None
        count, position = read_compact_nullable_array_length(buffer, position)
        if count < 0:
            topics = None
        else:
            topics = []
            for _ in range(count):
                topics_element, position = DescribeShareGroupOffsetsRequestTopic.read(buffer, position, version)
                topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(group_id, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
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


class DescribeShareGroupOffsetsRequest(Struct, gc=False):
    """Asks to describe the start offsets of share groups."""

    API_KEY: ClassVar[int] = 90
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)  # Groups concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            groups: list[DescribeShareGroupOffsetsRequestGroup]
            count, position = read_compact_array_length(buffer, position)
            groups = []
            for _ in range(count):
                groups_element, position = DescribeShareGroupOffsetsRequestGroup.read(buffer, position, version)
                groups.append(groups_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(groups, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeShareGroupOffsetsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.groups))
        for groups_element in self.groups:
            groups_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeShareGroupOffsetsResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    start_offset: int = 0  # First offset that share consumers may still get, -1 if unset.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    lag: int = -1  # How far this is behind. [1+]
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            partition_index, start_offset, leader_epoch, lag, error_code = _read_i4_i8_i4_i8_i2(buffer, position)
            position += 26
        else:
            partition_index, start_offset, leader_epoch, error_code = _read_i4_i8_i4_i2(buffer, position)
            position += 18
            lag = -1
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, start_offset, leader_epoch, lag, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if version >= 1:
            append(_write_i4_i8_i4_i8_i2(self.partition_index, self.start_offset, self.leader_epoch, self.lag, self.error_code))
        else:
            append(_write_i4_i8_i4_i2(self.partition_index, self.start_offset, self.leader_epoch, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeShareGroupOffsetsResponseTopic(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[DescribeShareGroupOffsetsResponsePartition]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DescribeShareGroupOffsetsResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeShareGroupOffsetsResponseGroup(Struct, gc=False):
    """Groups concerned."""

    group_id: str = ""  # Name of the group.
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)  # Topics concerned.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        group_id, position = read_compact_string(buffer, position)
        topics: list[DescribeShareGroupOffsetsResponseTopic]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = DescribeShareGroupOffsetsResponseTopic.read(buffer, position, version)
            topics.append(topics_element)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(group_id, topics, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeShareGroupOffsetsResponse(Struct, gc=False):
    """Answers a request to describe the start offsets of share groups."""

    API_KEY: ClassVar[int] = 90
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)  # Groups concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            groups: list[DescribeShareGroupOffsetsResponseGroup]
            count, position = read_compact_array_length(buffer, position)
            groups = []
            for _ in range(count):
                groups_element, position = DescribeShareGroupOffsetsResponseGroup.read(buffer, position, version)
                groups.append(groups_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, groups, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeShareGroupOffsetsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        out.write_compact_array_length(len(self.groups))
        for groups_element in self.groups:
            groups_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
