"""WriteTxnMarkersRequest and WriteTxnMarkersResponse. Generated from WriteTxnMarkersRequest.json and WriteTxnMarkersResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_int32s,
    read_tagged_fields,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i1 = struct.Struct(">ib").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_i8_i2_bool = struct.Struct(">qh?").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i1 = struct.Struct(">ib").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i8 = struct.Struct(">q").pack
_write_i8_i2_bool = struct.Struct(">qh?").pack


class WritableTxnMarkerTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partition_indexes: list[int] = field(default_factory=list)  # Numbers of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partition_indexes: list[int]
        count, position = read_compact_array_length(buffer, position)
        partition_indexes, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partition_indexes, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_array_length(len(self.partition_indexes))
        out.write_int32s(self.partition_indexes)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WritableTxnMarker(Struct, gc=False):
    """Transaction ends to write."""

    producer_id: int = 0  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    transaction_result: bool = False  # True to commit, false to abort.
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)  # Topics concerned.
    coordinator_epoch: int = 0  # Epoch of the transaction coordinator.
    transaction_version: int = 0  # Transaction protocol in use. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        producer_id, producer_epoch, transaction_result = _read_i8_i2_bool(buffer, position)
        position += 11
        topics: list[WritableTxnMarkerTopic]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = WritableTxnMarkerTopic.read(buffer, position, version)
            topics.append(topics_element)
        if version >= 2:
            coordinator_epoch, transaction_version = _read_i4_i1(buffer, position)
            position += 5
        else:
            (coordinator_epoch,) = _read_i4(buffer, position)
            position += 4
            transaction_version = 0
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(producer_id, producer_epoch, transaction_result, topics, coordinator_epoch, transaction_version, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i2_bool(self.producer_id, self.producer_epoch, self.transaction_result))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 2:
            append(_write_i4_i1(self.coordinator_epoch, self.transaction_version))
        else:
            append(_write_i4(self.coordinator_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WriteTxnMarkersRequest(Struct, gc=False):
    """Asks to write the ends of transactions into partitions."""

    API_KEY: ClassVar[int] = 27
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    markers: list[WritableTxnMarker] = field(default_factory=list)  # Transaction ends to write.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            markers: list[WritableTxnMarker]
            count, position = read_compact_array_length(buffer, position)
            markers = []
            for _ in range(count):
                markers_element, position = WritableTxnMarker.read(buffer, position, version)
                markers.append(markers_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(markers, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("WriteTxnMarkersRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.markers))
        for markers_element in self.markers:
            markers_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WritableTxnMarkerPartitionResult(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WritableTxnMarkerTopicResult(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[WritableTxnMarkerPartitionResult]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = WritableTxnMarkerPartitionResult.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WritableTxnMarkerResult(Struct, gc=False):
    """Transaction ends to write."""

    producer_id: int = 0  # Id of the producer.
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (producer_id,) = _read_i8(buffer, position)
        position += 8
        topics: list[WritableTxnMarkerTopicResult]
        count, position = read_compact_array_length(buffer, position)
        topics = []
        for _ in range(count):
            topics_element, position = WritableTxnMarkerTopicResult.read(buffer, position, version)
            topics.append(topics_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(producer_id, topics, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8(self.producer_id))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class WriteTxnMarkersResponse(Struct, gc=False):
    """Answers a request to write the ends of transactions into partitions."""

    API_KEY: ClassVar[int] = 27
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)  # Transaction ends to write.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            markers: list[WritableTxnMarkerResult]
            count, position = read_compact_array_length(buffer, position)
            markers = []
            for _ in range(count):
                markers_element, position = WritableTxnMarkerResult.read(buffer, position, version)
                markers.append(markers_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(markers, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("WriteTxnMarkersResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.markers))
        for markers_element in self.markers:
            markers_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
