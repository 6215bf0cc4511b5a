"""ConsumerGroupCurrentMemberAssignmentValue. Generated from ConsumerGroupCurrentMemberAssignmentValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_int32s,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4_i4_i1 = struct.Struct(">iib").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4_i4_i1 = struct.Struct(">iib").pack
_write_uuid = struct.Struct(">16s").pack


class TopicPartitions(Struct, gc=False):
    """Partitions that the member must give up before it gets others."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    assignment_epochs: list[int] | None = field(default_factory=list)  # For each assigned partition, the epoch in which the member got it.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        assignment_epochs: list[int] | None = []
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            tag_count, position = read_unsigned_varint(buffer, position)
            for _ in range(tag_count):
                tag, position = read_unsigned_varint(buffer, position)
                size, position = read_unsigned_varint(buffer, position)
                if tag == 0:
                    count, position = read_compact_nullable_array_length(buffer, position)
                    if count < 0:
                        assignment_epochs = None
                    else:
                        assignment_epochs, position = read_int32s(buffer, position, count)
                else:
                    value, position = read_unknown_tagged_field(buffer, position, size)
                    unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(topic_id, partitions, assignment_epochs, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        tagged = list(self.unknown_tagged_fields)
        if self.assignment_epochs is None or self.assignment_epochs != []:
            assignment_epochs_out = Writer()
            if self.assignment_epochs is None:
                assignment_epochs_out.append(b"\0")
            else:
                assignment_epochs_out.write_compact_array_length(len(self.assignment_epochs))
                assignment_epochs_out.write_int32s(self.assignment_epochs)
            tagged.append((0, assignment_epochs_out.to_bytes()))
        out.write_tagged_fields(tagged)


class ConsumerGroupCurrentMemberAssignmentValue(Struct, gc=False):
    """Value of the record of what a consumer group's member has."""

    API_KEY: ClassVar[int] = 8
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    previous_member_epoch: int = 0  # Epoch of the member before this one.
    state: int = 0  # State of the member, as a number.
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)  # Partitions that the member owns.
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)  # Partitions that the member must give up before it gets others.
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
            partitions_pending_revocation: list[TopicPartitions]
            count, position = read_compact_array_length(buffer, position)
            partitions_pending_revocation = []
            for _ in range(count):
                partitions_pending_revocation_element, position = TopicPartitions.read(buffer, position, version)
                partitions_pending_revocation.append(partitions_pending_revocation_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(member_epoch, previous_member_epoch, state, assigned_partitions, partitions_pending_revocation, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupCurrentMemberAssignmentValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4_i1(self.member_epoch, self.previous_member_epoch, self.state))
        out.write_compact_array_length(len(self.assigned_partitions))
        for assigned_partitions_element in self.assigned_partitions:
            assigned_partitions_element.write(out, version)
        out.write_compact_array_length(len(self.partitions_pending_revocation))
        for partitions_pending_revocation_element in self.partitions_pending_revocation:
            partitions_pending_revocation_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
