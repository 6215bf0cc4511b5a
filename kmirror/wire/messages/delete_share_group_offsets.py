"""DeleteShareGroupOffsetsRequest and DeleteShareGroupOffsetsResponse. Generated from DeleteShareGroupOffsetsRequest.json and DeleteShareGroupOffsetsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_uuid_i2 = struct.Struct(">16sh").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_uuid_i2 = struct.Struct(">16sh").pack


class DeleteShareGroupOffsetsRequestTopic(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteShareGroupOffsetsRequest(Struct, gc=False):
    """Asks to delete the start offsets of a share group."""

    API_KEY: ClassVar[int] = 92
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    group_id: str = ""  # Name of the group.
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_compact_string(buffer, position)
            topics: list[DeleteShareGroupOffsetsRequestTopic]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DeleteShareGroupOffsetsRequestTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteShareGroupOffsetsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.group_id)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteShareGroupOffsetsResponseTopic(Struct, gc=False):
    """One result for each thing asked."""

    topic_name: str = ""  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        topic_id_bytes, error_code = _read_uuid_i2(buffer, position)
        position += 18
        topic_id = Uuid(topic_id_bytes)
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, topic_id, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        append(_write_uuid_i2(self.topic_id.raw, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DeleteShareGroupOffsetsResponse(Struct, gc=False):
    """Answers a request to delete the start offsets of a share group."""

    API_KEY: ClassVar[int] = 92
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)  # One result for each thing asked.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            responses: list[DeleteShareGroupOffsetsResponseTopic]
            count, position = read_compact_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = DeleteShareGroupOffsetsResponseTopic.read(buffer, position, version)
                responses.append(responses_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, responses, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DeleteShareGroupOffsetsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
