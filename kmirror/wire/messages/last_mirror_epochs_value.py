"""LastMirrorEpochsValue. Generated from LastMirrorEpochsValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_tagged_fields,
)

_read_i4_i4 = struct.Struct(">ii").unpack_from
_write_i4_i4 = struct.Struct(">ii").pack


class Partition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    last_mirror_epoch: int = 0  # Last leader epoch taken over from the source, -1 for none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, last_mirror_epoch = _read_i4_i4(buffer, position)
        position += 8
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, last_mirror_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4(self.partition_index, self.last_mirror_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Topic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[Partition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[Partition]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = Partition.read(buffer, position, version)
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


class LastMirrorEpochsValue(Struct, gc=False):
    """Value of the record of the last epochs that mirror partitions took over (KIP-1279)."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[Topic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[Topic]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = Topic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("LastMirrorEpochsValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
