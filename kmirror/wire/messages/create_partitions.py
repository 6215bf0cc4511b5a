"""CreatePartitionsRequest and CreatePartitionsResponse. Generated from CreatePartitionsRequest.json and CreatePartitionsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_bool = struct.Struct(">i?").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_bool = struct.Struct(">i?").pack


class CreatePartitionsAssignment(Struct, gc=False):
    """Assignments of the members."""

    broker_ids: list[int] = field(default_factory=list)  # Numbers of the brokers concerned; empty means all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        broker_ids: list[int]
        if version >= 2:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        broker_ids, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(broker_ids, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreatePartitionsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_array_length(len(self.broker_ids))
        else:
            out.write_array_length(len(self.broker_ids))
        out.write_int32s(self.broker_ids)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreatePartitionsTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    count: int = 0  # How many partitions the topic is to have in the end.
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)  # Assignments of the members.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        (count_,) = _read_i4(buffer, position)
        position += 4
        assignments: list[CreatePartitionsAssignment] | None
        if version >= 2:
            count, position = read_compact_nullable_array_length(buffer, position)
        else:
            count, position = read_nullable_array_length(buffer, position)
        if count < 0:
            assignments = None
        else:
            assignments = []
            for _ in range(count):
                assignments_element, position = CreatePartitionsAssignment.read(buffer, position, version)
                assignments.append(assignments_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, count_, assignments, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreatePartitionsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        append(_write_i4(self.count))
        if self.assignments is None:
            if version >= 2:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version >= 2:
                out.write_compact_array_length(len(self.assignments))
            else:
                out.write_array_length(len(self.assignments))
            for assignments_element in self.assignments:
                assignments_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreatePartitionsRequest(Struct, gc=False):
    """Asks to add partitions to topics."""

    API_KEY: ClassVar[int] = 37
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    topics: list[CreatePartitionsTopic] = field(default_factory=list)  # Topics concerned.
    timeout_ms: int = 0  # How long to wait for the work to be done.
    validate_only: bool = False  # True to check everything and change nothing.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[CreatePartitionsTopic]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = CreatePartitionsTopic.read(buffer, position, version)
                topics.append(topics_element)
            timeout_ms, validate_only = _read_i4_bool(buffer, position)
            position += 5
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, timeout_ms, validate_only, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreatePartitionsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreatePartitionsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        append(_write_i4_bool(self.timeout_ms, self.validate_only))
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreatePartitionsTopicResult(Struct, gc=False):
    """One result for each thing asked."""

    name: str = ""  # Name of what the result is about.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        if version >= 2:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 2:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreatePartitionsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 2:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        append(_write_i2(self.error_code))
        if version >= 2:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreatePartitionsResponse(Struct, gc=False):
    """Answers a request to add partitions to topics."""

    API_KEY: ClassVar[int] = 37
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            results: list[CreatePartitionsTopicResult]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            results = []
            for _ in range(count):
                results_element, position = CreatePartitionsTopicResult.read(buffer, position, version)
                results.append(results_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 2:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreatePartitionsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 2:
            raise unsupported_field("CreatePartitionsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 2:
            out.write_compact_array_length(len(self.results))
        else:
            out.write_array_length(len(self.results))
        for results_element in self.results:
            results_element.write(out, version)
        if version >= 2:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
