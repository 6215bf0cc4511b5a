"""DescribeTopicPartitionsRequest and DescribeTopicPartitionsResponse. Generated from DescribeTopicPartitionsRequest.json and DescribeTopicPartitionsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_tagged_fields,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i2_i4_i4_i4 = struct.Struct(">hiii").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_uuid_bool = struct.Struct(">16s?").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i2_i4_i4_i4 = struct.Struct(">hiii").pack
_write_i4 = struct.Struct(">i").pack
_write_uuid_bool = struct.Struct(">16s?").pack


class TopicRequest(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTopicPartitionsRequestCursor(Struct, gc=False):
    """Where to go on after a partial answer; null for the start."""

    topic_name: str = ""  # Name of the topic.
    partition_index: int = 0  # Number of the partition.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partition_index, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        append(_write_i4(self.partition_index))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTopicPartitionsRequest(Struct, gc=False):
    """Asks to describe partitions of topics, in pages."""

    API_KEY: ClassVar[int] = 75
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[TopicRequest] = field(default_factory=list)  # Topics concerned.
    response_partition_limit: int = 2000  # Most partitions to return.
    cursor: DescribeTopicPartitionsRequestCursor | None = None  # Where to go on after a partial answer; null for the start.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[TopicRequest]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = TopicRequest.read(buffer, position, version)
                topics.append(topics_element)
            (response_partition_limit,) = _read_i4(buffer, position)
            position += 4
            cursor: DescribeTopicPartitionsRequestCursor | None
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                cursor = None
            else:
                cursor, position = DescribeTopicPartitionsRequestCursor.read(buffer, position, version)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, response_partition_limit, cursor, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeTopicPartitionsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        append(_write_i4(self.response_partition_limit))
        if self.cursor is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.cursor.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTopicPartitionsResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    partition_index: int = 0  # Number of the partition.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown.
    replica_nodes: list[int] = field(default_factory=list)  # Brokers that hold the partition, the preferred leader first.
    isr_nodes: list[int] = field(default_factory=list)  # Brokers that are in sync.
    eligible_leader_replicas: list[int] | None = None  # Replicas outside of the ISR that are complete up to the high watermark.
    last_known_elr: list[int] | None = None  # Last known eligible leaders, for recovery when none is left.
    offline_replicas: list[int] = field(default_factory=list)  # Replicas that cannot be reached.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        error_code, partition_index, leader_id, leader_epoch = _read_i2_i4_i4_i4(buffer, position)
        position += 14
        replica_nodes: list[int]
        count, position = read_compact_array_length(buffer, position)
        replica_nodes, position = read_int32s(buffer, position, count)
        isr_nodes: list[int]
        count, position = read_compact_array_length(buffer, position)
        isr_nodes, position = read_int32s(buffer, position, count)
        eligible_leader_replicas: list[int] | None
        count, position = read_compact_nullable_array_length(buffer, position)
        if count < 0:
            eligible_leader_replicas = None
        else:
            eligible_leader_replicas, position = read_int32s(buffer, position, count)
        last_known_elr: list[int] | None
        count, position = read_compact_nullable_array_length(buffer, position)
        if count < 0:
            last_known_elr = None
        else:
            last_known_elr, position = read_int32s(buffer, position, count)
        offline_replicas: list[int]
        count, position = read_compact_array_length(buffer, position)
        offline_replicas, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, eligible_leader_replicas, last_known_elr, offline_replicas, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2_i4_i4_i4(self.error_code, self.partition_index, self.leader_id, self.leader_epoch))
        out.write_compact_array_length(len(self.replica_nodes))
        out.write_int32s(self.replica_nodes)
        out.write_compact_array_length(len(self.isr_nodes))
        out.write_int32s(self.isr_nodes)
        if self.eligible_leader_replicas is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.eligible_leader_replicas))
            out.write_int32s(self.eligible_leader_replicas)
        if self.last_known_elr is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.last_known_elr))
            out.write_int32s(self.last_known_elr)
        out.write_compact_array_length(len(self.offline_replicas))
        out.write_int32s(self.offline_replicas)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTopicPartitionsResponseTopic(Struct, gc=False):
    """Topics concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    name: str | None = ""  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    is_internal: bool = False  # True for a topic of Kafka's own.
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)  # Partitions concerned.
    topic_authorized_operations: int = -2147483648  # Bit set of what the caller may do to the topic; the lowest int32 if not asked for.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        name: str | None
        name, position = read_compact_nullable_string(buffer, position)
        topic_id_bytes, is_internal = _read_uuid_bool(buffer, position)
        position += 17
        topic_id = Uuid(topic_id_bytes)
        partitions: list[DescribeTopicPartitionsResponsePartition]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DescribeTopicPartitionsResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        (topic_authorized_operations,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, name, topic_id, is_internal, partitions, topic_authorized_operations, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.name)
        append(_write_uuid_bool(self.topic_id.raw, self.is_internal))
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        append(_write_i4(self.topic_authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTopicPartitionsResponseCursor(Struct, gc=False):
    """Where the next request goes on; null if this was all."""

    topic_name: str = ""  # Name of the topic.
    partition_index: int = 0  # Number of the partition.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partition_index, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        append(_write_i4(self.partition_index))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeTopicPartitionsResponse(Struct, gc=False):
    """Answers a request to describe partitions of topics, in pages."""

    API_KEY: ClassVar[int] = 75
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)  # Topics concerned.
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None  # Where the next request goes on; null if this was all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            topics: list[DescribeTopicPartitionsResponseTopic]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DescribeTopicPartitionsResponseTopic.read(buffer, position, version)
                topics.append(topics_element)
            next_cursor: DescribeTopicPartitionsResponseCursor | None
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                next_cursor = None
            else:
                next_cursor, position = DescribeTopicPartitionsResponseCursor.read(buffer, position, version)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, next_cursor, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeTopicPartitionsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.next_cursor is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.next_cursor.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
