"""StreamsGroupDescribeRequest and StreamsGroupDescribeResponse. Generated from StreamsGroupDescribeRequest.json and StreamsGroupDescribeResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_u2 = struct.Struct(">H").pack


class StreamsGroupDescribeRequest(Struct, gc=False):
    """Asks to describe streams groups."""

    API_KEY: ClassVar[int] = 89
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
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
            raise malformed("StreamsGroupDescribeRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.group_ids))
        out.write_compact_strings(self.group_ids)
        append(_write_bool(self.include_authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TopicInfo(Struct, gc=False):
    """Internal topics that the subtopology reads from."""

    name: str = ""  # Name of the topic.
    partitions: int = 0  # Partitions concerned.
    replication_factor: int = 0  # Replicas of each partition; -1 for the broker's default.
    topic_configs: list[KeyValue] = field(default_factory=list)  # The topic's configuration entries.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions, replication_factor = _read_i4_i2(buffer, position)
        position += 6
        topic_configs: list[KeyValue]
        count, position = read_compact_array_length(buffer, position)
        topic_configs = []
        for _ in range(count):
            topic_configs_element, position = KeyValue.read(buffer, position, version)
            topic_configs.append(topic_configs_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, replication_factor, topic_configs, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i4_i2(self.partitions, self.replication_factor))
        out.write_compact_array_length(len(self.topic_configs))
        for topic_configs_element in self.topic_configs:
            topic_configs_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Subtopology(Struct, gc=False):
    """Parts of the topology that run on their own."""

    subtopology_id: str = ""  # Name of the subtopology.
    source_topics: list[str] = field(default_factory=list)  # Topics that the subtopology reads.
    repartition_sink_topics: list[str] = field(default_factory=list)  # Internal topics that the subtopology writes to.
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)  # Topics that hold the subtopology's state.
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)  # Internal topics that the subtopology reads from.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        subtopology_id, position = read_compact_string(buffer, position)
        source_topics: list[str]
        count, position = read_compact_array_length(buffer, position)
        source_topics, position = read_compact_strings(buffer, position, count)
        repartition_sink_topics: list[str]
        count, position = read_compact_array_length(buffer, position)
        repartition_sink_topics, position = read_compact_strings(buffer, position, count)
        state_changelog_topics: list[TopicInfo]
        count, position = read_compact_array_length(buffer, position)
        state_changelog_topics = []
        for _ in range(count):
            state_changelog_topics_element, position = TopicInfo.read(buffer, position, version)
            state_changelog_topics.append(state_changelog_topics_element)
        repartition_source_topics: list[TopicInfo]
        count, position = read_compact_array_length(buffer, position)
        repartition_source_topics = []
        for _ in range(count):
            repartition_source_topics_element, position = TopicInfo.read(buffer, position, version)
            repartition_source_topics.append(repartition_source_topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(subtopology_id, source_topics, repartition_sink_topics, state_changelog_topics, repartition_source_topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.subtopology_id)
        out.write_compact_array_length(len(self.source_topics))
        out.write_compact_strings(self.source_topics)
        out.write_compact_array_length(len(self.repartition_sink_topics))
        out.write_compact_strings(self.repartition_sink_topics)
        out.write_compact_array_length(len(self.state_changelog_topics))
        for state_changelog_topics_element in self.state_changelog_topics:
            state_changelog_topics_element.write(out, version)
        out.write_compact_array_length(len(self.repartition_source_topics))
        for repartition_source_topics_element in self.repartition_source_topics:
            repartition_source_topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Topology(Struct, gc=False):
    """Topology of the streams application; null if unchanged."""

    epoch: int = 0  # Version of the topology.
    subtopologies: list[Subtopology] | None = None  # Parts of the topology that run on their own.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (epoch,) = _read_i4(buffer, position)
        position += 4
        subtopologies: list[Subtopology] | None
        count, position = read_compact_nullable_array_length(buffer, position)
        if count < 0:
            subtopologies = None
        else:
            subtopologies = []
            for _ in range(count):
                subtopologies_element, position = Subtopology.read(buffer, position, version)
                subtopologies.append(subtopologies_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(epoch, subtopologies, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.epoch))
        if self.subtopologies is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.subtopologies))
            for subtopologies_element in self.subtopologies:
                subtopologies_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Endpoint(Struct, gc=False):
    """Where queries to the member's state go."""

    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        host, position = read_compact_string(buffer, position)
        (port,) = _read_u2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(host, port, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.host)
        append(_write_u2(self.port))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class KeyValue(Struct, gc=False):
    """Tags of the client that steer where standby tasks go."""

    key: str = ""  # Key of the pair.
    value: str = ""  # Value of the pair.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        key, position = read_compact_string(buffer, position)
        value, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(key, value, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.key)
        out.write_compact_string(self.value)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TaskOffset(Struct, gc=False):
    """Ends of the changelogs of the member's tasks."""

    subtopology_id: str = ""  # Name of the subtopology.
    partition: int = 0  # Number of the partition.
    offset: int = 0  # Offset that the task has reached.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        subtopology_id, position = read_compact_string(buffer, position)
        partition, offset = _read_i4_i8(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(subtopology_id, partition, offset, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.subtopology_id)
        append(_write_i4_i8(self.partition, self.offset))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


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


class Assignment(Struct, gc=False):
    """What the member is to have in the end."""

    active_tasks: list[TaskIds] = field(default_factory=list)  # Tasks that the member processes.
    standby_tasks: list[TaskIds] = field(default_factory=list)  # Tasks whose state the member keeps a copy of.
    warmup_tasks: list[TaskIds] = field(default_factory=list)  # Tasks whose state the member is catching up with.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
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


class Member(Struct, gc=False):
    """Members concerned."""

    member_id: str = ""  # Id of the member; empty when it has none yet.
    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    instance_id: str | None = None  # Id of a static member; null for a dynamic one.
    rack_id: str | None = None  # Rack of the caller.
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    topology_epoch: int = 0  # Version of the topology.
    process_id: str = ""  # Id of the process that runs the member.
    user_endpoint: Endpoint | None = None  # Where queries to the member's state go.
    client_tags: list[KeyValue] = field(default_factory=list)  # Tags of the client that steer where standby tasks go.
    task_offsets: list[TaskOffset] = field(default_factory=list)  # How far the member's copies of state have got.
    task_end_offsets: list[TaskOffset] = field(default_factory=list)  # Ends of the changelogs of the member's tasks.
    assignment: Assignment = field(default_factory=Assignment)  # What the member is to work on.
    target_assignment: Assignment = field(default_factory=Assignment)  # What the member is to have in the end.
    is_classic: bool = False  # True if the member speaks the classic protocol.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        member_id, position = read_compact_string(buffer, position)
        (member_epoch,) = _read_i4(buffer, position)
        position += 4
        instance_id: str | None
        instance_id, position = read_compact_nullable_string(buffer, position)
        rack_id: str | None
        rack_id, position = read_compact_nullable_string(buffer, position)
        client_id, position = read_compact_string(buffer, position)
        client_host, position = read_compact_string(buffer, position)
        (topology_epoch,) = _read_i4(buffer, position)
        position += 4
        process_id, position = read_compact_string(buffer, position)
        user_endpoint: Endpoint | None
        (nullness,) = _read_i1(buffer, position)
        position += 1
        if nullness < 0:
            user_endpoint = None
        else:
            user_endpoint, position = Endpoint.read(buffer, position, version)
        client_tags: list[KeyValue]
        count, position = read_compact_array_length(buffer, position)
        client_tags = []
        for _ in range(count):
            client_tags_element, position = KeyValue.read(buffer, position, version)
            client_tags.append(client_tags_element)
        task_offsets: list[TaskOffset]
        count, position = read_compact_array_length(buffer, position)
        task_offsets = []
        for _ in range(count):
            task_offsets_element, position = TaskOffset.read(buffer, position, version)
            task_offsets.append(task_offsets_element)
        task_end_offsets: list[TaskOffset]
        count, position = read_compact_array_length(buffer, position)
        task_end_offsets = []
        for _ in range(count):
            task_end_offsets_element, position = TaskOffset.read(buffer, position, version)
            task_end_offsets.append(task_end_offsets_element)
        assignment: Assignment
        assignment, position = Assignment.read(buffer, position, version)
        target_assignment: Assignment
        target_assignment, position = Assignment.read(buffer, position, version)
        (is_classic,) = _read_bool(buffer, position)
        position += 1
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(member_id, member_epoch, instance_id, rack_id, client_id, client_host, topology_epoch, process_id, user_endpoint, client_tags, task_offsets, task_end_offsets, assignment, target_assignment, is_classic, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.member_id)
        append(_write_i4(self.member_epoch))
        out.write_compact_nullable_string(self.instance_id)
        out.write_compact_nullable_string(self.rack_id)
        out.write_compact_string(self.client_id)
        out.write_compact_string(self.client_host)
        append(_write_i4(self.topology_epoch))
        out.write_compact_string(self.process_id)
        if self.user_endpoint is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.user_endpoint.write(out, version)
        out.write_compact_array_length(len(self.client_tags))
        for client_tags_element in self.client_tags:
            client_tags_element.write(out, version)
        out.write_compact_array_length(len(self.task_offsets))
        for task_offsets_element in self.task_offsets:
            task_offsets_element.write(out, version)
        out.write_compact_array_length(len(self.task_end_offsets))
        for task_end_offsets_element in self.task_end_offsets:
            task_end_offsets_element.write(out, version)
        self.assignment.write(out, version)
        self.target_assignment.write(out, version)
        append(_write_bool(self.is_classic))
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
    topology: Topology | None = None  # Topology of the streams application; null if unchanged.
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
        topology: Topology | None
        (nullness,) = _read_i1(buffer, position)
        position += 1
        if nullness < 0:
            topology = None
        else:
            topology, position = Topology.read(buffer, position, version)
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
        return cls(error_code, error_message, group_id, group_state, group_epoch, assignment_epoch, topology, members, authorized_operations, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_string(self.group_id)
        out.write_compact_string(self.group_state)
        append(_write_i4_i4(self.group_epoch, self.assignment_epoch))
        if self.topology is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.topology.write(out, version)
        out.write_compact_array_length(len(self.members))
        for members_element in self.members:
            members_element.write(out, version)
        append(_write_i4(self.authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class StreamsGroupDescribeResponse(Struct, gc=False):
    """Answers a request to describe streams groups."""

    API_KEY: ClassVar[int] = 89
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
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
            raise malformed("StreamsGroupDescribeResponse", version, error) from error

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
