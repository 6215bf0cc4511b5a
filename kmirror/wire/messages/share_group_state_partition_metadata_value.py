"""ShareGroupStatePartitionMetadataValue. Generated from ShareGroupStatePartitionMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_int32s,
    read_tagged_fields,
)

_read_uuid = struct.Struct(">16s").unpack_from
_write_uuid = struct.Struct(">16s").pack


class TopicPartitionsInfo(Struct, gc=False):
    """Topics whose share state exists."""

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


class TopicInfo(Struct, gc=False):
    """Topics whose share state is being deleted."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    topic_name: str = ""  # Name of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        topic_name, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, topic_name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_string(self.topic_name)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ShareGroupStatePartitionMetadataValue(Struct, gc=False):
    """Value of the record of the partitions whose share state exists."""

    API_KEY: ClassVar[int] = 15
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    initializing_topics: list[TopicPartitionsInfo] = field(default_factory=list)  # Topics whose share state is being made.
    initialized_topics: list[TopicPartitionsInfo] = field(default_factory=list)  # Topics whose share state exists.
    deleting_topics: list[TopicInfo] = field(default_factory=list)  # Topics whose share state is being deleted.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            initializing_topics: list[TopicPartitionsInfo]
            count, position = read_compact_array_length(buffer, position)
            initializing_topics = []
            for _ in range(count):
                initializing_topics_element, position = TopicPartitionsInfo.read(buffer, position, version)
                initializing_topics.append(initializing_topics_element)
            initialized_topics: list[TopicPartitionsInfo]
            count, position = read_compact_array_length(buffer, position)
            initialized_topics = []
            for _ in range(count):
                initialized_topics_element, position = TopicPartitionsInfo.read(buffer, position, version)
                initialized_topics.append(initialized_topics_element)
            deleting_topics: list[TopicInfo]
            count, position = read_compact_array_length(buffer, position)
            deleting_topics = []
            for _ in range(count):
                deleting_topics_element, position = TopicInfo.read(buffer, position, version)
                deleting_topics.append(deleting_topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(initializing_topics, initialized_topics, deleting_topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareGroupStatePartitionMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.initializing_topics))
        for initializing_topics_element in self.initializing_topics:
            initializing_topics_element.write(out, version)
        out.write_compact_array_length(len(self.initialized_topics))
        for initialized_topics_element in self.initialized_topics:
            initialized_topics_element.write(out, version)
        out.write_compact_array_length(len(self.deleting_topics))
        for deleting_topics_element in self.deleting_topics:
            deleting_topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
