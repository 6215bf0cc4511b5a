"""DescribeMirrorsRequest and DescribeMirrorsResponse. Generated from DescribeMirrorsRequest.json and DescribeMirrorsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_tagged_fields,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i8_i8_i8 = struct.Struct(">iqqq").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i8_i8_i8 = struct.Struct(">iqqq").pack


class DescribeMirrorsRequest(Struct, gc=False):
    """Asks to describe mirrors and their partitions (KIP-1279)."""

    API_KEY: ClassVar[int] = 99
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    mirror_names: list[str] = field(default_factory=list)  # Mirrors to describe; empty for all.
    include_authorized_operations: bool = False  # True if the answer is to say what the caller may do.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            mirror_names: list[str]
            count, position = read_compact_array_length(buffer, position)
            mirror_names, position = read_compact_strings(buffer, position, count)
            (include_authorized_operations,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(mirror_names, include_authorized_operations, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeMirrorsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.mirror_names))
        out.write_compact_strings(self.mirror_names)
        append(_write_bool(self.include_authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class PartitionDetail(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    source_offset: int = -1  # High watermark at the source, -1 if unknown.
    destination_offset: int = -1  # Log end offset at the destination, -1 if unknown.
    lag: int = -1  # How far this is behind.
    state: str = ""  # State of the mirror partition.
    last_mirror_epoch: int = -1  # Last leader epoch taken over from the source, -1 for none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, source_offset, destination_offset, lag = _read_i4_i8_i8_i8(buffer, position)
        position += 28
        state, position = read_compact_string(buffer, position)
        (last_mirror_epoch,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, source_offset, destination_offset, lag, state, last_mirror_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8_i8_i8(self.partition_index, self.source_offset, self.destination_offset, self.lag))
        out.write_compact_string(self.state)
        append(_write_i4(self.last_mirror_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TopicPartitions(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[PartitionDetail] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[PartitionDetail]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionDetail.read(buffer, position, version)
            partitions.append(partitions_element)
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
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribedMirror(Struct, gc=False):
    """The mirrors."""

    error_code: int = 0  # Result as a code, 0 on success.
    mirror_name: str = ""  # Name of the mirror.
    topics: list[TopicPartitions] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        mirror_name, position = read_compact_string(buffer, position)
        topics: list[TopicPartitions]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = TopicPartitions.read(buffer, position, version)
            topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, mirror_name, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_compact_string(self.mirror_name)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeMirrorsResponse(Struct, gc=False):
    """Answers a request to describe mirrors and their partitions (KIP-1279)."""

    API_KEY: ClassVar[int] = 99
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    mirrors: list[DescribedMirror] = field(default_factory=list)  # The mirrors.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            mirrors: list[DescribedMirror]
            count, position = read_compact_array_length(buffer, position)
            mirrors = []
            for _ in range(count):
                mirrors_element, position = DescribedMirror.read(buffer, position, version)
                mirrors.append(mirrors_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, mirrors, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeMirrorsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.mirrors))
        for mirrors_element in self.mirrors:
            mirrors_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
