"""ConsumerGroupHeartbeatRequest and ConsumerGroupHeartbeatResponse. Generated from ConsumerGroupHeartbeatRequest.json and ConsumerGroupHeartbeatResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_strings,
    read_int32s,
    read_tagged_fields,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_uuid = struct.Struct(">16s").pack


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct, gc=False):
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


class ConsumerGroupHeartbeatRequest(Struct, gc=False):
    """Asks to join, stay in or leave a consumer group."""

    API_KEY: ClassVar[int] = 68
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_id: str = ""  # Name of the group.
    member_id: str = ""  # Id of the member; empty when it has none yet.
    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    instance_id: str | None = None  # Id of a static member; null for a dynamic one.
    rack_id: str | None = None  # Rack of the caller.
    rebalance_timeout_ms: int = -1  # How long members have to give up partitions in a rebalance.
    subscribed_topic_names: list[str] | None = None  # Topics that the member wants.
    subscribed_topic_regex: str | None = None  # Pattern of topics that the member wants; null if unchanged or none. [1+]
    server_assignor: str | None = None  # Assignment strategy that the broker is to use; null for its choice.
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None  # Topics with their partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_compact_string(buffer, position)
            member_id, position = read_compact_string(buffer, position)
            (member_epoch,) = _read_i4(buffer, position)
            position += 4
            instance_id: str | None
            instance_id, position = read_compact_nullable_string(buffer, position)
            rack_id: str | None
            rack_id, position = read_compact_nullable_string(buffer, position)
            (rebalance_timeout_ms,) = _read_i4(buffer, position)
            position += 4
            subscribed_topic_names: list[str] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                subscribed_topic_names = None
            else:
                subscribed_topic_names, position = read_compact_strings(buffer, position, count)
            subscribed_topic_regex: str | None
            if version == 1:
                subscribed_topic_regex, position = read_compact_nullable_string(buffer, position)
            else:
                subscribed_topic_regex = None
            server_assignor: str | None
            server_assignor, position = read_compact_nullable_string(buffer, position)
            topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                topic_partitions = None
            else:
                topic_partitions = []
                for _ in range(count):
                    topic_partitions_element, position = ConsumerGroupHeartbeatRequestTopicPartitions.read(buffer, position, version)
                    topic_partitions.append(topic_partitions_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, member_id, member_epoch, instance_id, rack_id, rebalance_timeout_ms, subscribed_topic_names, subscribed_topic_regex, server_assignor, topic_partitions, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupHeartbeatRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.subscribed_topic_regex is not None:
                raise unsupported_field("ConsumerGroupHeartbeatRequest", "subscribed_topic_regex", version)
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_string(self.member_id)
        append(_write_i4(self.member_epoch))
        out.write_compact_nullable_string(self.instance_id)
        out.write_compact_nullable_string(self.rack_id)
        append(_write_i4(self.rebalance_timeout_ms))
        if self.subscribed_topic_names is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.subscribed_topic_names))
            out.write_compact_strings(self.subscribed_topic_names)
        if version == 1:
            out.write_compact_nullable_string(self.subscribed_topic_regex)
        out.write_compact_nullable_string(self.server_assignor)
        if self.topic_partitions is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.topic_partitions))
            for topic_partitions_element in self.topic_partitions:
                topic_partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct, gc=False):
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


class Assignment(Struct, gc=False):
    """What the member is to work on."""

    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = field(default_factory=list)  # Topics with their partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions]
        count, position = read_compact_array_length(buffer, position)
        topic_partitions = []
        for _ in range(count):
            topic_partitions_element, position = ConsumerGroupHeartbeatResponseTopicPartitions.read(buffer, position, version)
            topic_partitions.append(topic_partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topic_partitions))
        for topic_partitions_element in self.topic_partitions:
            topic_partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ConsumerGroupHeartbeatResponse(Struct, gc=False):
    """Answers a request to join, stay in or leave a consumer group."""

    API_KEY: ClassVar[int] = 68
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    member_id: str | None = None  # Id of the member; empty when it has none yet.
    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    heartbeat_interval_ms: int = 0  # How long to wait before the next heartbeat.
    assignment: Assignment | None = None  # What the member is to work on.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            member_id: str | None
            member_id, position = read_compact_nullable_string(buffer, position)
            member_epoch, heartbeat_interval_ms = _read_i4_i4(buffer, position)
            position += 8
            assignment: Assignment | None
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                assignment = None
            else:
                assignment, position = Assignment.read(buffer, position, version)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, assignment, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupHeartbeatResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_nullable_string(self.member_id)
        append(_write_i4_i4(self.member_epoch, self.heartbeat_interval_ms))
        if self.assignment is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.assignment.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
