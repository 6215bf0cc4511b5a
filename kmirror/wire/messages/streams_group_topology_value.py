"""StreamsGroupTopologyValue. Generated from StreamsGroupTopologyValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_compact_strings,
    read_int16s,
    read_tagged_fields,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class TopicConfig(Struct, gc=False):
    """The topic's configuration entries."""

    key: str = ""  # Key of the configuration.
    value: str = ""  # Value of the configuration.
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


class TopicInfo(Struct, gc=False):
    """Internal topics that the subtopology reads from."""

    name: str = ""  # Name of the topic.
    partitions: int = 0  # Partitions concerned.
    replication_factor: int = 0  # Replicas of each partition; -1 for the broker's default.
    topic_configs: list[TopicConfig] = field(default_factory=list)  # The topic's configuration entries.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions, replication_factor = _read_i4_i2(buffer, position)
        position += 6
        topic_configs: list[TopicConfig]
        count, position = read_compact_array_length(buffer, position)
        topic_configs = []
        for _ in range(count):
            topic_configs_element, position = TopicConfig.read(buffer, position, version)
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


class StreamsGroupTopologyValue(Struct, gc=False):
    """Value of the record of a streams group's topology."""

    API_KEY: ClassVar[int] = 23
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    epoch: int = 0  # Version of the topology.
    subtopologies: list[Subtopology] = field(default_factory=list)  # Parts of the topology that run on their own.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
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
        except READ_ERRORS as error:
            raise malformed("StreamsGroupTopologyValue", version, error) from error

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
