"""ShareGroupTargetAssignmentMemberValue. Generated from ShareGroupTargetAssignmentMemberValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_int32s,
    read_tagged_fields,
)

_read_uuid = struct.Struct(">16s").unpack_from
_write_uuid = struct.Struct(">16s").pack


class TopicPartition(Struct, gc=False):
    """Topics with their partitions."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
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
        out.write_int32s(self.partitions)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ShareGroupTargetAssignmentMemberValue(Struct, gc=False):
    """Value of the record of what a share group's member is to have."""

    API_KEY: ClassVar[int] = 13
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_partitions: list[TopicPartition] = field(default_factory=list)  # Topics with their partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topic_partitions: list[TopicPartition]
            count, position = read_compact_array_length(buffer, position)
            topic_partitions = []
            for _ in range(count):
                topic_partitions_element, position = TopicPartition.read(buffer, position, version)
                topic_partitions.append(topic_partitions_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topic_partitions, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareGroupTargetAssignmentMemberValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topic_partitions))
        for topic_partitions_element in self.topic_partitions:
            topic_partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
