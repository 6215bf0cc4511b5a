"""OffsetDeleteRequest and OffsetDeleteResponse. Generated from OffsetDeleteRequest.json and OffsetDeleteResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_array_length,
    read_string,
)

_read_i2_i4 = struct.Struct(">hi").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i2_i4 = struct.Struct(">hi").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class OffsetDeleteRequestPartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        return cls(partition_index), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition_index))


class OffsetDeleteRequestTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)  # Partitions concerned.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_string(buffer, position)
        partitions: list[OffsetDeleteRequestPartition]
        count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetDeleteRequestPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        return cls(name, partitions), position

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.name)
        out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)


class OffsetDeleteRequest(Struct, gc=False):
    """Asks to delete stored offsets of a group."""

    API_KEY: ClassVar[int] = 47
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""  # Name of the group.
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)  # Topics concerned.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_string(buffer, position)
            topics: list[OffsetDeleteRequestTopic]
            count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OffsetDeleteRequestTopic.read(buffer, position, version)
                topics.append(topics_element)
            return cls(group_id, topics), position
        except READ_ERRORS as error:
            raise malformed("OffsetDeleteRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.group_id)
        out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)


class OffsetDeleteResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        return cls(partition_index, error_code), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))


class OffsetDeleteResponseTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)  # Partitions concerned.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_string(buffer, position)
        partitions: list[OffsetDeleteResponsePartition]
        count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetDeleteResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        return cls(name, partitions), position

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.name)
        out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)


class OffsetDeleteResponse(Struct, gc=False):
    """Answers a request to delete stored offsets of a group."""

    API_KEY: ClassVar[int] = 47
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    error_code: int = 0  # Result as a code, 0 on success.
    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)  # Topics concerned.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            error_code, throttle_time_ms = _read_i2_i4(buffer, position)
            position += 6
            topics: list[OffsetDeleteResponseTopic]
            count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OffsetDeleteResponseTopic.read(buffer, position, version)
                topics.append(topics_element)
            return cls(error_code, throttle_time_ms, topics), position
        except READ_ERRORS as error:
            raise malformed("OffsetDeleteResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2_i4(self.error_code, self.throttle_time_ms))
        out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
