"""DescribeQuorumRequest and DescribeQuorumResponse. Generated from DescribeQuorumRequest.json and DescribeQuorumResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4_i8 = struct.Struct(">iiq").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_i4_i8_i8_i8 = struct.Struct(">iqqq").unpack_from
_read_i4_uuid_i8_i8_i8 = struct.Struct(">i16sqqq").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4_i8 = struct.Struct(">iiq").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_i4_i8_i8_i8 = struct.Struct(">iqqq").pack
_write_i4_uuid_i8_i8_i8 = struct.Struct(">i16sqqq").pack
_write_u2 = struct.Struct(">H").pack


class DescribeQuorumRequestPartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition_index))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeQuorumRequestTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[DescribeQuorumRequestPartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[DescribeQuorumRequestPartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DescribeQuorumRequestPartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeQuorumRequest(Struct, gc=False):
    """Asks to describe the metadata quorum."""

    API_KEY: ClassVar[int] = 55
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[DescribeQuorumRequestTopicData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[DescribeQuorumRequestTopicData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DescribeQuorumRequestTopicData.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeQuorumRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ReplicaState(Struct, gc=False):
    """Nodes that follow the quorum without a vote."""

    replica_id: int = 0  # Number of the replica, -1 for a consumer.
    replica_directory_id: Uuid = Uuid.ZERO  # Id of the directory that holds the replica. [2+]
    log_end_offset: int = 0  # Offset that the next record gets, -1 if unknown.
    last_fetch_timestamp: int = -1  # When the replica last fetched, in ms; -1 if unknown. [1+]
    last_caught_up_timestamp: int = -1  # When the replica was last level with the leader, in ms; -1 if unknown. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            replica_id, replica_directory_id_bytes, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp = _read_i4_uuid_i8_i8_i8(buffer, position)
            position += 44
            replica_directory_id = Uuid(replica_directory_id_bytes)
        elif version >= 1:
            replica_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp = _read_i4_i8_i8_i8(buffer, position)
            position += 28
            replica_directory_id = Uuid.ZERO
        else:
            replica_id, log_end_offset = _read_i4_i8(buffer, position)
            position += 12
            replica_directory_id = Uuid.ZERO
            last_fetch_timestamp = -1
            last_caught_up_timestamp = -1
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(replica_id, replica_directory_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if version >= 2:
            append(_write_i4_uuid_i8_i8_i8(self.replica_id, self.replica_directory_id.raw, self.log_end_offset, self.last_fetch_timestamp, self.last_caught_up_timestamp))
        elif version >= 1:
            append(_write_i4_i8_i8_i8(self.replica_id, self.log_end_offset, self.last_fetch_timestamp, self.last_caught_up_timestamp))
        else:
            append(_write_i4_i8(self.replica_id, self.log_end_offset))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeQuorumResponsePartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success. [2+]
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    high_watermark: int = 0  # Offset below which records are replicated and readable.
    current_voters: list[ReplicaState] = field(default_factory=list)  # Voters of the quorum.
    observers: list[ReplicaState] = field(default_factory=list)  # Nodes that follow the quorum without a vote.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        if version == 2:
            error_message, position = read_compact_nullable_string(buffer, position)
        else:
            error_message = ""
        leader_id, leader_epoch, high_watermark = _read_i4_i4_i8(buffer, position)
        position += 16
        current_voters: list[ReplicaState]
        count, position = read_compact_array_length(buffer, position)
        current_voters = []
        for _ in range(count):
            current_voters_element, position = ReplicaState.read(buffer, position, version)
            current_voters.append(current_voters_element)
        observers: list[ReplicaState]
        count, position = read_compact_array_length(buffer, position)
        observers = []
        for _ in range(count):
            observers_element, position = ReplicaState.read(buffer, position, version)
            observers.append(observers_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, error_message, leader_id, leader_epoch, high_watermark, current_voters, observers, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        if version == 2:
            out.write_compact_nullable_string(self.error_message)
        append(_write_i4_i4_i8(self.leader_id, self.leader_epoch, self.high_watermark))
        out.write_compact_array_length(len(self.current_voters))
        for current_voters_element in self.current_voters:
            current_voters_element.write(out, version)
        out.write_compact_array_length(len(self.observers))
        for observers_element in self.observers:
            observers_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeQuorumResponseTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[DescribeQuorumResponsePartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[DescribeQuorumResponsePartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = DescribeQuorumResponsePartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Listener(Struct, gc=False):
    """Listeners of the node."""

    name: str = ""  # Name of the listener.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        host, position = read_compact_string(buffer, position)
        (port,) = _read_u2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, host, port, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_string(self.host)
        append(_write_u2(self.port))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Node(Struct, gc=False):
    """Nodes of the quorum."""

    node_id: int = 0  # Number of the node.
    listeners: list[Listener] = field(default_factory=list)  # Listeners of the node.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (node_id,) = _read_i4(buffer, position)
        position += 4
        listeners: list[Listener]
        count, position = read_compact_array_length(buffer, position)
        listeners = []
        for _ in range(count):
            listeners_element, position = Listener.read(buffer, position, version)
            listeners.append(listeners_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(node_id, listeners, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.node_id))
        out.write_compact_array_length(len(self.listeners))
        for listeners_element in self.listeners:
            listeners_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeQuorumResponse(Struct, gc=False):
    """Answers a request to describe the metadata quorum."""

    API_KEY: ClassVar[int] = 55
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success. [2+]
    topics: list[DescribeQuorumResponseTopicData] = field(default_factory=list)  # Topics concerned.
    nodes: list[Node] = field(default_factory=list)  # Nodes of the quorum. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            error_message: str | None
            if version == 2:
                error_message, position = read_compact_nullable_string(buffer, position)
            else:
                error_message = ""
            topics: list[DescribeQuorumResponseTopicData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = DescribeQuorumResponseTopicData.read(buffer, position, version)
                topics.append(topics_element)
            nodes: list[Node]
            if version == 2:
                count, position = read_compact_array_length(buffer, position)
                nodes = []
                for _ in range(count):
                    nodes_element, position = Node.read(buffer, position, version)
                    nodes.append(nodes_element)
            else:
                nodes = []
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(error_code, error_message, topics, nodes, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeQuorumResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        if version == 2:
            out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version == 2:
            out.write_compact_array_length(len(self.nodes))
            for nodes_element in self.nodes:
                nodes_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
