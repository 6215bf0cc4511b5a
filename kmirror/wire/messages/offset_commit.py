"""OffsetCommitRequest and OffsetCommitResponse. Generated from OffsetCommitRequest.json and OffsetCommitResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_i4_i8_i4 = struct.Struct(">iqi").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_i4_i8_i4 = struct.Struct(">iqi").pack
_write_i8 = struct.Struct(">q").pack
_write_uuid = struct.Struct(">16s").pack


class OffsetCommitRequestPartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    committed_offset: int = 0  # Offset at which the consumer goes on.
    committed_leader_epoch: int = -1  # Leader epoch of the last consumed record, -1 if unknown. [6+]
    committed_metadata: str | None = ""  # Text that the consumer wants kept with the offset.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            partition_index, committed_offset, committed_leader_epoch = _read_i4_i8_i4(buffer, position)
            position += 16
        else:
            partition_index, committed_offset = _read_i4_i8(buffer, position)
            position += 12
            committed_leader_epoch = -1
        committed_metadata: str | None
        if version >= 8:
            committed_metadata, position = read_compact_nullable_string(buffer, position)
        else:
            committed_metadata, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 8:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, committed_offset, committed_leader_epoch, committed_metadata, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 8:
            raise unsupported_field("OffsetCommitRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            append(_write_i4_i8_i4(self.partition_index, self.committed_offset, self.committed_leader_epoch))
        else:
            append(_write_i4_i8(self.partition_index, self.committed_offset))
        if version >= 8:
            out.write_compact_nullable_string(self.committed_metadata)
        else:
            out.write_nullable_string(self.committed_metadata)
        if version >= 8:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetCommitRequestTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic. [2-9]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [10+]
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str
        if version <= 9:
            if version >= 8:
                name, position = read_compact_string(buffer, position)
            else:
                name, position = read_string(buffer, position)
        else:
            name = ""
        if version >= 10:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partitions: list[OffsetCommitRequestPartition]
        if version >= 8:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetCommitRequestPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 8:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 8:
            raise unsupported_field("OffsetCommitRequest", "unknown_tagged_fields", version)
        append = out.append
        if version <= 9:
            if version >= 8:
                out.write_compact_string(self.name)
            else:
                out.write_string(self.name)
        if version >= 10:
            append(_write_uuid(self.topic_id.raw))
        if version >= 8:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 8:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetCommitRequest(Struct, gc=False):
    """Asks to store how far a group has consumed."""

    API_KEY: ClassVar[int] = 8
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int | None] = 8

    group_id: str = ""  # Name of the group.
    generation_id_or_member_epoch: int = -1  # Generation of a classic member or epoch of a modern one, -1 for neither.
    member_id: str = ""  # Id of the member; empty when it has none yet.
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [7+]
    retention_time_ms: int = -1  # How long to keep the commit, -1 for the broker's default. [2-4]
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 8:
                group_id, position = read_compact_string(buffer, position)
            else:
                group_id, position = read_string(buffer, position)
            (generation_id_or_member_epoch,) = _read_i4(buffer, position)
            position += 4
            if version >= 8:
                member_id, position = read_compact_string(buffer, position)
            else:
                member_id, position = read_string(buffer, position)
            group_instance_id: str | None
            if version >= 7:
                if version >= 8:
                    group_instance_id, position = read_compact_nullable_string(buffer, position)
                else:
                    group_instance_id, position = read_nullable_string(buffer, position)
            else:
                group_instance_id = None
            if version >= 5:
                retention_time_ms = -1
            else:
                (retention_time_ms,) = _read_i8(buffer, position)
                position += 8
            topics: list[OffsetCommitRequestTopic]
            if version >= 8:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OffsetCommitRequestTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 8:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, generation_id_or_member_epoch, member_id, group_instance_id, retention_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetCommitRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 7:
            if self.group_instance_id is not None:
                raise unsupported_field("OffsetCommitRequest", "group_instance_id", version)
        if self.unknown_tagged_fields and version < 8:
            raise unsupported_field("OffsetCommitRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 8:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        append(_write_i4(self.generation_id_or_member_epoch))
        if version >= 8:
            out.write_compact_string(self.member_id)
        else:
            out.write_string(self.member_id)
        if version >= 7:
            if version >= 8:
                out.write_compact_nullable_string(self.group_instance_id)
            else:
                out.write_nullable_string(self.group_instance_id)
        if version >= 5:
            pass
        else:
            append(_write_i8(self.retention_time_ms))
        if version >= 8:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 8:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetCommitResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        unknown_tagged_fields: TaggedFields = ()
        if version >= 8:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 8:
            raise unsupported_field("OffsetCommitResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        if version >= 8:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetCommitResponseTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic. [2-9]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [10+]
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str
        if version <= 9:
            if version >= 8:
                name, position = read_compact_string(buffer, position)
            else:
                name, position = read_string(buffer, position)
        else:
            name = ""
        if version >= 10:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partitions: list[OffsetCommitResponsePartition]
        if version >= 8:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetCommitResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 8:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 8:
            raise unsupported_field("OffsetCommitResponse", "unknown_tagged_fields", version)
        append = out.append
        if version <= 9:
            if version >= 8:
                out.write_compact_string(self.name)
            else:
                out.write_string(self.name)
        if version >= 10:
            append(_write_uuid(self.topic_id.raw))
        if version >= 8:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 8:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetCommitResponse(Struct, gc=False):
    """Answers a request to store how far a group has consumed."""

    API_KEY: ClassVar[int] = 8
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int | None] = 8

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [3+]
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                throttle_time_ms = 0
            topics: list[OffsetCommitResponseTopic]
            if version >= 8:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = OffsetCommitResponseTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 8:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetCommitResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 8:
            raise unsupported_field("OffsetCommitResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            append(_write_i4(self.throttle_time_ms))
        if version >= 8:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 8:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
