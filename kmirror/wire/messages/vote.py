"""VoteRequest and VoteResponse. Generated from VoteRequest.json and VoteResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    ProtocolReadError,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i4_i4_bool = struct.Struct(">ihii?").unpack_from
_read_i4_i4_i4_i4_i8 = struct.Struct(">iiiiq").unpack_from
_read_i4_i4_i4_uuid_uuid_i4_i8 = struct.Struct(">iii16s16siq").unpack_from
_read_i4_i4_i4_uuid_uuid_i4_i8_bool = struct.Struct(">iii16s16siq?").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i4_i4_bool = struct.Struct(">ihii?").pack
_write_i4_i4_i4_i4_i8 = struct.Struct(">iiiiq").pack
_write_i4_i4_i4_uuid_uuid_i4_i8 = struct.Struct(">iii16s16siq").pack
_write_i4_i4_i4_uuid_uuid_i4_i8_bool = struct.Struct(">iii16s16siq?").pack
_write_u2 = struct.Struct(">H").pack


class VoteRequestPartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    replica_epoch: int = 0  # Epoch of the fetching broker, -1 if unknown.
    replica_id: int = 0  # Number of the replica, -1 for a consumer.
    replica_directory_id: Uuid = Uuid.ZERO  # Id of the directory that holds the replica. [1+]
    voter_directory_id: Uuid = Uuid.ZERO  # Directory of the voter. [1+]
    last_offset_epoch: int = 0  # Epoch of the last record in the candidate's log.
    last_offset: int = 0  # Last offset of the range.
    pre_vote: bool = False  # True if this only asks whether a vote would succeed. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 2:
            partition_index, replica_epoch, replica_id, replica_directory_id_bytes, voter_directory_id_bytes, last_offset_epoch, last_offset, pre_vote = _read_i4_i4_i4_uuid_uuid_i4_i8_bool(buffer, position)
            position += 57
            replica_directory_id = Uuid(replica_directory_id_bytes)
            voter_directory_id = Uuid(voter_directory_id_bytes)
        elif version >= 1:
            partition_index, replica_epoch, replica_id, replica_directory_id_bytes, voter_directory_id_bytes, last_offset_epoch, last_offset = _read_i4_i4_i4_uuid_uuid_i4_i8(buffer, position)
            position += 56
            replica_directory_id = Uuid(replica_directory_id_bytes)
            voter_directory_id = Uuid(voter_directory_id_bytes)
            pre_vote = False
        else:
            partition_index, replica_epoch, replica_id, last_offset_epoch, last_offset = _read_i4_i4_i4_i4_i8(buffer, position)
            position += 24
            replica_directory_id = Uuid.ZERO
            voter_directory_id = Uuid.ZERO
            pre_vote = False
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, replica_epoch, replica_id, replica_directory_id, voter_directory_id, last_offset_epoch, last_offset, pre_vote, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if version < 2:
            if self.pre_vote:
                raise unsupported_field("VoteRequest", "pre_vote", version)
        append = out.append
        if version >= 2:
            append(_write_i4_i4_i4_uuid_uuid_i4_i8_bool(self.partition_index, self.replica_epoch, self.replica_id, self.replica_directory_id.raw, self.voter_directory_id.raw, self.last_offset_epoch, self.last_offset, self.pre_vote))
        elif version >= 1:
            append(_write_i4_i4_i4_uuid_uuid_i4_i8(self.partition_index, self.replica_epoch, self.replica_id, self.replica_directory_id.raw, self.voter_directory_id.raw, self.last_offset_epoch, self.last_offset))
        else:
            append(_write_i4_i4_i4_i4_i8(self.partition_index, self.replica_epoch, self.replica_id, self.last_offset_epoch, self.last_offset))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class VoteRequestTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[VoteRequestPartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[VoteRequestPartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = VoteRequestPartitionData.read(buffer, position, version)
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


class VoteRequest(Struct, gc=False):
    """Asks to ask for votes in the metadata quorum."""

    API_KEY: ClassVar[int] = 52
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = None  # Id of the cluster.
    voter_id: int = -1  # Number of the voter. [1+]
    topics: list[VoteRequestTopicData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            cluster_id: str | None
            cluster_id, position = read_compact_nullable_string(buffer, position)
            if version >= 1:
                (voter_id,) = _read_i4(buffer, position)
                position += 4
            else:
                voter_id = -1
            topics: list[VoteRequestTopicData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = VoteRequestTopicData.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(cluster_id, voter_id, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("VoteRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.cluster_id)
        if version >= 1:
            append(_write_i4(self.voter_id))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class VoteResponsePartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    vote_granted: bool = False  # True if the vote went to the candidate.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code, leader_id, leader_epoch, vote_granted = _read_i4_i2_i4_i4_bool(buffer, position)
        position += 15
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, leader_id, leader_epoch, vote_granted, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2_i4_i4_bool(self.partition_index, self.error_code, self.leader_id, self.leader_epoch, self.vote_granted))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class VoteResponseTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[VoteResponsePartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic_name, position = read_compact_string(buffer, position)
        partitions: list[VoteResponsePartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = VoteResponsePartitionData.read(buffer, position, version)
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


class NodeEndpoint(Struct, gc=False):
    """Addresses of the leaders named in this answer."""

    node_id: int = 0  # Number of the node.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (node_id,) = _read_i4(buffer, position)
        position += 4
        host, position = read_compact_string(buffer, position)
        (port,) = _read_u2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(node_id, host, port, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.node_id))
        out.write_compact_string(self.host)
        append(_write_u2(self.port))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class VoteResponse(Struct, gc=False):
    """Answers a request to ask for votes in the metadata quorum."""

    API_KEY: ClassVar[int] = 52
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    error_code: int = 0  # Result as a code, 0 on success.
    topics: list[VoteResponseTopicData] = field(default_factory=list)  # Topics concerned.
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # Addresses of the leaders named in this answer. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            topics: list[VoteResponseTopicData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = VoteResponseTopicData.read(buffer, position, version)
                topics.append(topics_element)
            node_endpoints: list[NodeEndpoint] = []
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        if version < 1:
                            raise ProtocolReadError(f"tag 0 is not valid for VoteResponse version {version}")
                        count, position = read_compact_array_length(buffer, position)
                        node_endpoints = []
                        for _ in range(count):
                            node_endpoints_element, position = NodeEndpoint.read(buffer, position, version)
                            node_endpoints.append(node_endpoints_element)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(error_code, topics, node_endpoints, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("VoteResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        tagged = list(self.unknown_tagged_fields)
        if version >= 1 and (self.node_endpoints):
            node_endpoints_out = Writer()
            node_endpoints_out.write_compact_array_length(len(self.node_endpoints))
            for node_endpoints_element in self.node_endpoints:
                node_endpoints_element.write(node_endpoints_out, version)
            tagged.append((0, node_endpoints_out.to_bytes()))
        out.write_tagged_fields(tagged)
