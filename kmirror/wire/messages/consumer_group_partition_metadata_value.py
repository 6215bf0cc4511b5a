"""ConsumerGroupPartitionMetadataValue. Generated from ConsumerGroupPartitionMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_strings,
    read_tagged_fields,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_uuid = struct.Struct(">16s").pack


class PartitionMetadata(Struct, gc=False):
    """Partitions of the topic with their racks."""

    partition: int = 0  # Number of the partition.
    racks: list[str] = field(default_factory=list)  # Racks of the partition's replicas.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition,) = _read_i4(buffer, position)
        position += 4
        racks: list[str]
        count, position = read_compact_array_length(buffer, position)
        racks, position = read_compact_strings(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition, racks, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition))
        out.write_compact_array_length(len(self.racks))
        out.write_compact_strings(self.racks)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class TopicMetadata(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    topic_name: str = ""  # Name of the topic.
    num_partitions: int = 0  # How many partitions; -1 for the broker's default.
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)  # Partitions of the topic with their racks.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        topic_name, position = read_compact_string(buffer, position)
        (num_partitions,) = _read_i4(buffer, position)
        position += 4
        partition_metadata: list[PartitionMetadata]
        count, position = read_compact_array_length(buffer, position)
        partition_metadata = []
        for _ in range(count):
            partition_metadata_element, position = PartitionMetadata.read(buffer, position, version)
            partition_metadata.append(partition_metadata_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, topic_name, num_partitions, partition_metadata, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_string(self.topic_name)
        append(_write_i4(self.num_partitions))
        out.write_compact_array_length(len(self.partition_metadata))
        for partition_metadata_element in self.partition_metadata:
            partition_metadata_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ConsumerGroupPartitionMetadataValue(Struct, gc=False):
    """Value of the record of the partitions of a consumer group's topics."""

    API_KEY: ClassVar[int] = 4
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[TopicMetadata] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[TopicMetadata]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = TopicMetadata.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupPartitionMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
