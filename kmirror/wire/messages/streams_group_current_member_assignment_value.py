"""StreamsGroupCurrentMemberAssignmentValue. Generated from StreamsGroupCurrentMemberAssignmentValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_compact_string,
    read_int32s,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4_i4_i1 = struct.Struct(">iib").unpack_from
_write_i4_i4_i1 = struct.Struct(">iib").pack


class TaskIds(Struct, gc=False):
    """Warm-up tasks that the member must give up."""

    subtopology_id: str = ""  # Name of the subtopology.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    assignment_epochs: list[int] | None = field(default_factory=list)  # For each assigned partition, the epoch in which the member got it.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        subtopology_id, position = read_compact_string(buffer, position)
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
        return cls(subtopology_id, partitions, assignment_epochs, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        out.write_compact_string(self.subtopology_id)
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


class StreamsGroupCurrentMemberAssignmentValue(Struct, gc=False):
    """Value of the record of what a streams group's member has."""

    API_KEY: ClassVar[int] = 22
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    previous_member_epoch: int = 0  # Epoch of the member before this one.
    state: int = 0  # State of the member, as a number.
    active_tasks: list[TaskIds] = field(default_factory=list)  # Tasks that the member processes.
    standby_tasks: list[TaskIds] = field(default_factory=list)  # Tasks whose state the member keeps a copy of.
    warmup_tasks: list[TaskIds] = field(default_factory=list)  # Tasks whose state the member is catching up with.
    active_tasks_pending_revocation: list[TaskIds] = field(default_factory=list)  # Tasks that the member must give up before it gets others.
    standby_tasks_pending_revocation: list[TaskIds] = field(default_factory=list)  # Standby tasks that the member must give up.
    warmup_tasks_pending_revocation: list[TaskIds] = field(default_factory=list)  # Warm-up tasks that the member must give up.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            member_epoch, previous_member_epoch, state = _read_i4_i4_i1(buffer, position)
            position += 9
            active_tasks: list[TaskIds]
            count, position = read_compact_array_length(buffer, position)
            active_tasks = []
            for _ in range(count):
                active_tasks_element, position = TaskIds.read(buffer, position, version)
                active_tasks.append(active_tasks_element)
            standby_tasks: list[TaskIds]
            count, position = read_compact_array_length(buffer, position)
            standby_tasks = []
            for _ in range(count):
                standby_tasks_element, position = TaskIds.read(buffer, position, version)
                standby_tasks.append(standby_tasks_element)
            warmup_tasks: list[TaskIds]
            count, position = read_compact_array_length(buffer, position)
            warmup_tasks = []
            for _ in range(count):
                warmup_tasks_element, position = TaskIds.read(buffer, position, version)
                warmup_tasks.append(warmup_tasks_element)
            active_tasks_pending_revocation: list[TaskIds]
            count, position = read_compact_array_length(buffer, position)
            active_tasks_pending_revocation = []
            for _ in range(count):
                active_tasks_pending_revocation_element, position = TaskIds.read(buffer, position, version)
                active_tasks_pending_revocation.append(active_tasks_pending_revocation_element)
            standby_tasks_pending_revocation: list[TaskIds]
            count, position = read_compact_array_length(buffer, position)
            standby_tasks_pending_revocation = []
            for _ in range(count):
                standby_tasks_pending_revocation_element, position = TaskIds.read(buffer, position, version)
                standby_tasks_pending_revocation.append(standby_tasks_pending_revocation_element)
            warmup_tasks_pending_revocation: list[TaskIds]
            count, position = read_compact_array_length(buffer, position)
            warmup_tasks_pending_revocation = []
            for _ in range(count):
                warmup_tasks_pending_revocation_element, position = TaskIds.read(buffer, position, version)
                warmup_tasks_pending_revocation.append(warmup_tasks_pending_revocation_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(member_epoch, previous_member_epoch, state, active_tasks, standby_tasks, warmup_tasks, active_tasks_pending_revocation, standby_tasks_pending_revocation, warmup_tasks_pending_revocation, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupCurrentMemberAssignmentValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4_i1(self.member_epoch, self.previous_member_epoch, self.state))
        out.write_compact_array_length(len(self.active_tasks))
        for active_tasks_element in self.active_tasks:
            active_tasks_element.write(out, version)
        out.write_compact_array_length(len(self.standby_tasks))
        for standby_tasks_element in self.standby_tasks:
            standby_tasks_element.write(out, version)
        out.write_compact_array_length(len(self.warmup_tasks))
        for warmup_tasks_element in self.warmup_tasks:
            warmup_tasks_element.write(out, version)
        out.write_compact_array_length(len(self.active_tasks_pending_revocation))
        for active_tasks_pending_revocation_element in self.active_tasks_pending_revocation:
            active_tasks_pending_revocation_element.write(out, version)
        out.write_compact_array_length(len(self.standby_tasks_pending_revocation))
        for standby_tasks_pending_revocation_element in self.standby_tasks_pending_revocation:
            standby_tasks_pending_revocation_element.write(out, version)
        out.write_compact_array_length(len(self.warmup_tasks_pending_revocation))
        for warmup_tasks_pending_revocation_element in self.warmup_tasks_pending_revocation:
            warmup_tasks_pending_revocation_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
