"""OffsetFetchRequest and OffsetFetchResponse. Generated from OffsetFetchRequest.json and OffsetFetchResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    not_null,
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_nullable_array_length,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_i4_i8_i4 = struct.Struct(">iqi").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_i4_i8_i4 = struct.Struct(">iqi").pack
_write_uuid = struct.Struct(">16s").pack


class OffsetFetchRequestTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partition_indexes: list[int] = field(default_factory=list)  # Numbers of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partition_indexes: list[int]
        if version >= 6:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partition_indexes, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partition_indexes, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("OffsetFetchRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 6:
            out.write_compact_array_length(len(self.partition_indexes))
        else:
            out.write_array_length(len(self.partition_indexes))
        out.write_int32s(self.partition_indexes)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetFetchRequestTopics(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic. [8-9]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [10+]
    partition_indexes: list[int] = field(default_factory=list)  # Numbers of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str
        if version <= 9:
            name, position = read_compact_string(buffer, position)
        else:
            name = ""
        if version >= 10:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partition_indexes: list[int]
        count, position = read_compact_array_length(buffer, position)
        partition_indexes, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, partition_indexes, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if version <= 9:
            out.write_compact_string(self.name)
        if version >= 10:
            append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partition_indexes))
        out.write_int32s(self.partition_indexes)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OffsetFetchRequestGroup(Struct, gc=False):
    """Groups concerned."""

    group_id: str = ""  # Name of the group.
    member_id: str | None = None  # Id of the member; empty when it has none yet. [9+]
    member_epoch: int = -1  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while. [9+]
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        group_id, position = read_compact_string(buffer, position)
        member_id: str | None
        if version >= 9:
            member_id, position = read_compact_nullable_string(buffer, position)
        else:
            member_id = None
        if version >= 9:
            (member_epoch,) = _read_i4(buffer, position)
            position += 4
        else:
            member_epoch = -1
        topics: list[OffsetFetchRequestTopics] | None
        count, position = read_compact_nullable_array_length(buffer, position)
        if count < 0:
            topics = None
        else:
            topics = []
            for _ in range(count):
                topics_element, position = OffsetFetchRequestTopics.read(buffer, position, version)
                topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(group_id, member_id, member_epoch, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        if version >= 9:
            out.write_compact_nullable_string(self.member_id)
        if version >= 9:
            append(_write_i4(self.member_epoch))
        if self.topics is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.topics))
            for topics_element in self.topics:
                topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OffsetFetchRequest(Struct, gc=False):
    """Asks to read how far groups have consumed."""

    API_KEY: ClassVar[int] = 9
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    group_id: str = ""  # Name of the group. [1-7]
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)  # Topics concerned. [1-7]
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)  # Groups concerned. [8+]
    require_stable: bool = False  # True if undecided transactional commits are to be an error. [7+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id: str
            if version <= 7:
                if version >= 6:
                    group_id, position = read_compact_string(buffer, position)
                else:
                    group_id, position = read_string(buffer, position)
            else:
                group_id = ""
            topics: list[OffsetFetchRequestTopic] | None
            if version <= 7:
                if version >= 6:
                    count, position = read_compact_nullable_array_length(buffer, position)
                elif version >= 2:
                    count, position = read_nullable_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                if count < 0:
                    topics = None
                else:
                    topics = []
                    for _ in range(count):
                        topics_element, position = OffsetFetchRequestTopic.read(buffer, position, version)
                        topics.append(topics_element)
            else:
                topics = []
            groups: list[OffsetFetchRequestGroup]
            if version >= 8:
                count, position = read_compact_array_length(buffer, position)
                groups = []
                for _ in range(count):
                    groups_element, position = OffsetFetchRequestGroup.read(buffer, position, version)
                    groups.append(groups_element)
            else:
                groups = []
            if version >= 7:
                (require_stable,) = _read_bool(buffer, position)
                position += 1
            else:
                require_stable = False
            unknown_tagged_fields: TaggedFields = ()
            if version >= 6:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, topics, groups, require_stable, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetFetchRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version > 7:
            if self.group_id:
                raise unsupported_field("OffsetFetchRequest", "group_id", version)
            if self.topics is None or self.topics != []:
                raise unsupported_field("OffsetFetchRequest", "topics", version)
        if version < 8:
            if self.groups:
                raise unsupported_field("OffsetFetchRequest", "groups", version)
        if version < 7:
            if self.require_stable:
                raise unsupported_field("OffsetFetchRequest", "require_stable", version)
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("OffsetFetchRequest", "unknown_tagged_fields", version)
        append = out.append
        if version <= 7:
            if version >= 6:
                out.write_compact_string(self.group_id)
            else:
                out.write_string(self.group_id)
        if version <= 7:
            if self.topics is None:
                if version >= 6:
                    out.append(b"\0")
                elif version >= 2:
                    out.append(b"\xff\xff\xff\xff")
                else:
                    not_null(self.topics, "topics")
            else:
                if version >= 6:
                    out.write_compact_array_length(len(self.topics))
                else:
                    out.write_array_length(len(self.topics))
                for topics_element in self.topics:
                    topics_element.write(out, version)
        if version >= 8:
            out.write_compact_array_length(len(self.groups))
            for groups_element in self.groups:
                groups_element.write(out, version)
        if version >= 7:
            append(_write_bool(self.require_stable))
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetFetchResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    committed_offset: int = 0  # Offset at which the consumer goes on.
    committed_leader_epoch: int = -1  # Leader epoch of the last consumed record, -1 if unknown. [5+]
    metadata: str | None = ""  # Text that the consumer wants kept with the offset.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            partition_index, committed_offset, committed_leader_epoch = _read_i4_i8_i4(buffer, position)
            position += 16
        else:
            partition_index, committed_offset = _read_i4_i8(buffer, position)
            position += 12
            committed_leader_epoch = -1
        metadata: str | None
        if version >= 6:
            metadata, position = read_compact_nullable_string(buffer, position)
        else:
            metadata, position = read_nullable_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, committed_offset, committed_leader_epoch, metadata, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("OffsetFetchResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            append(_write_i4_i8_i4(self.partition_index, self.committed_offset, self.committed_leader_epoch))
        else:
            append(_write_i4_i8(self.partition_index, self.committed_offset))
        if version >= 6:
            out.write_compact_nullable_string(self.metadata)
        else:
            out.write_nullable_string(self.metadata)
        append(_write_i2(self.error_code))
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetFetchResponseTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 6:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[OffsetFetchResponsePartition]
        if version >= 6:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetFetchResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 6:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("OffsetFetchResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 6:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class OffsetFetchResponsePartitions(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    committed_offset: int = 0  # Offset at which the consumer goes on.
    committed_leader_epoch: int = -1  # Leader epoch of the last consumed record, -1 if unknown.
    metadata: str | None = ""  # Text that the consumer wants kept with the offset.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, committed_offset, committed_leader_epoch = _read_i4_i8_i4(buffer, position)
        position += 16
        metadata: str | None
        metadata, position = read_compact_nullable_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, committed_offset, committed_leader_epoch, metadata, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8_i4(self.partition_index, self.committed_offset, self.committed_leader_epoch))
        out.write_compact_nullable_string(self.metadata)
        append(_write_i2(self.error_code))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OffsetFetchResponseTopics(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic. [8-9]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [10+]
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str
        if version <= 9:
            name, position = read_compact_string(buffer, position)
        else:
            name = ""
        if version >= 10:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partitions: list[OffsetFetchResponsePartitions]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = OffsetFetchResponsePartitions.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if version <= 9:
            out.write_compact_string(self.name)
        if version >= 10:
            append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OffsetFetchResponseGroup(Struct, gc=False):
    """Groups concerned."""

    group_id: str = ""  # Name of the group.
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)  # Topics concerned.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        group_id, position = read_compact_string(buffer, position)
        topics: list[OffsetFetchResponseTopics]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = OffsetFetchResponseTopics.read(buffer, position, version)
            topics.append(topics_element)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(group_id, topics, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        append(_write_i2(self.error_code))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class OffsetFetchResponse(Struct, gc=False):
    """Answers a request to read how far groups have consumed."""

    API_KEY: ClassVar[int] = 9
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 10
    FLEXIBLE_FROM: ClassVar[int | None] = 6

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [3+]
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)  # Topics concerned. [1-7]
    error_code: int = 0  # Result as a code, 0 on success. [2-7]
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)  # Groups concerned. [8+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                throttle_time_ms = 0
            topics: list[OffsetFetchResponseTopic]
            if version <= 7:
                if version >= 6:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                topics = []
                for _ in range(count):
                    topics_element, position = OffsetFetchResponseTopic.read(buffer, position, version)
                    topics.append(topics_element)
            else:
                topics = []
            if version >= 8:
                error_code = 0
            elif version >= 2:
                (error_code,) = _read_i2(buffer, position)
                position += 2
            else:
                error_code = 0
            groups: list[OffsetFetchResponseGroup]
            if version >= 8:
                count, position = read_compact_array_length(buffer, position)
                groups = []
                for _ in range(count):
                    groups_element, position = OffsetFetchResponseGroup.read(buffer, position, version)
                    groups.append(groups_element)
            else:
                groups = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 6:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, error_code, groups, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetFetchResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version > 7:
            if self.topics:
                raise unsupported_field("OffsetFetchResponse", "topics", version)
        if version < 8:
            if self.groups:
                raise unsupported_field("OffsetFetchResponse", "groups", version)
        if self.unknown_tagged_fields and version < 6:
            raise unsupported_field("OffsetFetchResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            append(_write_i4(self.throttle_time_ms))
        if version <= 7:
            if version >= 6:
                out.write_compact_array_length(len(self.topics))
            else:
                out.write_array_length(len(self.topics))
            for topics_element in self.topics:
                topics_element.write(out, version)
        if version >= 8:
            pass
        elif version >= 2:
            append(_write_i2(self.error_code))
        if version >= 8:
            out.write_compact_array_length(len(self.groups))
            for groups_element in self.groups:
                groups_element.write(out, version)
        if version >= 6:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
