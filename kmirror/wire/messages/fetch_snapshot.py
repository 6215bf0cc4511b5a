"""FetchSnapshotRequest and FetchSnapshotResponse. Generated from FetchSnapshotRequest.json and FetchSnapshotResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    ProtocolReadError,
    Records,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_records,
    read_compact_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_i8_i4 = struct.Struct(">qi").unpack_from
_read_i8_i8 = struct.Struct(">qq").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i8 = struct.Struct(">q").pack
_write_i8_i4 = struct.Struct(">qi").pack
_write_i8_i8 = struct.Struct(">qq").pack
_write_u2 = struct.Struct(">H").pack
_write_uuid = struct.Struct(">16s").pack


class FetchSnapshotRequestSnapshotId(Struct, gc=False):
    """Snapshot that the follower must fetch instead of the log."""

    end_offset: int = 0  # Offset after the last one of the epoch or range.
    epoch: int = 0  # Epoch of the snapshot.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        end_offset, epoch = _read_i8_i4(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(end_offset, epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i4(self.end_offset, self.epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FetchSnapshotRequestPartitionSnapshot(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    current_leader_epoch: int = 0  # Leader epoch that the caller knows, to be fenced if it is old; -1 for none.
    snapshot_id: FetchSnapshotRequestSnapshotId = field(default_factory=FetchSnapshotRequestSnapshotId)  # Snapshot that the follower must fetch instead of the log.
    position: int = 0  # Byte of the snapshot from which on to read.
    replica_directory_id: Uuid = Uuid.ZERO  # Id of the directory that holds the replica. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition, current_leader_epoch = _read_i4_i4(buffer, position)
        position += 8
        snapshot_id: FetchSnapshotRequestSnapshotId
        snapshot_id, position = FetchSnapshotRequestSnapshotId.read(buffer, position, version)
        (position_,) = _read_i8(buffer, position)
        position += 8
        replica_directory_id: Uuid = Uuid.ZERO
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
                        raise ProtocolReadError(f"tag 0 is not valid for FetchSnapshotRequest version {version}")
                    (replica_directory_id_bytes,) = _read_uuid(buffer, position)
                    position += 16
                    replica_directory_id = Uuid(replica_directory_id_bytes)
                else:
                    value, position = read_unknown_tagged_field(buffer, position, size)
                    unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(partition, current_leader_epoch, snapshot_id, position_, replica_directory_id, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4(self.partition, self.current_leader_epoch))
        self.snapshot_id.write(out, version)
        append(_write_i8(self.position))
        tagged = list(self.unknown_tagged_fields)
        if version == 1 and (self.replica_directory_id):
            tagged.append((0, _write_uuid(self.replica_directory_id.raw)))
        out.write_tagged_fields(tagged)


class FetchSnapshotRequestTopicSnapshot(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[FetchSnapshotRequestPartitionSnapshot]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = FetchSnapshotRequestPartitionSnapshot.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FetchSnapshotRequest(Struct, gc=False):
    """Asks to read a snapshot of the metadata log."""

    API_KEY: ClassVar[int] = 59
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = None  # Id of the cluster.
    replica_id: int = -1  # Number of the replica, -1 for a consumer.
    max_bytes: int = 2147483647  # Most bytes to return; a first batch larger than this is returned all the same.
    topics: list[FetchSnapshotRequestTopicSnapshot] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            replica_id, max_bytes = _read_i4_i4(buffer, position)
            position += 8
            topics: list[FetchSnapshotRequestTopicSnapshot]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = FetchSnapshotRequestTopicSnapshot.read(buffer, position, version)
                topics.append(topics_element)
            cluster_id: str | None = None
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        cluster_id, position = read_compact_nullable_string(buffer, position)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(cluster_id, replica_id, max_bytes, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FetchSnapshotRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4(self.replica_id, self.max_bytes))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        tagged = list(self.unknown_tagged_fields)
        if self.cluster_id is not None:
            cluster_id_out = Writer()
            cluster_id_out.write_compact_nullable_string(self.cluster_id)
            tagged.append((0, cluster_id_out.to_bytes()))
        out.write_tagged_fields(tagged)


class FetchSnapshotResponseSnapshotId(Struct, gc=False):
    """Snapshot that the follower must fetch instead of the log."""

    end_offset: int = 0  # Offset after the last one of the epoch or range.
    epoch: int = 0  # Epoch of the snapshot.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        end_offset, epoch = _read_i8_i4(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(end_offset, epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i4(self.end_offset, self.epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class LeaderIdAndEpoch(Struct, gc=False):
    """Who leads the partition now, if the caller asked the wrong one."""

    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        leader_id, leader_epoch = _read_i4_i4(buffer, position)
        position += 8
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(leader_id, leader_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4(self.leader_id, self.leader_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FetchSnapshotResponsePartitionSnapshot(Struct, gc=False):
    """Partitions concerned."""

    index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    snapshot_id: FetchSnapshotResponseSnapshotId = field(default_factory=FetchSnapshotResponseSnapshotId)  # Snapshot that the follower must fetch instead of the log.
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  # Who leads the partition now, if the caller asked the wrong one.
    size: int = 0  # Size in bytes.
    position: int = 0  # Byte of the snapshot from which on to read.
    unaligned_records: Records = b""  # Bytes of the snapshot, not cut at batches.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        index, error_code = _read_i4_i2(buffer, position)
        position += 6
        snapshot_id: FetchSnapshotResponseSnapshotId
        snapshot_id, position = FetchSnapshotResponseSnapshotId.read(buffer, position, version)
        size_, position_ = _read_i8_i8(buffer, position)
        position += 16
        unaligned_records, position = read_compact_records(buffer, position)
        current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            tag_count, position = read_unsigned_varint(buffer, position)
            for _ in range(tag_count):
                tag, position = read_unsigned_varint(buffer, position)
                size, position = read_unsigned_varint(buffer, position)
                if tag == 0:
                    current_leader, position = LeaderIdAndEpoch.read(buffer, position, version)
                else:
                    value, position = read_unknown_tagged_field(buffer, position, size)
                    unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(index, error_code, snapshot_id, current_leader, size_, position_, unaligned_records, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.index, self.error_code))
        self.snapshot_id.write(out, version)
        append(_write_i8_i8(self.size, self.position))
        out.write_compact_records(self.unaligned_records)
        tagged = list(self.unknown_tagged_fields)
        if self.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
            current_leader_out = Writer()
            self.current_leader.write(current_leader_out, version)
            tagged.append((0, current_leader_out.to_bytes()))
        out.write_tagged_fields(tagged)


class FetchSnapshotResponseTopicSnapshot(Struct, gc=False):
    """Topics concerned."""

    name: str = ""  # Name of the topic.
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        partitions: list[FetchSnapshotResponsePartitionSnapshot]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = FetchSnapshotResponsePartitionSnapshot.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
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


class FetchSnapshotResponse(Struct, gc=False):
    """Answers a request to read a snapshot of the metadata log."""

    API_KEY: ClassVar[int] = 59
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    topics: list[FetchSnapshotResponseTopicSnapshot] = field(default_factory=list)  # Topics concerned.
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # Addresses of the leaders named in this answer. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            topics: list[FetchSnapshotResponseTopicSnapshot]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = FetchSnapshotResponseTopicSnapshot.read(buffer, position, version)
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
                            raise ProtocolReadError(f"tag 0 is not valid for FetchSnapshotResponse version {version}")
                        count, position = read_compact_array_length(buffer, position)
                        node_endpoints = []
                        for _ in range(count):
                            node_endpoints_element, position = NodeEndpoint.read(buffer, position, version)
                            node_endpoints.append(node_endpoints_element)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(throttle_time_ms, error_code, topics, node_endpoints, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FetchSnapshotResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        tagged = list(self.unknown_tagged_fields)
        if version == 1 and (self.node_endpoints):
            node_endpoints_out = Writer()
            node_endpoints_out.write_compact_array_length(len(self.node_endpoints))
            for node_endpoints_element in self.node_endpoints:
                node_endpoints_element.write(node_endpoints_out, version)
            tagged.append((0, node_endpoints_out.to_bytes()))
        out.write_tagged_fields(tagged)


_DEFAULT_LEADER_ID_AND_EPOCH = LeaderIdAndEpoch()
