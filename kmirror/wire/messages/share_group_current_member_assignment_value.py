"""ShareGroupCurrentMemberAssignmentValue. Generated from ShareGroupCurrentMemberAssignmentValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i4_i4_i1 = struct.Struct(">iib").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4_i4_i1 = struct.Struct(">iib").pack
_write_uuid = struct.Struct(">16s").pack


class TopicPartitions(Struct, gc=False):
    """Partitions that the member owns."""

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


class ShareGroupCurrentMemberAssignmentValue(Struct, gc=False):
    """Value of the record of what a share group's member has."""

    API_KEY: ClassVar[int] = 14
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    previous_member_epoch: int = 0  # Epoch of the member before this one.
    state: int = 0  # State of the member, as a number.
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)  # Partitions that the member owns.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            member_epoch, previous_member_epoch, state = _read_i4_i4_i1(buffer, position)
            position += 9
            assigned_partitions: list[TopicPartitions]
            count, position = read_compact_array_length(buffer, position)
            assigned_partitions = []
            for _ in range(count):
                assigned_partitions_element, position = TopicPartitions.read(buffer, position, version)
                assigned_partitions.append(assigned_partitions_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(member_epoch, previous_member_epoch, state, assigned_partitions, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareGroupCurrentMemberAssignmentValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4_i1(self.member_epoch, self.previous_member_epoch, self.state))
        out.write_compact_array_length(len(self.assigned_partitions))
        for assigned_partitions_element in self.assigned_partitions:
            assigned_partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
