"""StreamsGroupTargetAssignmentMemberValue. Generated from StreamsGroupTargetAssignmentMemberValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_string,
    read_int32s,
    read_tagged_fields,
)



class TaskIds(Struct, gc=False):
    """Tasks whose state the member is catching up with."""

    subtopology_id: str = ""  # Name of the subtopology.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        subtopology_id, position = read_compact_string(buffer, position)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(subtopology_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.subtopology_id)
        out.write_compact_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class StreamsGroupTargetAssignmentMemberValue(Struct, gc=False):
    """Value of the record of what a streams group's member is to have."""

    API_KEY: ClassVar[int] = 21
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    active_tasks: list[TaskIds] = field(default_factory=list)  # Tasks that the member processes.
    standby_tasks: list[TaskIds] = field(default_factory=list)  # Tasks whose state the member keeps a copy of.
    warmup_tasks: list[TaskIds] = field(default_factory=list)  # Tasks whose state the member is catching up with.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
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
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(active_tasks, standby_tasks, warmup_tasks, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupTargetAssignmentMemberValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.active_tasks))
        for active_tasks_element in self.active_tasks:
            active_tasks_element.write(out, version)
        out.write_compact_array_length(len(self.standby_tasks))
        for standby_tasks_element in self.standby_tasks:
            standby_tasks_element.write(out, version)
        out.write_compact_array_length(len(self.warmup_tasks))
        for warmup_tasks_element in self.warmup_tasks:
            warmup_tasks_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
