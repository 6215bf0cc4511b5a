"""EndQuorumEpochRequest and EndQuorumEpochResponse. Generated from EndQuorumEpochRequest.json and EndQuorumEpochResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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

_read_i2 = struct.Struct(">h").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i4_i4 = struct.Struct(">ihii").unpack_from
_read_i4_i4_i4 = struct.Struct(">iii").unpack_from
_read_i4_uuid = struct.Struct(">i16s").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i4_i4 = struct.Struct(">ihii").pack
_write_i4_i4_i4 = struct.Struct(">iii").pack
_write_i4_uuid = struct.Struct(">i16s").pack
_write_u2 = struct.Struct(">H").pack


class ReplicaInfo(Struct, gc=False):
    """Voters that should try first to become leader."""

    candidate_id: int = 0  # Replica that wants to become leader.
    candidate_directory_id: Uuid = Uuid.ZERO  # Directory of the replica that wants to become leader.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        candidate_id, candidate_directory_id_bytes = _read_i4_uuid(buffer, position)
        position += 20
        candidate_directory_id = Uuid(candidate_directory_id_bytes)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(candidate_id, candidate_directory_id, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_uuid(self.candidate_id, self.candidate_directory_id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class EndQuorumEpochRequestPartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    preferred_successors: list[int] = field(default_factory=list)  # Voters that should become leader next, best first. [0]
    preferred_candidates: list[ReplicaInfo] = field(default_factory=list)  # Voters that should try first to become leader. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, leader_id, leader_epoch = _read_i4_i4_i4(buffer, position)
        position += 12
        preferred_successors: list[int]
        if version == 0:
            count, position = read_array_length(buffer, position)
            preferred_successors, position = read_int32s(buffer, position, count)
        else:
            preferred_successors = []
        preferred_candidates: list[ReplicaInfo]
        if version == 1:
            count, position = read_compact_array_length(buffer, position)
            preferred_candidates = []
            for _ in range(count):
                preferred_candidates_element, position = ReplicaInfo.read(buffer, position, version)
                preferred_candidates.append(preferred_candidates_element)
        else:
            preferred_candidates = []
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, leader_id, leader_epoch, preferred_successors, preferred_candidates, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("EndQuorumEpochRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i4_i4(self.partition_index, self.leader_id, self.leader_epoch))
        if version == 0:
            out.write_array_length(len(self.preferred_successors))
            out.write_int32s(self.preferred_successors)
        if version == 1:
            out.write_compact_array_length(len(self.preferred_candidates))
            for preferred_candidates_element in self.preferred_candidates:
                preferred_candidates_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EndQuorumEpochRequestTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[EndQuorumEpochRequestPartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            topic_name, position = read_compact_string(buffer, position)
        else:
            topic_name, position = read_string(buffer, position)
        partitions: list[EndQuorumEpochRequestPartitionData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = EndQuorumEpochRequestPartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("EndQuorumEpochRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.topic_name)
        else:
            out.write_string(self.topic_name)
        if version == 1:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class LeaderEndpoint(Struct, gc=False):
    """Where the leader can be reached."""

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


class EndQuorumEpochRequest(Struct, gc=False):
    """Asks to resign as quorum leader."""

    API_KEY: ClassVar[int] = 54
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    cluster_id: str | None = None  # Id of the cluster.
    topics: list[EndQuorumEpochRequestTopicData] = field(default_factory=list)  # Topics concerned.
    leader_endpoints: list[LeaderEndpoint] = field(default_factory=list)  # Where the leader can be reached. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            cluster_id: str | None
            if version >= 1:
                cluster_id, position = read_compact_nullable_string(buffer, position)
            else:
                cluster_id, position = read_nullable_string(buffer, position)
            topics: list[EndQuorumEpochRequestTopicData]
            if version >= 1:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = EndQuorumEpochRequestTopicData.read(buffer, position, version)
                topics.append(topics_element)
            leader_endpoints: list[LeaderEndpoint]
            if version == 1:
                count, position = read_compact_array_length(buffer, position)
                leader_endpoints = []
                for _ in range(count):
                    leader_endpoints_element, position = LeaderEndpoint.read(buffer, position, version)
                    leader_endpoints.append(leader_endpoints_element)
            else:
                leader_endpoints = []
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(cluster_id, topics, leader_endpoints, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("EndQuorumEpochRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("EndQuorumEpochRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_nullable_string(self.cluster_id)
        else:
            out.write_nullable_string(self.cluster_id)
        if version == 1:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version == 1:
            out.write_compact_array_length(len(self.leader_endpoints))
            for leader_endpoints_element in self.leader_endpoints:
                leader_endpoints_element.write(out, version)
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EndQuorumEpochResponsePartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code, leader_id, leader_epoch = _read_i4_i2_i4_i4(buffer, position)
        position += 14
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, leader_id, leader_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("EndQuorumEpochResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4_i2_i4_i4(self.partition_index, self.error_code, self.leader_id, self.leader_epoch))
        if version == 1:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class EndQuorumEpochResponseTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_name: str = ""  # Name of the topic.
    partitions: list[EndQuorumEpochResponsePartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            topic_name, position = read_compact_string(buffer, position)
        else:
            topic_name, position = read_string(buffer, position)
        partitions: list[EndQuorumEpochResponsePartitionData]
        if version >= 1:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = EndQuorumEpochResponsePartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version == 1:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("EndQuorumEpochResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 1:
            out.write_compact_string(self.topic_name)
        else:
            out.write_string(self.topic_name)
        if version == 1:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version == 1:
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


class EndQuorumEpochResponse(Struct, gc=False):
    """Answers a request to resign as quorum leader."""

    API_KEY: ClassVar[int] = 54
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    error_code: int = 0  # Result as a code, 0 on success.
    topics: list[EndQuorumEpochResponseTopicData] = field(default_factory=list)  # Topics concerned.
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # Addresses of the leaders named in this answer. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            topics: list[EndQuorumEpochResponseTopicData]
            if version >= 1:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = EndQuorumEpochResponseTopicData.read(buffer, position, version)
                topics.append(topics_element)
            node_endpoints: list[NodeEndpoint] = []
            unknown_tagged_fields: TaggedFields = ()
            if version == 1:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
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
            raise malformed("EndQuorumEpochResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 1:
            raise unsupported_field("EndQuorumEpochResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version == 1:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version == 1:
            tagged = list(self.unknown_tagged_fields)
            if self.node_endpoints:
                node_endpoints_out = Writer()
                node_endpoints_out.write_compact_array_length(len(self.node_endpoints))
                for node_endpoints_element in self.node_endpoints:
                    node_endpoints_element.write(node_endpoints_out, version)
                tagged.append((0, node_endpoints_out.to_bytes()))
            out.write_tagged_fields(tagged)
