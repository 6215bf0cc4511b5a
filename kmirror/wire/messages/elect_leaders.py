"""ElectLeadersRequest and ElectLeadersResponse. Generated from ElectLeadersRequest.json and ElectLeadersResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_nullable_array_length,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class TopicPartitions(Struct, gc=False):
    """Topics with their partitions."""

    topic: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            topic, position = read_compact_string(buffer, position)
        else:
            topic, position = read_string(buffer, position)
        partitions: list[int]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("ElectLeadersRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.topic)
        else:
            out.write_string(self.topic)
        if version == 2:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ElectLeadersRequest(Struct, gc=False):
    """Asks to elect leaders of partitions."""

    API_KEY: ClassVar[int] = 43
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    election_type: int = 0  # Kind of election: 0 preferred, 1 unclean. [1+]
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)  # Topics with their partitions.
    timeout_ms: int = 60000  # How long to wait for the work to be done.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 1:
                (election_type,) = _read_i1(buffer, position)
                position += 1
            else:
                election_type = 0
            topic_partitions: list[TopicPartitions] | None
            if version >= 2:
                count, position = read_compact_nullable_array_length(buffer, position)
            else:
                count, position = read_nullable_array_length(buffer, position)
            if count < 0:
                topic_partitions = None
            else:
                topic_partitions = []
                for _ in range(count):
                    topic_partitions_element, position = TopicPartitions.read(buffer, position, version)
                    topic_partitions.append(topic_partitions_element)
            (timeout_ms,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(election_type, topic_partitions, timeout_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ElectLeadersRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.election_type:
                raise unsupported_field("ElectLeadersRequest", "election_type", version)
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("ElectLeadersRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i1(self.election_type))
        if self.topic_partitions is None:
            if version >= 2:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version == 2:
                out.write_compact_array_length(len(self.topic_partitions))
            else:
                out.write_array_length(len(self.topic_partitions))
            for topic_partitions_element in self.topic_partitions:
                topic_partitions_element.write(out, version)
        append(_write_i4(self.timeout_ms))
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class PartitionResult(Struct, gc=False):
    """Results of the partitions."""

    partition_id: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_id, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        if version >= 2:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_id, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("ElectLeadersResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2(self.partition_id, self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ReplicaElectionResult(Struct, gc=False):
    """Results of the elections."""

    topic: str = ""  # Name of the topic.
    partition_result: list[PartitionResult] = field(default_factory=list)  # Results of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            topic, position = read_compact_string(buffer, position)
        else:
            topic, position = read_string(buffer, position)
        partition_result: list[PartitionResult]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partition_result = []
        for _ in range(count):
            partition_result_element, position = PartitionResult.read(buffer, position, version)
            partition_result.append(partition_result_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, partition_result, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("ElectLeadersResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.topic)
        else:
            out.write_string(self.topic)
        if version == 2:
            out.write_compact_array_length(len(self.partition_result))
        else:
            out.write_array_length(len(self.partition_result))
        for partition_result_element in self.partition_result:
            partition_result_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ElectLeadersResponse(Struct, gc=False):
    """Answers a request to elect leaders of partitions."""

    API_KEY: ClassVar[int] = 43
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success. [1+]
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)  # Results of the elections.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 1:
                throttle_time_ms, error_code = _read_i4_i2(buffer, position)
                position += 6
            else:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
                error_code = 0
            replica_election_results: list[ReplicaElectionResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            replica_election_results = []
            for _ in range(count):
                replica_election_results_element, position = ReplicaElectionResult.read(buffer, position, version)
                replica_election_results.append(replica_election_results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version == 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, replica_election_results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ElectLeadersResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.error_code:
                raise unsupported_field("ElectLeadersResponse", "error_code", version)
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("ElectLeadersResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        else:
            append(_write_i4(self.throttle_time_ms))
        if version == 2:
            out.write_compact_array_length(len(self.replica_election_results))
        else:
            out.write_array_length(len(self.replica_election_results))
        for replica_election_results_element in self.replica_election_results:
            replica_election_results_element.write(out, version)
        if version == 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
