"""CreateTopicsRequest and CreateTopicsResponse. Generated from CreateTopicsRequest.json and CreateTopicsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_bool_i1_bool = struct.Struct(">?b?").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_bool = struct.Struct(">i?").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_read_uuid_i2 = struct.Struct(">16sh").unpack_from
_write_bool_i1_bool = struct.Struct(">?b?").pack
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_bool = struct.Struct(">i?").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_uuid = struct.Struct(">16s").pack
_write_uuid_i2 = struct.Struct(">16sh").pack


class CreatableReplicaAssignment(Struct, gc=False):
    """Assignments of the members."""

    partition_index: int = 0  # Number of the partition.
    broker_ids: list[int] = field(default_factory=list)  # Numbers of the brokers concerned; empty means all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        broker_ids: list[int]
        if version >= 5:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        broker_ids, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 5:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, broker_ids, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("CreateTopicsRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.partition_index))
        if version >= 5:
            out.write_compact_array_length(len(self.broker_ids))
        else:
            out.write_array_length(len(self.broker_ids))
        out.write_int32s(self.broker_ids)
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreatableTopicConfig(Struct, gc=False):
    """Configuration entries."""

    name: str = ""  # Key of the configuration.
    value: str | None = ""  # Value of the configuration; null if there is none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        value: str | None
        if version >= 5:
            value, position = read_compact_nullable_string(buffer, position)
        else:
            value, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 5:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, value, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("CreateTopicsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 5:
            out.write_compact_nullable_string(self.value)
        else:
            out.write_nullable_string(self.value)
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MirrorInfo(Struct, gc=False):
    """Set when the topic is to be a mirror topic; null for an ordinary one."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class CreatableTopic(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    num_partitions: int = 0  # How many partitions; -1 for the broker's default.
    replication_factor: int = 0  # Replicas of each partition; -1 for the broker's default.
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)  # Assignments of the members.
    configs: list[CreatableTopicConfig] = field(default_factory=list)  # Configuration entries.
    mirror_info: MirrorInfo | None = None  # Set when the topic is to be a mirror topic; null for an ordinary one. [8+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        num_partitions, replication_factor = _read_i4_i2(buffer, position)
        position += 6
        assignments: list[CreatableReplicaAssignment]
        if version >= 5:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        assignments = []
        for _ in range(count):
            assignments_element, position = CreatableReplicaAssignment.read(buffer, position, version)
            assignments.append(assignments_element)
        configs: list[CreatableTopicConfig]
        if version >= 5:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        configs = []
        for _ in range(count):
            configs_element, position = CreatableTopicConfig.read(buffer, position, version)
            configs.append(configs_element)
        mirror_info: MirrorInfo | None
        if version == 8:
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                mirror_info = None
            else:
                mirror_info, position = MirrorInfo.read(buffer, position, version)
        else:
            mirror_info = None
        unknown_tagged_fields: TaggedFields = ()
        if version >= 5:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, num_partitions, replication_factor, assignments, configs, mirror_info, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("CreateTopicsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        append(_write_i4_i2(self.num_partitions, self.replication_factor))
        if version >= 5:
            out.write_compact_array_length(len(self.assignments))
        else:
            out.write_array_length(len(self.assignments))
        for assignments_element in self.assignments:
            assignments_element.write(out, version)
        if version >= 5:
            out.write_compact_array_length(len(self.configs))
        else:
            out.write_array_length(len(self.configs))
        for configs_element in self.configs:
            configs_element.write(out, version)
        if version == 8:
            if self.mirror_info is None:
                out.append(b"\xff")
            else:
                out.append(b"\x01")
                self.mirror_info.write(out, version)
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreateTopicsRequest(Struct, gc=False):
    """Asks to create topics."""

    API_KEY: ClassVar[int] = 19
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 8
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    topics: list[CreatableTopic] = field(default_factory=list)  # Topics concerned.
    timeout_ms: int = 60000  # How long to wait for the work to be done.
    validate_only: bool = False  # True to check everything and change nothing.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[CreatableTopic]
            if version >= 5:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = CreatableTopic.read(buffer, position, version)
                topics.append(topics_element)
            timeout_ms, validate_only = _read_i4_bool(buffer, position)
            position += 5
            unknown_tagged_fields: TaggedFields = ()
            if version >= 5:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, timeout_ms, validate_only, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreateTopicsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("CreateTopicsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        append(_write_i4_bool(self.timeout_ms, self.validate_only))
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class CreatableTopicConfigs(Struct, gc=False):
    """Configuration entries."""

    name: str = ""  # Key of the configuration.
    value: str | None = ""  # Value of the configuration; null if there is none.
    read_only: bool = False  # True if the value cannot be changed while running.
    config_source: int = -1  # Where the value comes from, as a number.
    is_sensitive: bool = False  # True if the value is secret and left out.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        value: str | None
        value, position = read_compact_nullable_string(buffer, position)
        read_only, config_source, is_sensitive = _read_bool_i1_bool(buffer, position)
        position += 3
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, value, read_only, config_source, is_sensitive, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_nullable_string(self.value)
        append(_write_bool_i1_bool(self.read_only, self.config_source, self.is_sensitive))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class CreatableTopicResult(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [7+]
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    topic_config_error_code: int = 0  # Why the configuration is not returned, as a code; 0 if it is. [5+]
    num_partitions: int = -1  # How many partitions; -1 for the broker's default. [5+]
    replication_factor: int = -1  # Replicas of each partition; -1 for the broker's default. [5+]
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list)  # Configuration entries. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        if version >= 7:
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
            error_message, position = read_nullable_string(buffer, position)
        if version >= 5:
            num_partitions, replication_factor = _read_i4_i2(buffer, position)
            position += 6
        else:
            num_partitions = -1
            replication_factor = -1
        configs: list[CreatableTopicConfigs] | None
        if version >= 5:
            count, position = read_compact_nullable_array_length(buffer, position)
            if count < 0:
                configs = None
            else:
                configs = []
                for _ in range(count):
                    configs_element, position = CreatableTopicConfigs.read(buffer, position, version)
                    configs.append(configs_element)
        else:
            configs = []
        topic_config_error_code: int = 0
        unknown_tagged_fields: TaggedFields = ()
        if version >= 5:
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        (topic_config_error_code,) = _read_i2(buffer, position)
                        position += 2
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(name, topic_id, error_code, error_message, topic_config_error_code, num_partitions, replication_factor, configs, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("CreateTopicsResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            out.write_compact_string(self.name)
        else:
            out.write_string(self.name)
        if version >= 7:
            append(_write_uuid_i2(self.topic_id.raw, self.error_code))
        else:
            append(_write_i2(self.error_code))
        if version >= 5:
            out.write_compact_nullable_string(self.error_message)
        else:
            out.write_nullable_string(self.error_message)
        if version >= 5:
            append(_write_i4_i2(self.num_partitions, self.replication_factor))
        if version >= 5:
            if self.configs is None:
                out.append(b"\0")
            else:
                out.write_compact_array_length(len(self.configs))
                for configs_element in self.configs:
                    configs_element.write(out, version)
        if version >= 5:
            tagged = list(self.unknown_tagged_fields)
            if self.topic_config_error_code:
                tagged.append((0, _write_i2(self.topic_config_error_code)))
            out.write_tagged_fields(tagged)


class CreateTopicsResponse(Struct, gc=False):
    """Answers a request to create topics."""

    API_KEY: ClassVar[int] = 19
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 8
    FLEXIBLE_FROM: ClassVar[int | None] = 5

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    topics: list[CreatableTopicResult] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            topics: list[CreatableTopicResult]
            if version >= 5:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = CreatableTopicResult.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 5:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("CreateTopicsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 5:
            raise unsupported_field("CreateTopicsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.throttle_time_ms))
        if version >= 5:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 5:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
