"""ShareAcknowledgeRequest and ShareAcknowledgeResponse. Generated from ShareAcknowledgeRequest.json and ShareAcknowledgeResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_int8s,
    read_tagged_fields,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_bool = struct.Struct(">i?").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i8_i8 = struct.Struct(">qq").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_bool = struct.Struct(">i?").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i8_i8 = struct.Struct(">qq").pack
_write_uuid = struct.Struct(">16s").pack


class AcknowledgementBatch(Struct, gc=False):
    """Ranges of offsets that the consumer has dealt with."""

    first_offset: int = 0  # First offset of the transaction or range.
    last_offset: int = 0  # Last offset of the range.
    acknowledge_types: list[int] = field(default_factory=list)  # One entry for the whole range or one an offset: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        first_offset, last_offset = _read_i8_i8(buffer, position)
        position += 16
        acknowledge_types: list[int]
        count, position = read_compact_array_length(buffer, position)
        acknowledge_types, position = read_int8s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(first_offset, last_offset, acknowledge_types, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i8(self.first_offset, self.last_offset))
        out.write_compact_array_length(len(self.acknowledge_types))
        out.write_int8s(self.acknowledge_types)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AcknowledgePartition(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)  # Ranges of offsets that the consumer has dealt with.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (partition_index,) = _read_i4(buffer, position)
        position += 4
        acknowledgement_batches: list[AcknowledgementBatch]
        count, position = read_compact_array_length(buffer, position)
        acknowledgement_batches = []
        for _ in range(count):
            acknowledgement_batches_element, position = AcknowledgementBatch.read(buffer, position, version)
            acknowledgement_batches.append(acknowledgement_batches_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, acknowledgement_batches, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.partition_index))
        out.write_compact_array_length(len(self.acknowledgement_batches))
        for acknowledgement_batches_element in self.acknowledgement_batches:
            acknowledgement_batches_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AcknowledgeTopic(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[AcknowledgePartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[AcknowledgePartition]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = AcknowledgePartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        out.write_compact_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ShareAcknowledgeRequest(Struct, gc=False):
    """Asks to acknowledge records of a share group."""

    API_KEY: ClassVar[int] = 79
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    group_id: str | None = None  # Name of the group.
    member_id: str | None = ""  # Id of the member; empty when it has none yet.
    share_session_epoch: int = 0  # Place of this request in its session: 0 opens one, -1 ends it.
    is_renew_ack: bool = False  # True if the acknowledgements include renewals of the lock. [2+]
    topics: list[AcknowledgeTopic] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id: str | None
            group_id, position = read_compact_nullable_string(buffer, position)
            member_id: str | None
            member_id, position = read_compact_nullable_string(buffer, position)
            if version >= 2:
                share_session_epoch, is_renew_ack = _read_i4_bool(buffer, position)
                position += 5
            else:
                (share_session_epoch,) = _read_i4(buffer, position)
                position += 4
                is_renew_ack = False
            topics: list[AcknowledgeTopic]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = AcknowledgeTopic.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(group_id, member_id, share_session_epoch, is_renew_ack, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareAcknowledgeRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 2:
            if self.is_renew_ack:
                raise unsupported_field("ShareAcknowledgeRequest", "is_renew_ack", version)
        append = out.append
        out.write_compact_nullable_string(self.group_id)
        out.write_compact_nullable_string(self.member_id)
        if version >= 2:
            append(_write_i4_bool(self.share_session_epoch, self.is_renew_ack))
        else:
            append(_write_i4(self.share_session_epoch))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
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


class PartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  # Who leads the partition now, if the caller asked the wrong one.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code = _read_i4_i2(buffer, position)
        position += 6
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        current_leader: LeaderIdAndEpoch
        current_leader, position = LeaderIdAndEpoch.read(buffer, position, version)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, error_message, current_leader, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.partition_index, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        self.current_leader.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ShareAcknowledgeTopicResponse(Struct, gc=False):
    """One result for each thing asked."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[PartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[PartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
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
    rack: str | None = None  # Rack of the node; null if it has none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (node_id,) = _read_i4(buffer, position)
        position += 4
        host, position = read_compact_string(buffer, position)
        (port,) = _read_i4(buffer, position)
        position += 4
        rack: str | None
        rack, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(node_id, host, port, rack, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.node_id))
        out.write_compact_string(self.host)
        append(_write_i4(self.port))
        out.write_compact_nullable_string(self.rack)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ShareAcknowledgeResponse(Struct, gc=False):
    """Answers a request to acknowledge records of a share group."""

    API_KEY: ClassVar[int] = 79
    LOWEST_VERSION: ClassVar[int] = 1
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 1

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    acquisition_lock_timeout_ms: int = 0  # How long acquired records stay with the consumer. [2+]
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)  # One result for each thing asked.
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # Addresses of the leaders named in this answer.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            if version >= 2:
                (acquisition_lock_timeout_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                acquisition_lock_timeout_ms = 0
            responses: list[ShareAcknowledgeTopicResponse]
            count, position = read_compact_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = ShareAcknowledgeTopicResponse.read(buffer, position, version)
                responses.append(responses_element)
            node_endpoints: list[NodeEndpoint]
            count, position = read_compact_array_length(buffer, position)
            node_endpoints = []
            for _ in range(count):
                node_endpoints_element, position = NodeEndpoint.read(buffer, position, version)
                node_endpoints.append(node_endpoints_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, acquisition_lock_timeout_ms, responses, node_endpoints, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareAcknowledgeResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if version >= 2:
            append(_write_i4(self.acquisition_lock_timeout_ms))
        out.write_compact_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        out.write_compact_array_length(len(self.node_endpoints))
        for node_endpoints_element in self.node_endpoints:
            node_endpoints_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
