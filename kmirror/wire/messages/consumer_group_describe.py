"""ConsumerGroupDescribeRequest and ConsumerGroupDescribeResponse. Generated from ConsumerGroupDescribeRequest.json and ConsumerGroupDescribeResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_strings,
    read_int32s,
    read_tagged_fields,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i1 = struct.Struct(">b").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_uuid = struct.Struct(">16s").pack


class ConsumerGroupDescribeRequest(Struct, gc=False):
    """Asks to describe consumer groups."""

    API_KEY: ClassVar[int] = 69
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_ids: list[str] = field(default_factory=list)  # Names of the groups.
    include_authorized_operations: bool = False  # True if the answer is to say what the caller may do.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_ids: list[str]
            count, position = read_compact_array_length(buffer, position)
            group_ids, position = read_compact_strings(buffer, position, count)
            (include_authorized_operations,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_ids, include_authorized_operations, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupDescribeRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.group_ids))
        out.write_compact_strings(self.group_ids)
        append(_write_bool(self.include_authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TopicPartitions(Struct, gc=False):
    """Topics with their partitions."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    topic_name: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_string(self.topic_name)
        out.write_compact_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Assignment(Struct, gc=False):
    """What the member is to have in the end."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)  # Topics with their partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_partitions: list[TopicPartitions]
        count, position = read_compact_array_length(buffer, position)
        topic_partitions = []
        for _ in range(count):
            topic_partitions_element, position = TopicPartitions.read(buffer, position, version)
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


class Member(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    instance_id: str | None = None  # Id of a static member; null for a dynamic one.
    rack_id: str | None = None  # Rack of the caller.
    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    subscribed_topic_names: list[str] = field(default_factory=list)  # Topics that the member wants.
    subscribed_topic_regex: str | None = None  # Pattern of topics that the member wants; null if unchanged or none.
    assignment: Assignment = field(default_factory=Assignment)  # What the member is to work on.
    target_assignment: Assignment = field(default_factory=Assignment)  # What the member is to have in the end.
    member_type: int = -1  # What kind of member this is: -1 unknown, 0 classic, 1 consumer. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        member_id, position = read_compact_string(buffer, position)
        instance_id: str | None
        instance_id, position = read_compact_nullable_string(buffer, position)
        rack_id: str | None
        rack_id, position = read_compact_nullable_string(buffer, position)
        (member_epoch,) = _read_i4(buffer, position)
        position += 4
        client_id, position = read_compact_string(buffer, position)
        client_host, position = read_compact_string(buffer, position)
        subscribed_topic_names: list[str]
        count, position = read_compact_array_length(buffer, position)
        subscribed_topic_names, position = read_compact_strings(buffer, position, count)
        subscribed_topic_regex: str | None
        subscribed_topic_regex, position = read_compact_nullable_string(buffer, position)
        assignment: Assignment
        assignment, position = Assignment.read(buffer, position, version)
        target_assignment: Assignment
        target_assignment, position = Assignment.read(buffer, position, version)
        if version >= 1:
            (member_type,) = _read_i1(buffer, position)
            position += 1
        else:
            member_type = -1
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, instance_id, rack_id, member_epoch, client_id, client_host, subscribed_topic_names, subscribed_topic_regex, assignment, target_assignment, member_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.member_id)
        out.write_compact_nullable_string(self.instance_id)
        out.write_compact_nullable_string(self.rack_id)
        append(_write_i4(self.member_epoch))
        out.write_compact_string(self.client_id)
        out.write_compact_string(self.client_host)
        out.write_compact_array_length(len(self.subscribed_topic_names))
        out.write_compact_strings(self.subscribed_topic_names)
        out.write_compact_nullable_string(self.subscribed_topic_regex)
        self.assignment.write(out, version)
        self.target_assignment.write(out, version)
        if version >= 1:
            append(_write_i1(self.member_type))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribedGroup(Struct, gc=False):
    """Groups concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    group_id: str = ""  # Name of the group.
    group_state: str = ""  # State of the group.
    group_epoch: int = 0  # Version of the group's membership and subscriptions.
    assignment_epoch: int = 0  # Version of the target assignment.
    assignor_name: str = ""  # Name of the assignment strategy.
    members: list[Member] = field(default_factory=list)  # Members concerned.
    authorized_operations: int = -2147483648  # Bit set of what the caller may do here; the lowest int32 if not asked for.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        group_id, position = read_compact_string(buffer, position)
        group_state, position = read_compact_string(buffer, position)
        group_epoch, assignment_epoch = _read_i4_i4(buffer, position)
        position += 8
        assignor_name, position = read_compact_string(buffer, position)
        members: list[Member]
        count, position = read_compact_array_length(buffer, position)
        members = []
        for _ in range(count):
            members_element, position = Member.read(buffer, position, version)
            members.append(members_element)
        (authorized_operations,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, error_message, group_id, group_state, group_epoch, assignment_epoch, assignor_name, members, authorized_operations, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_string(self.group_id)
        out.write_compact_string(self.group_state)
        append(_write_i4_i4(self.group_epoch, self.assignment_epoch))
        out.write_compact_string(self.assignor_name)
        out.write_compact_array_length(len(self.members))
        for members_element in self.members:
            members_element.write(out, version)
        append(_write_i4(self.authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ConsumerGroupDescribeResponse(Struct, gc=False):
    """Answers a request to describe consumer groups."""

    API_KEY: ClassVar[int] = 69
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    groups: list[DescribedGroup] = field(default_factory=list)  # Groups concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            groups: list[DescribedGroup]
            count, position = read_compact_array_length(buffer, position)
            groups = []
            for _ in range(count):
                groups_element, position = DescribedGroup.read(buffer, position, version)
                groups.append(groups_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, groups, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupDescribeResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        out.write_compact_array_length(len(self.groups))
        for groups_element in self.groups:
            groups_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
