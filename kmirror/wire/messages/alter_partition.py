"""AlterPartitionRequest and AlterPartitionResponse. Generated from AlterPartitionRequest.json and AlterPartitionResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_int32s,
    read_tagged_fields,
    unsupported_field,
)

_read_i1_i4 = struct.Struct(">bi").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i2_i4_i4 = struct.Struct(">ihii").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i1_i4 = struct.Struct(">bi").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i2_i4_i4 = struct.Struct(">ihii").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_uuid = struct.Struct(">16s").pack


class BrokerState(Struct, gc=False):
    """In-sync replicas that the leader proposes, with the epochs of their brokers."""

    broker_id: int = 0  # Number of the broker.
    broker_epoch: int = -1  # Epoch that the controller gave the broker when it registered.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        broker_id, broker_epoch = _read_i4_i8(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(broker_id, broker_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.broker_id, self.broker_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterPartitionRequestPartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    new_isr: list[int] = field(default_factory=list)  # In-sync replicas that the leader proposes. [2]
    new_isr_with_epochs: list[BrokerState] = field(default_factory=list)  # In-sync replicas that the leader proposes, with the epochs of their brokers. [3+]
    leader_recovery_state: int = 0  # 0 if the leader is sound, 1 if it was elected uncleanly and recovers.
    partition_epoch: int = 0  # Version of the partition's registration; goes up with every change.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, leader_epoch = _read_i4_i4(buffer, position)
        position += 8
        new_isr: list[int]
        if version == 2:
            count, position = read_compact_array_length(buffer, position)
            new_isr, position = read_int32s(buffer, position, count)
        else:
            new_isr = []
        new_isr_with_epochs: list[BrokerState]
        if version == 3:
            count, position = read_compact_array_length(buffer, position)
            new_isr_with_epochs = []
            for _ in range(count):
                new_isr_with_epochs_element, position = BrokerState.read(buffer, position, version)
                new_isr_with_epochs.append(new_isr_with_epochs_element)
        else:
            new_isr_with_epochs = []
        leader_recovery_state, partition_epoch = _read_i1_i4(buffer, position)
        position += 5
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, leader_epoch, new_isr, new_isr_with_epochs, leader_recovery_state, partition_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if version > 2:
            if self.new_isr:
                raise unsupported_field("AlterPartitionRequest", "new_isr", version)
        if version < 3:
            if self.new_isr_with_epochs:
                raise unsupported_field("AlterPartitionRequest", "new_isr_with_epochs", version)
        append = out.append
        append(_write_i4_i4(self.partition_index, self.leader_epoch))
        if version == 2:
            out.write_compact_array_length(len(self.new_isr))
            out.write_int32s(self.new_isr)
        if version == 3:
            out.write_compact_array_length(len(self.new_isr_with_epochs))
            for new_isr_with_epochs_element in self.new_isr_with_epochs:
                new_isr_with_epochs_element.write(out, version)
        append(_write_i1_i4(self.leader_recovery_state, self.partition_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterPartitionRequestTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[AlterPartitionRequestPartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[AlterPartitionRequestPartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = AlterPartitionRequestPartitionData.read(buffer, position, version)
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


class AlterPartitionRequest(Struct, gc=False):
    """Asks to change a partition's in-sync replicas."""

    API_KEY: ClassVar[int] = 56
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    broker_id: int = 0  # Number of the broker.
    broker_epoch: int = -1  # Epoch that the controller gave the broker when it registered.
    topics: list[AlterPartitionRequestTopicData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            broker_id, broker_epoch = _read_i4_i8(buffer, position)
            position += 12
            topics: list[AlterPartitionRequestTopicData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = AlterPartitionRequestTopicData.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(broker_id, broker_epoch, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterPartitionRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.broker_id, self.broker_epoch))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterPartitionResponsePartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    isr: list[int] = field(default_factory=list)  # Replicas that are in sync.
    leader_recovery_state: int = 0  # 0 if the leader is sound, 1 if it was elected uncleanly and recovers.
    partition_epoch: int = 0  # Version of the partition's registration; goes up with every change.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        partition_index, error_code, leader_id, leader_epoch = _read_i4_i2_i4_i4(buffer, position)
        position += 14
        isr: list[int]
        count, position = read_compact_array_length(buffer, position)
        isr, position = read_int32s(buffer, position, count)
        leader_recovery_state, partition_epoch = _read_i1_i4(buffer, position)
        position += 5
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(partition_index, error_code, leader_id, leader_epoch, isr, leader_recovery_state, partition_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2_i4_i4(self.partition_index, self.error_code, self.leader_id, self.leader_epoch))
        out.write_compact_array_length(len(self.isr))
        out.write_int32s(self.isr)
        append(_write_i1_i4(self.leader_recovery_state, self.partition_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AlterPartitionResponseTopicData(Struct, gc=False):
    """Topics concerned."""

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partitions: list[AlterPartitionResponsePartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (topic_id_bytes,) = _read_uuid(buffer, position)
        position += 16
        topic_id = Uuid(topic_id_bytes)
        partitions: list[AlterPartitionResponsePartitionData]
        count, position = read_compact_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = AlterPartitionResponsePartitionData.read(buffer, position, version)
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


class AlterPartitionResponse(Struct, gc=False):
    """Answers a request to change a partition's in-sync replicas."""

    API_KEY: ClassVar[int] = 56
    LOWEST_VERSION: ClassVar[int] = 2
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 2

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    topics: list[AlterPartitionResponseTopicData] = field(default_factory=list)  # Topics concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            topics: list[AlterPartitionResponseTopicData]
            count, position = read_compact_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = AlterPartitionResponseTopicData.read(buffer, position, version)
                topics.append(topics_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, topics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AlterPartitionResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
