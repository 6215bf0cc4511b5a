"""ProduceRequest and ProduceResponse. Generated from ProduceRequest.json and ProduceResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_records,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_records,
    read_nullable_string,
    read_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_i2_i4 = struct.Struct(">hi").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i8_i8 = struct.Struct(">ihqq").unpack_from
_read_i4_i2_i8_i8_i8 = struct.Struct(">ihqqq").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i2_i4 = struct.Struct(">hi").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i8_i8 = struct.Struct(">ihqq").pack
_write_i4_i2_i8_i8_i8 = struct.Struct(">ihqqq").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_uuid = struct.Struct(">16s").pack


class PartitionProduceData(Struct, gc=False):
    """Partition with its data."""

    index: int = 0  # Number of the partition.
    records: Records | None = b""  # Record batches.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (index,) = _read_i4(buffer, position)
        position += 4
        records: Records | None
        if version >= 9:
            records, position = read_compact_nullable_records(buffer, position)
        else:
            records, position = read_nullable_records(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(index, records, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceRequest", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.index))
        if version >= 9:
            out.write_compact_nullable_records(self.records)
        else:
            out.write_nullable_records(self.records)
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class TopicProduceData(Struct, gc=False):
    """Topics with their record data."""

    name: str = ""  # Name of the topic. [3-12]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [13+]
    partition_data: list[PartitionProduceData] = field(default_factory=list)  # Partition with its data.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str
        if version <= 12:
            if version >= 9:
                name, position = read_compact_string(buffer, position)
            else:
                name, position = read_string(buffer, position)
        else:
            name = ""
        if version >= 13:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partition_data: list[PartitionProduceData]
        if version >= 9:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partition_data = []
        for _ in range(count):
            partition_data_element, position = PartitionProduceData.read(buffer, position, version)
            partition_data.append(partition_data_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, partition_data, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceRequest", "unknown_tagged_fields", version)
        append = out.append
        if version <= 12:
            if version >= 9:
                out.write_compact_string(self.name)
            else:
                out.write_string(self.name)
        if version >= 13:
            append(_write_uuid(self.topic_id.raw))
        if version >= 9:
            out.write_compact_array_length(len(self.partition_data))
        else:
            out.write_array_length(len(self.partition_data))
        for partition_data_element in self.partition_data:
            partition_data_element.write(out, version)
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ProduceRequest(Struct, gc=False):
    """Asks to append record batches to partitions."""

    API_KEY: ClassVar[int] = 0
    LOWEST_VERSION: ClassVar[int] = 3
    HIGHEST_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    transactional_id: str | None = None  # Transactional id of the producer; null if it has none.
    acks: int = 0  # Replicas that must have the records before the answer: 0 none, 1 the leader, -1 all in sync.
    timeout_ms: int = 0  # How long to wait for the work to be done.
    topic_data: list[TopicProduceData] = field(default_factory=list)  # Topics with their record data.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            transactional_id: str | None
            if version >= 9:
                transactional_id, position = read_compact_nullable_string(buffer, position)
            else:
                transactional_id, position = read_nullable_string(buffer, position)
            acks, timeout_ms = _read_i2_i4(buffer, position)
            position += 6
            topic_data: list[TopicProduceData]
            if version >= 9:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topic_data = []
            for _ in range(count):
                topic_data_element, position = TopicProduceData.read(buffer, position, version)
                topic_data.append(topic_data_element)
            unknown_tagged_fields: TaggedFields = ()
            if version >= 9:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(transactional_id, acks, timeout_ms, topic_data, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ProduceRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 9:
            out.write_compact_nullable_string(self.transactional_id)
        else:
            out.write_nullable_string(self.transactional_id)
        append(_write_i2_i4(self.acks, self.timeout_ms))
        if version >= 9:
            out.write_compact_array_length(len(self.topic_data))
        else:
            out.write_array_length(len(self.topic_data))
        for topic_data_element in self.topic_data:
            topic_data_element.write(out, version)
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class BatchIndexAndErrorMessage(Struct, gc=False):
    """Records that made the batch be refused."""

    batch_index: int = 0  # Position of the bad record in its batch.
    batch_index_error_message: str | None = None  # Why this record was refused, null if unknown.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (batch_index,) = _read_i4(buffer, position)
        position += 4
        batch_index_error_message: str | None
        if version >= 9:
            batch_index_error_message, position = read_compact_nullable_string(buffer, position)
        else:
            batch_index_error_message, position = read_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(batch_index, batch_index_error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i4(self.batch_index))
        if version >= 9:
            out.write_compact_nullable_string(self.batch_index_error_message)
        else:
            out.write_nullable_string(self.batch_index_error_message)
        if version >= 9:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class LeaderIdAndEpoch(Struct, gc=False):
    """Who leads the partition now, if the caller asked the wrong one."""

    leader_id: int = -1  # Number of the leader, -1 if unknown.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown.
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


class PartitionProduceResponse(Struct, gc=False):
    """Results of the partitions."""

    index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    base_offset: int = 0  # Offset of the first record.
    log_append_time_ms: int = -1  # When the broker appended the batch, -1 if the records keep their own times.
    log_start_offset: int = -1  # First offset that is still there. [5+]
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)  # Records that made the batch be refused. [8+]
    error_message: str | None = None  # Result in words, null on success. [8+]
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  # Who leads the partition now, if the caller asked the wrong one. [10+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            index, error_code, base_offset, log_append_time_ms, log_start_offset = _read_i4_i2_i8_i8_i8(buffer, position)
            position += 30
        else:
            index, error_code, base_offset, log_append_time_ms = _read_i4_i2_i8_i8(buffer, position)
            position += 22
            log_start_offset = -1
        record_errors: list[BatchIndexAndErrorMessage]
        if version >= 8:
            if version >= 9:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            record_errors = []
            for _ in range(count):
                record_errors_element, position = BatchIndexAndErrorMessage.read(buffer, position, version)
                record_errors.append(record_errors_element)
        else:
            record_errors = []
        error_message: str | None
        if version >= 8:
            if version >= 9:
                error_message, position = read_compact_nullable_string(buffer, position)
            else:
                error_message, position = read_nullable_string(buffer, position)
        else:
            error_message = None
        current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        if version < 10:
                            raise ProtocolReadError(f"tag 0 is not valid for ProduceResponse version {version}")
                        current_leader, position = LeaderIdAndEpoch.read(buffer, position, version)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message, current_leader, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            append(_write_i4_i2_i8_i8_i8(self.index, self.error_code, self.base_offset, self.log_append_time_ms, self.log_start_offset))
        else:
            append(_write_i4_i2_i8_i8(self.index, self.error_code, self.base_offset, self.log_append_time_ms))
        if version >= 8:
            if version >= 9:
                out.write_compact_array_length(len(self.record_errors))
            else:
                out.write_array_length(len(self.record_errors))
            for record_errors_element in self.record_errors:
                record_errors_element.write(out, version)
        if version >= 8:
            if version >= 9:
                out.write_compact_nullable_string(self.error_message)
            else:
                out.write_nullable_string(self.error_message)
        if version >= 9:
            tagged = list(self.unknown_tagged_fields)
            if version >= 10 and (self.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH):
                current_leader_out = Writer()
                self.current_leader.write(current_leader_out, version)
                tagged.append((0, current_leader_out.to_bytes()))
            out.write_tagged_fields(tagged)


class TopicProduceResponse(Struct, gc=False):
    """Topics with the result of each append."""

    name: str = ""  # Name of the topic. [3-12]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [13+]
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)  # Results of the partitions.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name: str
        if version <= 12:
            if version >= 9:
                name, position = read_compact_string(buffer, position)
            else:
                name, position = read_string(buffer, position)
        else:
            name = ""
        if version >= 13:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partition_responses: list[PartitionProduceResponse]
        if version >= 9:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partition_responses = []
        for _ in range(count):
            partition_responses_element, position = PartitionProduceResponse.read(buffer, position, version)
            partition_responses.append(partition_responses_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 9:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, topic_id, partition_responses, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceResponse", "unknown_tagged_fields", version)
        append = out.append
        if version <= 12:
            if version >= 9:
                out.write_compact_string(self.name)
            else:
                out.write_string(self.name)
        if version >= 13:
            append(_write_uuid(self.topic_id.raw))
        if version >= 9:
            out.write_compact_array_length(len(self.partition_responses))
        else:
            out.write_array_length(len(self.partition_responses))
        for partition_responses_element in self.partition_responses:
            partition_responses_element.write(out, version)
        if version >= 9:
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


class ProduceResponse(Struct, gc=False):
    """Answers a request to append record batches to partitions."""

    API_KEY: ClassVar[int] = 0
    LOWEST_VERSION: ClassVar[int] = 3
    HIGHEST_VERSION: ClassVar[int] = 13
    FLEXIBLE_FROM: ClassVar[int | None] = 9

    responses: list[TopicProduceResponse] = field(default_factory=list)  # Topics with the result of each append.
    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # Addresses of the leaders named in this answer. [10+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            responses: list[TopicProduceResponse]
            if version >= 9:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = TopicProduceResponse.read(buffer, position, version)
                responses.append(responses_element)
            (throttle_time_ms,) = _read_i4(buffer, position)
            position += 4
            node_endpoints: list[NodeEndpoint] = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 9:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
                            if version < 10:
                                raise ProtocolReadError(f"tag 0 is not valid for ProduceResponse version {version}")
                            count, position = read_compact_array_length(buffer, position)
                            node_endpoints = []
                            for _ in range(count):
                                node_endpoints_element, position = NodeEndpoint.read(buffer, position, version)
                                node_endpoints.append(node_endpoints_element)
                        else:
                            value, position = read_unknown_tagged_field(buffer, position, size)
                            unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(responses, throttle_time_ms, node_endpoints, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ProduceResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 9:
            raise unsupported_field("ProduceResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 9:
            out.write_compact_array_length(len(self.responses))
        else:
            out.write_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        append(_write_i4(self.throttle_time_ms))
        if version >= 9:
            tagged = list(self.unknown_tagged_fields)
            if version >= 10 and (self.node_endpoints):
                node_endpoints_out = Writer()
                node_endpoints_out.write_compact_array_length(len(self.node_endpoints))
                for node_endpoints_element in self.node_endpoints:
                    node_endpoints_element.write(node_endpoints_out, version)
                tagged.append((0, node_endpoints_out.to_bytes()))
            out.write_tagged_fields(tagged)


_DEFAULT_LEADER_ID_AND_EPOCH = LeaderIdAndEpoch()
