"""DeleteTopicsRequest and DeleteTopicsResponse. Generated from DeleteTopicsRequest.json and DeleteTopicsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    not_null,
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_string,
    read_strings,
    read_tagged_fields,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_read_uuid_i2 = struct.Struct(">16sh").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_uuid = struct.Struct(">16s").pack
_write_uuid_i2 = struct.Struct(">16sh").pack


class DeleteTopicState(Struct, gc=False):
    """Topics concerned."""

    name: str | None = None  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str | None
        name, position = read_compact_nullable_string(buffer, position)
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.name)
        append(_write_uuid(self.topic_id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteTopicsRequest(Struct, gc=False):
    """Asks to delete topics."""

    API_KEY: ClassVar[int] = 20
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    topics: list[DeleteTopicState] = field(default_factory=list)  # Topics concerned. [6+]
    topic_names: list[str] = field(default_factory=list)  # Names of the topics. [1-5]
    timeout_ms: int = 0  # How long to wait for the work to be done.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[DeleteTopicState]
            if version == 6:
                count, position = read_compact_array_length(buffer, position)
                topics = []
                for _ in range(count):
                    topics_element, position = DeleteTopicState.read(buffer, position, version)
                    topics.append(topics_element)
            else:
                topics = []
            topic_names: list[str]
            if version <= 5:
                if version >= 4:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                topic_names, position = (read_compact_strings if version >= 4 else read_strings)(buffer, position, count)
            else:
                topic_names = []
            (timeout_ms,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, topic_names, timeout_ms, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteTopicsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 6:
            if self.topics:
                raise unsupported_field("DeleteTopicsRequest", "topics", version)
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DeleteTopicsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version == 6:
            out.write_compact_array_length(len(self.topics))
            for topics_element in self.topics:
                topics_element.write(out, version)
        if version <= 5:
            if version >= 4:
                out.write_compact_array_length(len(self.topic_names))
            else:
                out.write_array_length(len(self.topic_names))
            if version >= 4:
                out.write_compact_strings(self.topic_names)
            else:
                out.write_strings(self.topic_names)
        append(_write_i4(self.timeout_ms))
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeletableTopicResult(Struct, gc=False):
    """One result for each thing asked."""

    name: str | None = ""  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [6+]
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str | None
        if version >= 6:
            name, position = read_compact_nullable_string(buffer, position)
        elif version >= 4:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        if version >= 6:
            topic_id_bytes, error_code = _read_uuid_i2(buffer, position)
            position += 18
            topic_id = Uuid(topic_id_bytes)
        else:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            topic_id = Uuid.ZERO
        error_message: str | None
        if version >= 5:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message = None
        unknown_tagged_fields: TaggedFields = ()
        if version >= 4:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DeleteTopicsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 6:
            out.write_compact_nullable_string(self.name)
        elif version >= 4:
            out.write_compact_string(not_null(self.name, "name"))
        else:
            out.write_string(not_null(self.name, "name"))
        if version >= 6:
            append(_write_uuid_i2(self.topic_id.raw, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if version >= 5:
            out.write_compact_nullable_string(self.error_message)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class DeleteTopicsResponse(Struct, gc=False):
    """Answers a request to delete topics."""

    API_KEY: ClassVar[int] = 20
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 6
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    responses: list[DeletableTopicResult] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            responses: list[DeletableTopicResult]
            if version >= 4:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = DeletableTopicResult.read(buffer, position, version)
                responses.append(responses_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 4:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, responses, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteTopicsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("DeleteTopicsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 4:
            out.write_compact_array_length(len(self.responses))
        else:
            out.write_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        if version >= 4:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
