"""StreamsGroupHeartbeatRequest and StreamsGroupHeartbeatResponse. Generated from StreamsGroupHeartbeatRequest.json and StreamsGroupHeartbeatResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_int16s,
    read_int32s,
    read_tagged_fields,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i4_i4_i4_i4 = struct.Struct(">iiii").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i1 = struct.Struct(">b").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i4_i4_i4_i4 = struct.Struct(">iiii").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_u2 = struct.Struct(">H").pack


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


class CopartitionGroup(Struct, gc=False):
    """Sets of topics that must have equal numbers of partitions."""

    source_topics: list[int] = field(default_factory=list)  # Topics that the subtopology reads.
    source_topic_regex: list[int] = field(default_factory=list)  # Patterns of the topics that the subtopology reads.
    repartition_source_topics: list[int] = field(default_factory=list)  # Internal topics that the subtopology reads from.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        source_topics: list[int]
        count, position = read_compact_array_length(buffer, position)
        source_topics, position = read_int16s(buffer, position, count)
        source_topic_regex: list[int]
        count, position = read_compact_array_length(buffer, position)
        source_topic_regex, position = read_int16s(buffer, position, count)
        repartition_source_topics: list[int]
        count, position = read_compact_array_length(buffer, position)
        repartition_source_topics, position = read_int16s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(source_topics, source_topic_regex, repartition_source_topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.source_topics))
        out.write_int16s(self.source_topics)
        out.write_compact_array_length(len(self.source_topic_regex))
        out.write_int16s(self.source_topic_regex)
        out.write_compact_array_length(len(self.repartition_source_topics))
        out.write_int16s(self.repartition_source_topics)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Subtopology(Struct, gc=False):
    """Parts of the topology that run on their own."""

    subtopology_id: str = ""  # Name of the subtopology.
    source_topics: list[str] = field(default_factory=list)  # Topics that the subtopology reads.
    source_topic_regex: list[str] = field(default_factory=list)  # Patterns of the topics that the subtopology reads.
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)  # Topics that hold the subtopology's state.
    repartition_sink_topics: list[str] = field(default_factory=list)  # Internal topics that the subtopology writes to.
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)  # Internal topics that the subtopology reads from.
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)  # Sets of topics that must have equal numbers of partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        subtopology_id, position = read_compact_string(buffer, position)
        source_topics: list[str]
        count, position = read_compact_array_length(buffer, position)
        source_topics, position = read_compact_strings(buffer, position, count)
        source_topic_regex: list[str]
        count, position = read_compact_array_length(buffer, position)
        source_topic_regex, position = read_compact_strings(buffer, position, count)
        state_changelog_topics: list[TopicInfo]
        count, position = read_compact_array_length(buffer, position)
        state_changelog_topics = []
        for _ in range(count):
            state_changelog_topics_element, position = TopicInfo.read(buffer, position, version)
            state_changelog_topics.append(state_changelog_topics_element)
        repartition_sink_topics: list[str]
        count, position = read_compact_array_length(buffer, position)
        repartition_sink_topics, position = read_compact_strings(buffer, position, count)
        repartition_source_topics: list[TopicInfo]
        count, position = read_compact_array_length(buffer, position)
        repartition_source_topics = []
        for _ in range(count):
            repartition_source_topics_element, position = TopicInfo.read(buffer, position, version)
            repartition_source_topics.append(repartition_source_topics_element)
        copartition_groups: list[CopartitionGroup]
        count, position = read_compact_array_length(buffer, position)
        copartition_groups = []
        for _ in range(count):
            copartition_groups_element, position = CopartitionGroup.read(buffer, position, version)
            copartition_groups.append(copartition_groups_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(subtopology_id, source_topics, source_topic_regex, state_changelog_topics, repartition_sink_topics, repartition_source_topics, copartition_groups, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.subtopology_id)
        out.write_compact_array_length(len(self.source_topics))
        out.write_compact_strings(self.source_topics)
        out.write_compact_array_length(len(self.source_topic_regex))
        out.write_compact_strings(self.source_topic_regex)
        out.write_compact_array_length(len(self.state_changelog_topics))
        for state_changelog_topics_element in self.state_changelog_topics:
            state_changelog_topics_element.write(out, version)
        out.write_compact_array_length(len(self.repartition_sink_topics))
        out.write_compact_strings(self.repartition_sink_topics)
        out.write_compact_array_length(len(self.repartition_source_topics))
        for repartition_source_topics_element in self.repartition_source_topics:
            repartition_source_topics_element.write(out, version)
        out.write_compact_array_length(len(self.copartition_groups))
        for copartition_groups_element in self.copartition_groups:
            copartition_groups_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Topology(Struct, gc=False):
    """Topology of the streams application; null if unchanged."""

    epoch: int = 0  # Version of the topology.
    subtopologies: list[Subtopology] = field(default_factory=list)  # Parts of the topology that run on their own.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (epoch,) = _read_i4(buffer, position)
        position += 4
        subtopologies: list[Subtopology]
        count, position = read_compact_array_length(buffer, position)
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
        out.write_compact_array_length(len(self.subtopologies))
        for subtopologies_element in self.subtopologies:
            subtopologies_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class StreamsGroupHeartbeatRequestTaskIds(Struct, gc=False):
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


class StreamsGroupHeartbeatRequestEndpoint(Struct, gc=False):
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


class StreamsGroupHeartbeatRequest(Struct, gc=False):
    """Asks to join, stay in or leave a streams group."""

    API_KEY: ClassVar[int] = 88
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_id: str = ""  # Name of the group.
    member_id: str = ""  # Id of the member; empty when it has none yet.
    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    endpoint_information_epoch: int = 0  # Version of the endpoint information.
    instance_id: str | None = None  # Id of a static member; null for a dynamic one.
    rack_id: str | None = None  # Rack of the caller.
    rebalance_timeout_ms: int = -1  # How long members have to give up partitions in a rebalance.
    topology: Topology | None = None  # Topology of the streams application; null if unchanged.
    active_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None  # Tasks that the member processes.
    standby_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None  # Tasks whose state the member keeps a copy of.
    warmup_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = None  # Tasks whose state the member is catching up with.
    process_id: str | None = None  # Id of the process that runs the member.
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = None  # Where queries to the member's state go.
    client_tags: list[KeyValue] | None = None  # Tags of the client that steer where standby tasks go.
    task_offsets: list[TaskOffset] | None = None  # How far the member's copies of state have got.
    task_end_offsets: list[TaskOffset] | None = None  # Ends of the changelogs of the member's tasks.
    shutdown_application: bool = False  # True if the whole application is to stop.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_compact_string(buffer, position)
            member_id, position = read_compact_string(buffer, position)
            member_epoch, endpoint_information_epoch = _read_i4_i4(buffer, position)
            position += 8
            instance_id: str | None
            instance_id, position = read_compact_nullable_string(buffer, position)
            rack_id: str | None
            rack_id, position = read_compact_nullable_string(buffer, position)
            (rebalance_timeout_ms,) = _read_i4(buffer, position)
            position += 4
            topology: Topology | None
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                topology = None
            else:
                topology, position = Topology.read(buffer, position, version)
            active_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                active_tasks = None
            else:
                active_tasks = []
                for _ in range(count):
                    active_tasks_element, position = StreamsGroupHeartbeatRequestTaskIds.read(buffer, position, version)
                    active_tasks.append(active_tasks_element)
            standby_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                standby_tasks = None
            else:
                standby_tasks = []
                for _ in range(count):
                    standby_tasks_element, position = StreamsGroupHeartbeatRequestTaskIds.read(buffer, position, version)
                    standby_tasks.append(standby_tasks_element)
            warmup_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                warmup_tasks = None
            else:
                warmup_tasks = []
                for _ in range(count):
                    warmup_tasks_element, position = StreamsGroupHeartbeatRequestTaskIds.read(buffer, position, version)
                    warmup_tasks.append(warmup_tasks_element)
            process_id: str | None
            process_id, position = read_compact_nullable_string(buffer, position)
            user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                user_endpoint = None
            else:
                user_endpoint, position = StreamsGroupHeartbeatRequestEndpoint.read(buffer, position, version)
            client_tags: list[KeyValue] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                client_tags = None
            else:
                client_tags = []
                for _ in range(count):
                    client_tags_element, position = KeyValue.read(buffer, position, version)
                    client_tags.append(client_tags_element)
            task_offsets: list[TaskOffset] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                task_offsets = None
            else:
                task_offsets = []
                for _ in range(count):
                    task_offsets_element, position = TaskOffset.read(buffer, position, version)
                    task_offsets.append(task_offsets_element)
            task_end_offsets: list[TaskOffset] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                task_end_offsets = None
            else:
                task_end_offsets = []
                for _ in range(count):
                    task_end_offsets_element, position = TaskOffset.read(buffer, position, version)
                    task_end_offsets.append(task_end_offsets_element)
            (shutdown_application,) = _read_bool(buffer, position)
            position += 1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, member_id, member_epoch, endpoint_information_epoch, instance_id, rack_id, rebalance_timeout_ms, topology, active_tasks, standby_tasks, warmup_tasks, process_id, user_endpoint, client_tags, task_offsets, task_end_offsets, shutdown_application, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupHeartbeatRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_string(self.member_id)
        append(_write_i4_i4(self.member_epoch, self.endpoint_information_epoch))
        out.write_compact_nullable_string(self.instance_id)
        out.write_compact_nullable_string(self.rack_id)
        append(_write_i4(self.rebalance_timeout_ms))
        if self.topology is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.topology.write(out, version)
        if self.active_tasks is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.active_tasks))
            for active_tasks_element in self.active_tasks:
                active_tasks_element.write(out, version)
        if self.standby_tasks is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.standby_tasks))
            for standby_tasks_element in self.standby_tasks:
                standby_tasks_element.write(out, version)
        if self.warmup_tasks is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.warmup_tasks))
            for warmup_tasks_element in self.warmup_tasks:
                warmup_tasks_element.write(out, version)
        out.write_compact_nullable_string(self.process_id)
        if self.user_endpoint is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.user_endpoint.write(out, version)
        if self.client_tags is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.client_tags))
            for client_tags_element in self.client_tags:
                client_tags_element.write(out, version)
        if self.task_offsets is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.task_offsets))
            for task_offsets_element in self.task_offsets:
                task_offsets_element.write(out, version)
        if self.task_end_offsets is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.task_end_offsets))
            for task_end_offsets_element in self.task_end_offsets:
                task_end_offsets_element.write(out, version)
        append(_write_bool(self.shutdown_application))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Status(Struct, gc=False):
    """Things the member should know."""

    status_code: int = 0  # Kind of the notice, as a number.
    status_detail: str = ""  # The notice in words.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (status_code,) = _read_i1(buffer, position)
        position += 1
        status_detail, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(status_code, status_detail, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i1(self.status_code))
        out.write_compact_string(self.status_detail)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class StreamsGroupHeartbeatResponseTaskIds(Struct, gc=False):
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


class StreamsGroupHeartbeatResponseEndpoint(Struct, gc=False):
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


class TopicPartition(Struct, gc=False):
    """Partitions whose state the member keeps a copy of."""

    topic: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic, position = read_compact_string(buffer, position)
        partitions: list[int]
        count, position = read_compact_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic)
        out.write_compact_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class EndpointToPartitions(Struct, gc=False):
    """Partitions that can be queried at each member's endpoint."""

    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = field(default_factory=StreamsGroupHeartbeatResponseEndpoint)  # Where queries to the member's state go.
    active_partitions: list[TopicPartition] = field(default_factory=list)  # Partitions that the member works on.
    standby_partitions: list[TopicPartition] = field(default_factory=list)  # Partitions whose state the member keeps a copy of.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        user_endpoint: StreamsGroupHeartbeatResponseEndpoint
        user_endpoint, position = StreamsGroupHeartbeatResponseEndpoint.read(buffer, position, version)
        active_partitions: list[TopicPartition]
        count, position = read_compact_array_length(buffer, position)
        active_partitions = []
        for _ in range(count):
            active_partitions_element, position = TopicPartition.read(buffer, position, version)
            active_partitions.append(active_partitions_element)
        standby_partitions: list[TopicPartition]
        count, position = read_compact_array_length(buffer, position)
        standby_partitions = []
        for _ in range(count):
            standby_partitions_element, position = TopicPartition.read(buffer, position, version)
            standby_partitions.append(standby_partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(user_endpoint, active_partitions, standby_partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        self.user_endpoint.write(out, version)
        out.write_compact_array_length(len(self.active_partitions))
        for active_partitions_element in self.active_partitions:
            active_partitions_element.write(out, version)
        out.write_compact_array_length(len(self.standby_partitions))
        for standby_partitions_element in self.standby_partitions:
            standby_partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class StreamsGroupHeartbeatResponse(Struct, gc=False):
    """Answers a request to join, stay in or leave a streams group."""

    API_KEY: ClassVar[int] = 88
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    member_id: str = ""  # Id of the member; empty when it has none yet.
    member_epoch: int = 0  # Epoch of the member; 0 joins, -1 leaves, -2 leaves for a while.
    heartbeat_interval_ms: int = 0  # How long to wait before the next heartbeat.
    acceptable_recovery_lag: int = 0  # How far behind a warm-up task may be and still count as caught up.
    task_offset_interval_ms: int = 0  # How often members report the offsets of their tasks.
    status: list[Status] | None = field(default_factory=list)  # Things the member should know.
    active_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None  # Tasks that the member processes.
    standby_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None  # Tasks whose state the member keeps a copy of.
    warmup_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = None  # Tasks whose state the member is catching up with.
    endpoint_information_epoch: int = 0  # Version of the endpoint information.
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None  # Partitions that can be queried at each member's endpoint.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            member_id, position = read_compact_string(buffer, position)
            member_epoch, heartbeat_interval_ms, acceptable_recovery_lag, task_offset_interval_ms = _read_i4_i4_i4_i4(buffer, position)
            position += 16
            status: list[Status] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                status = None
            else:
                status = []
                for _ in range(count):
                    status_element, position = Status.read(buffer, position, version)
                    status.append(status_element)
            active_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                active_tasks = None
            else:
                active_tasks = []
                for _ in range(count):
                    active_tasks_element, position = StreamsGroupHeartbeatResponseTaskIds.read(buffer, position, version)
                    active_tasks.append(active_tasks_element)
            standby_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                standby_tasks = None
            else:
                standby_tasks = []
                for _ in range(count):
                    standby_tasks_element, position = StreamsGroupHeartbeatResponseTaskIds.read(buffer, position, version)
                    standby_tasks.append(standby_tasks_element)
            warmup_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                warmup_tasks = None
            else:
                warmup_tasks = []
                for _ in range(count):
                    warmup_tasks_element, position = StreamsGroupHeartbeatResponseTaskIds.read(buffer, position, version)
                    warmup_tasks.append(warmup_tasks_element)
            (endpoint_information_epoch,) = _read_i4(buffer, position)
            position += 4
            partitions_by_user_endpoint: list[EndpointToPartitions] | None
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                partitions_by_user_endpoint = None
            else:
                partitions_by_user_endpoint = []
                for _ in range(count):
                    partitions_by_user_endpoint_element, position = EndpointToPartitions.read(buffer, position, version)
                    partitions_by_user_endpoint.append(partitions_by_user_endpoint_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, acceptable_recovery_lag, task_offset_interval_ms, status, active_tasks, standby_tasks, warmup_tasks, endpoint_information_epoch, partitions_by_user_endpoint, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupHeartbeatResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_string(self.member_id)
        append(_write_i4_i4_i4_i4(self.member_epoch, self.heartbeat_interval_ms, self.acceptable_recovery_lag, self.task_offset_interval_ms))
        if self.status is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.status))
            for status_element in self.status:
                status_element.write(out, version)
        if self.active_tasks is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.active_tasks))
            for active_tasks_element in self.active_tasks:
                active_tasks_element.write(out, version)
        if self.standby_tasks is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.standby_tasks))
            for standby_tasks_element in self.standby_tasks:
                standby_tasks_element.write(out, version)
        if self.warmup_tasks is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.warmup_tasks))
            for warmup_tasks_element in self.warmup_tasks:
                warmup_tasks_element.write(out, version)
        append(_write_i4(self.endpoint_information_epoch))
        if self.partitions_by_user_endpoint is None:
            out.append(b"\0")
        else:
            out.write_compact_array_length(len(self.partitions_by_user_endpoint))
            for partitions_by_user_endpoint_element in self.partitions_by_user_endpoint:
                partitions_by_user_endpoint_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
