"""MetadataRequest and MetadataResponse. Generated from MetadataRequest.json and MetadataResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_bool = struct.Struct(">?").unpack_from
_read_bool_bool = struct.Struct(">??").unpack_from
_read_bool_bool_bool = struct.Struct(">???").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i2_i4_i4 = struct.Struct(">hii").unpack_from
_read_i2_i4_i4_i4 = struct.Struct(">hiii").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_read_uuid_bool = struct.Struct(">16s?").unpack_from
_write_bool = struct.Struct(">?").pack
_write_bool_bool = struct.Struct(">??").pack
_write_bool_bool_bool = struct.Struct(">???").pack
_write_i2 = struct.Struct(">h").pack
_write_i2_i4_i4 = struct.Struct(">hii").pack
_write_i2_i4_i4_i4 = struct.Struct(">hiii").pack
_write_i4 = struct.Struct(">i").pack
_write_uuid = struct.Struct(">16s").pack
_write_uuid_bool = struct.Struct(">16s?").pack


class MetadataRequestTopic(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [10+]
    name: str | None = ""  # Name of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 10:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        name: str | None
        if version >= 10:
            name, position = read_compact_nullable_string(buffer, position)
        elif version >= 9:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, name, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("MetadataRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 10:
            append(_write_uuid(self.topic_id.raw))
        if version >= 10:
            out.write_compact_nullable_string(self.name)
        elif version >= 9:
            out.write_compact_string(not_null(self.name, "name"))
        else:
            out.write_string(not_null(self.name, "name"))
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MetadataRequest(Struct, gc=False):
    """Asks to describe the cluster's brokers, topics and partitions."""

    API_KEY: ClassVar[int] = 3
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    topics: list[MetadataRequestTopic] | None = field(default_factory=list)  # Topics concerned.
    allow_auto_topic_creation: bool = True  # True if asking for an unknown topic may create it, where the broker permits that. [4+]
    include_cluster_authorized_operations: bool = False  # True if the answer is to say what the caller may do to the cluster. [8-10]
    include_topic_authorized_operations: bool = False  # True if the answer is to say what the caller may do to each topic. [8+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[MetadataRequestTopic] | None
            if version >= 9:
                count, position = read_compact_nullable_array_length(buffer, position)
            elif version >= 1:
                count, position = read_nullable_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            if count < 0:
                topics = None
            else:
                topics = []
                for _ in range(count):
                    topics_element, position = MetadataRequestTopic.read(buffer, position, version)
                    topics.append(topics_element)
            if version >= 11:
                allow_auto_topic_creation, include_topic_authorized_operations = _read_bool_bool(buffer, position)
                position += 2
                include_cluster_authorized_operations = False
            elif version >= 8:
                allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations = _read_bool_bool_bool(buffer, position)
                position += 3
            elif version >= 4:
                (allow_auto_topic_creation,) = _read_bool(buffer, position)
                position += 1
                include_cluster_authorized_operations = False
                include_topic_authorized_operations = False
            else:
                allow_auto_topic_creation = True
                include_cluster_authorized_operations = False
                include_topic_authorized_operations = False
            unknown_tagged_fields: TaggedFields = ()
            if version >= 9:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("MetadataRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 4:
            if not self.allow_auto_topic_creation:
                raise unsupported_field("MetadataRequest", "allow_auto_topic_creation", version)
        if not 8 <= version <= 10:
            if self.include_cluster_authorized_operations:
                raise unsupported_field("MetadataRequest", "include_cluster_authorized_operations", version)
        if version < 8:
            if self.include_topic_authorized_operations:
                raise unsupported_field("MetadataRequest", "include_topic_authorized_operations", version)
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("MetadataRequest", "unknown_tagged_fields", version)
        append = out.append
        if self.topics is None:
            if version >= 9:
                out.append(b"\0")
            elif version >= 1:
                out.append(b"\xff\xff\xff\xff")
            else:
                not_null(self.topics, "topics")
        else:
            if version >= 9:
                out.write_compact_array_length(len(self.topics))
            else:
                out.write_array_length(len(self.topics))
            for topics_element in self.topics:
                topics_element.write(out, version)
        if version >= 11:
            append(_write_bool_bool(self.allow_auto_topic_creation, self.include_topic_authorized_operations))
        elif version >= 8:
            append(_write_bool_bool_bool(self.allow_auto_topic_creation, self.include_cluster_authorized_operations, self.include_topic_authorized_operations))
        elif version >= 4:
            append(_write_bool(self.allow_auto_topic_creation))
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MetadataResponseBroker(Struct, gc=False):
    """Brokers of the cluster."""

    node_id: int = 0  # Number of the node.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    rack: str | None = None  # Rack of the node; null if it has none. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (node_id,) = _read_i4(buffer, position)
        position += 4
        if version >= 9:
            host, position = read_compact_string(buffer, position)
        else:
            host, position = read_string(buffer, position)
        (port,) = _read_i4(buffer, position)
        position += 4
        rack: str | None
        if version >= 1:
            if version >= 9:
                rack, position = read_compact_nullable_string(buffer, position)
            else:
                rack, position = read_nullable_string(buffer, position)
        else:
            rack = None
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(node_id, host, port, rack, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("MetadataResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.node_id))
        if version >= 9:
            out.write_compact_string(self.host)
        else:
            out.write_string(self.host)
        append(_write_i4(self.port))
        if version >= 1:
            if version >= 9:
                out.write_compact_nullable_string(self.rack)
            else:
                out.write_nullable_string(self.rack)
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MetadataResponsePartition(Struct, gc=False):
    """Partitions concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    partition_index: int = 0  # Number of the partition.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown. [7+]
    replica_nodes: list[int] = field(default_factory=list)  # Brokers that hold the partition, the preferred leader first.
    isr_nodes: list[int] = field(default_factory=list)  # Brokers that are in sync.
    offline_replicas: list[int] = field(default_factory=list)  # Replicas that cannot be reached. [5+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 7:
            error_code, partition_index, leader_id, leader_epoch = _read_i2_i4_i4_i4(buffer, position)
            position += 14
        else:
            error_code, partition_index, leader_id = _read_i2_i4_i4(buffer, position)
            position += 10
            leader_epoch = -1
        replica_nodes: list[int]
        if version >= 9:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        replica_nodes, position = read_int32s(buffer, position, count)
        isr_nodes: list[int]
        if version >= 9:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        isr_nodes, position = read_int32s(buffer, position, count)
        offline_replicas: list[int]
        if version >= 5:
            if version >= 9:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            offline_replicas, position = read_int32s(buffer, position, count)
        else:
            offline_replicas = []
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, offline_replicas, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("MetadataResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 7:
            append(_write_i2_i4_i4_i4(self.error_code, self.partition_index, self.leader_id, self.leader_epoch))
        else:
            append(_write_i2_i4_i4(self.error_code, self.partition_index, self.leader_id))
        if version >= 9:
            out.write_compact_array_length(len(self.replica_nodes))
        else:
            out.write_array_length(len(self.replica_nodes))
        out.write_int32s(self.replica_nodes)
        if version >= 9:
            out.write_compact_array_length(len(self.isr_nodes))
        else:
            out.write_array_length(len(self.isr_nodes))
        out.write_int32s(self.isr_nodes)
        if version >= 5:
            if version >= 9:
                out.write_compact_array_length(len(self.offline_replicas))
            else:
                out.write_array_length(len(self.offline_replicas))
            out.write_int32s(self.offline_replicas)
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MetadataResponseTopic(Struct, gc=False):
    """Topics concerned."""

    error_code: int = 0  # Result as a code, 0 on success.
    name: str | None = ""  # Name of the topic.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [10+]
    is_internal: bool = False  # True for a topic of Kafka's own. [1+]
    partitions: list[MetadataResponsePartition] = field(default_factory=list)  # Partitions concerned.
    topic_authorized_operations: int = -2147483648  # Bit set of what the caller may do to the topic; the lowest int32 if not asked for. [8+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (error_code,) = _read_i2(buffer, position)
        position += 2
        name: str | None
        if version >= 12:
            name, position = read_compact_nullable_string(buffer, position)
        elif version >= 9:
            name, position = read_compact_string(buffer, position)
        else:
            name, position = read_string(buffer, position)
        if version >= 10:
            topic_id_bytes, is_internal = _read_uuid_bool(buffer, position)
            position += 17
            topic_id = Uuid(topic_id_bytes)
        elif version >= 1:
            (is_internal,) = _read_bool(buffer, position)
            position += 1
            topic_id = Uuid.ZERO
        else:
            topic_id = Uuid.ZERO
            is_internal = False
        partitions: list[MetadataResponsePartition]
        if version >= 9:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = MetadataResponsePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        if version >= 8:
            (topic_authorized_operations,) = _read_i4(buffer, position)
            position += 4
        else:
            topic_authorized_operations = -2147483648
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(error_code, name, topic_id, is_internal, partitions, topic_authorized_operations, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("MetadataResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 12:
            out.write_compact_nullable_string(self.name)
        elif version >= 9:
            out.write_compact_string(not_null(self.name, "name"))
        else:
            out.write_string(not_null(self.name, "name"))
        if version >= 10:
            append(_write_uuid_bool(self.topic_id.raw, self.is_internal))
        elif version >= 1:
            append(_write_bool(self.is_internal))
        if version >= 9:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 8:
            append(_write_i4(self.topic_authorized_operations))
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class MetadataResponse(Struct, gc=False):
    """Answers a request to describe the cluster's brokers, topics and partitions."""

    API_KEY: ClassVar[int] = 3
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [3+]
    brokers: list[MetadataResponseBroker] = field(default_factory=list)  # Brokers of the cluster.
    cluster_id: str | None = None  # Id of the cluster. [2+]
    controller_id: int = -1  # Number of the active controller, -1 if unknown. [1+]
    topics: list[MetadataResponseTopic] = field(default_factory=list)  # Topics concerned.
    cluster_authorized_operations: int = -2147483648  # Bit set of what the caller may do to the cluster; the lowest int32 if not asked for. [8-10]
    error_code: int = 0  # Result as a code, 0 on success. [13+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                throttle_time_ms = 0
            brokers: list[MetadataResponseBroker]
            if version >= 9:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            brokers = []
            for _ in range(count):
                brokers_element, position = MetadataResponseBroker.read(buffer, position, version)
                brokers.append(brokers_element)
            cluster_id: str | None
            if version >= 2:
                if version >= 9:
                    cluster_id, position = read_compact_nullable_string(buffer, position)
                else:
                    cluster_id, position = read_nullable_string(buffer, position)
            else:
                cluster_id = None
            if version >= 1:
                (controller_id,) = _read_i4(buffer, position)
                position += 4
            else:
                controller_id = -1
            topics: list[MetadataResponseTopic]
            if version >= 9:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = MetadataResponseTopic.read(buffer, position, version)
                topics.append(topics_element)
            if version >= 13:
                (error_code,) = _read_i2(buffer, position)
                position += 2
                cluster_authorized_operations = -2147483648
            elif version >= 11:
                cluster_authorized_operations = -2147483648
                error_code = 0
            elif version >= 8:
                (cluster_authorized_operations,) = _read_i4(buffer, position)
                position += 4
                error_code = 0
            else:
                cluster_authorized_operations = -2147483648
                error_code = 0
            unknown_tagged_fields: TaggedFields = ()
            if version >= 9:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations, error_code, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("MetadataResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("MetadataResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            append(_write_i4(self.throttle_time_ms))
        if version >= 9:
            out.write_compact_array_length(len(self.brokers))
        else:
            out.write_array_length(len(self.brokers))
        for brokers_element in self.brokers:
            brokers_element.write(out, version)
        if version >= 2:
            if version >= 9:
                out.write_compact_nullable_string(self.cluster_id)
            else:
                out.write_nullable_string(self.cluster_id)
        if version >= 1:
            append(_write_i4(self.controller_id))
        if version >= 9:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 13:
            append(_write_i2(self.error_code))
        elif version >= 11:
            pass
        elif version >= 8:
            append(_write_i4(self.cluster_authorized_operations))
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")
