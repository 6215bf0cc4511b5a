"""TxnOffsetCommitRequest and TxnOffsetCommitResponse. Generated from TxnOffsetCommitRequest.json and TxnOffsetCommitResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_i4_i8_i4 = struct.Struct(">iqi").unpack_from
_read_i8_i2 = struct.Struct(">qh").unpack_from
_read_i8_i2_i4 = struct.Struct(">qhi").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_i4_i8_i4 = struct.Struct(">iqi").pack
_write_i8_i2 = struct.Struct(">qh").pack
_write_i8_i2_i4 = struct.Struct(">qhi").pack


class TxnOffsetCommitRequestPartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    committed_offset: int = 0  # Offset at which the consumer goes on.
    committed_leader_epoch: int = -1  # Leader epoch of the last consumed record, -1 if unknown. [2+]
    committed_metadata: str | None = ""  # Text that the consumer wants kept with the offset.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            partition_index, committed_offset, committed_leader_epoch = _read_i4_i8_i4(buffer, position)
            position += 16
        else:
            partition_index, committed_offset = _read_i4_i8(buffer, position)
            position += 12
            committed_leader_epoch = -1
        committed_metadata: str | None
        if version >= 3:
            committed_metadata, position = read_compact_nullable_string(buffer, position)
        else:
            committed_metadata, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, committed_offset, committed_leader_epoch, committed_metadata, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("TxnOffsetCommitRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            append(_write_i4_i8_i4(self.partition_index, self.committed_offset, self.committed_leader_epoch))
        else:
            append(_write_i4_i8(self.partition_index, self.committed_offset))
        if version >= 3:
            out.write_compact_nullable_string(self.committed_metadata)
        else:
            out.write_nullable_string(self.committed_metadata)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TxnOffsetCommitRequestTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 3:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[TxnOffsetCommitRequestPartition]
        if version >= 3:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = TxnOffsetCommitRequestPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("TxnOffsetCommitRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 3:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TxnOffsetCommitRequest(Struct, gc=False):
    """Asks to store consumed offsets within a transaction."""

    API_KEY: ClassVar[int] = 28
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.
    group_id: str = ""  # Name of the group.
    producer_id: int = 0  # Id of the producer.
    producer_epoch: int = 0  # Epoch of the producer.
    generation_id: int = -1  # Generation of the group; goes up with every rebalance. [3+]
    member_id: str = ""  # Id of the member; empty when it has none yet. [3+]
    group_instance_id: str | None = None  # Id of a static member; null for a dynamic one. [3+]
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                transactional_id, position = read_compact_string(buffer, position)
            else:
                transactional_id, position = read_string(buffer, position)
            if version >= 3:
                group_id, position = read_compact_string(buffer, position)
            else:
                group_id, position = read_string(buffer, position)
            if version >= 3:
                producer_id, producer_epoch, generation_id = _read_i8_i2_i4(buffer, position)
                position += 14
            else:
                producer_id, producer_epoch = _read_i8_i2(buffer, position)
                position += 10
                generation_id = -1
            member_id: str
            if version >= 3:
                member_id, position = read_compact_string(buffer, position)
            else:
                member_id = ""
            group_instance_id: str | None
            if version >= 3:
                group_instance_id, position = read_compact_nullable_string(buffer, position)
            else:
                group_instance_id = None
            topics: list[TxnOffsetCommitRequestTopic]
            if version >= 3:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = TxnOffsetCommitRequestTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactional_id, group_id, producer_id, producer_epoch, generation_id, member_id, group_instance_id, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("TxnOffsetCommitRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 3:
            if self.generation_id != -1:
                raise unsupported_field("TxnOffsetCommitRequest", "generation_id", version)
            if self.member_id:
                raise unsupported_field("TxnOffsetCommitRequest", "member_id", version)
            if self.group_instance_id is not None:
                raise unsupported_field("TxnOffsetCommitRequest", "group_instance_id", version)
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("TxnOffsetCommitRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.transactional_id)
        else:
            out.write_string(self.transactional_id)
        if version >= 3:
            out.write_compact_string(self.group_id)
        else:
            out.write_string(self.group_id)
        if version >= 3:
            append(_write_i8_i2_i4(self.producer_id, self.producer_epoch, self.generation_id))
        else:
            append(_write_i8_i2(self.producer_id, self.producer_epoch))
        if version >= 3:
            out.write_compact_string(self.member_id)
        if version >= 3:
            out.write_compact_nullable_string(self.group_instance_id)
        if version >= 3:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TxnOffsetCommitResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("TxnOffsetCommitResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TxnOffsetCommitResponseTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 3:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        partitions: list[TxnOffsetCommitResponsePartition]
        if version >= 3:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = TxnOffsetCommitResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("TxnOffsetCommitResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 3:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TxnOffsetCommitResponse(Struct, gc=False):
    """Answers a request to store consumed offsets within a transaction."""

    API_KEY: ClassVar[int] = 28
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 5
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            topics: list[TxnOffsetCommitResponseTopic]
            if version >= 3:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = TxnOffsetCommitResponseTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("TxnOffsetCommitResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("TxnOffsetCommitResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 3:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
