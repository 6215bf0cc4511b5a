"""WriteShareGroupStateRequest and WriteShareGroupStateResponse. Generated from WriteShareGroupStateRequest.json and WriteShareGroupStateResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4_i4_i8 = struct.Struct(">iiiq").unpack_from
_read_i4_i4_i4_i8_i4 = struct.Struct(">iiiqi").unpack_from
_read_i8_i8_i1_i2 = struct.Struct(">qqbh").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4_i4_i8 = struct.Struct(">iiiq").pack
_write_i4_i4_i4_i8_i4 = struct.Struct(">iiiqi").pack
_write_i8_i8_i1_i2 = struct.Struct(">qqbh").pack
_write_uuid = struct.Struct(">16s").pack


class StateBatch(Struct, gc=False):
    """States of ranges of offsets."""

    first_offset: int = 0  # First offset of the transaction or range.
    last_offset: int = 0  # Last offset of the range.
    delivery_state: int = 0  # State of the records: 0 available, 2 acknowledged, 4 archived.
    delivery_count: int = 0  # How often the records were handed out.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        first_offset, last_offset, delivery_state, delivery_count = _read_i8_i8_i1_i2(buffer, position)
        position += 19
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(first_offset, last_offset, delivery_state, delivery_count, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i8_i1_i2(self.first_offset, self.last_offset, self.delivery_state, self.delivery_count))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class PartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    state_epoch: int = 0  # Epoch of the share partition's state.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    start_offset: int = 0  # First offset that share consumers may still get, -1 if unset.
    delivery_complete_count: int = -1  # Records at or after the start offset that need no more delivery. [1+]
    state_batches: list[StateBatch] = field(default_factory=list)  # States of ranges of offsets.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            partition, state_epoch, leader_epoch, start_offset, delivery_complete_count = _read_i4_i4_i4_i8_i4(buffer, position)
            position += 24
        else:
            partition, state_epoch, leader_epoch, start_offset = _read_i4_i4_i4_i8(buffer, position)
            position += 20
            delivery_complete_count = -1
        state_batches: list[StateBatch]
        count, position = read_compact_array_length(buffer, position)
        state_batches = []
        for _ in range(count):
            state_batches_element, position = StateBatch.read(buffer, position, version)
            state_batches.append(state_batches_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition, state_epoch, leader_epoch, start_offset, delivery_complete_count, state_batches, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if version >= 1:
            append(_write_i4_i4_i4_i8_i4(self.partition, self.state_epoch, self.leader_epoch, self.start_offset, self.delivery_complete_count))
        else:
            append(_write_i4_i4_i4_i8(self.partition, self.state_epoch, self.leader_epoch, self.start_offset))
        out.write_compact_array_length(len(self.state_batches))
        for state_batches_element in self.state_batches:
            state_batches_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WriteStateData(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[PartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[PartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
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
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WriteShareGroupStateRequest(Struct, gc=False):
    """Asks to write the state of share partitions."""

    API_KEY: ClassVar[int] = 85
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_id: str = ""  # Name of the group.
    topics: list[WriteStateData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_compact_string(buffer, position)
            topics: list[WriteStateData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = WriteStateData.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("WriteShareGroupStateRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class PartitionResult(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WriteStateResult(Struct, gc=False):
    """One result for each thing asked."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[PartitionResult] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[PartitionResult]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionResult.read(buffer, position, version)
            partitions.append(partitions_element)
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
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WriteShareGroupStateResponse(Struct, gc=False):
    """Answers a request to write the state of share partitions."""

    API_KEY: ClassVar[int] = 85
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    results: list[WriteStateResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            results: list[WriteStateResult]
            count, position = read_compact_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = WriteStateResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("WriteShareGroupStateResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
