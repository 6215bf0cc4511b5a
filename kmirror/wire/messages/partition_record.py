"""PartitionRecord. Generated from PartitionRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_array_length,
    read_int32s,
    read_unknown_tagged_field,
    read_unsigned_varint,
    read_uuids,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i4_i4_i4 = struct.Struct(">iii").unpack_from
_read_i4_uuid = struct.Struct(">i16s").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i4_i4_i4 = struct.Struct(">iii").pack
_write_i4_uuid = struct.Struct(">i16s").pack


class PartitionRecord(Struct, gc=False):
    """A partition's whole registration."""

    API_KEY: ClassVar[int] = 3
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    partition_id: int = -1  # Number of the partition.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    replicas: list[int] = field(default_factory=list)  # Brokers that hold the partition, the preferred leader first.
    isr: list[int] = field(default_factory=list)  # Replicas that are in sync.
    removing_replicas: list[int] = field(default_factory=list)  # Replicas that a reassignment is removing.
    adding_replicas: list[int] = field(default_factory=list)  # Replicas that a reassignment is adding.
    leader: int = -1  # Number of the leading broker, -1 for none.
    leader_recovery_state: int = 0  # 0 if the leader is sound, 1 if it was elected uncleanly and recovers.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown.
    partition_epoch: int = -1  # Version of the partition's registration; goes up with every change.
    directories: list[Uuid] = field(default_factory=list)  # Ids of the log directories of the replicas, in their order. [1+]
    eligible_leader_replicas: list[int] | None = None  # Replicas outside of the ISR that are complete up to the high watermark. [2+]
    last_known_elr: list[int] | None = None  # Last known eligible leaders, for recovery when none is left. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            partition_id, topic_id_bytes = _read_i4_uuid(buffer, position)
            position += 20
            topic_id = Uuid(topic_id_bytes)
            replicas: list[int]
            count, position = read_compact_array_length(buffer, position)
            replicas, position = read_int32s(buffer, position, count)
            isr: list[int]
            count, position = read_compact_array_length(buffer, position)
            isr, position = read_int32s(buffer, position, count)
            removing_replicas: list[int]
            count, position = read_compact_array_length(buffer, position)
            removing_replicas, position = read_int32s(buffer, position, count)
            adding_replicas: list[int]
            count, position = read_compact_array_length(buffer, position)
            adding_replicas, position = read_int32s(buffer, position, count)
            leader, leader_epoch, partition_epoch = _read_i4_i4_i4(buffer, position)
            position += 12
            directories: list[Uuid]
            if version >= 1:
                count, position = read_compact_array_length(buffer, position)
                directories, position = read_uuids(buffer, position, count)
            else:
                directories = []
            leader_recovery_state: int = 0
            eligible_leader_replicas: list[int] | None = None
            last_known_elr: list[int] | None = None
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        (leader_recovery_state,) = _read_i1(buffer, position)
                        position += 1
                    elif tag == 1:
                        if version < 2:
                            raise ProtocolReadError(f"tag 1 is not valid for PartitionRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            eligible_leader_replicas = None
                        else:
                            eligible_leader_replicas, position = read_int32s(buffer, position, count)
                    elif tag == 2:
                        if version < 2:
                            raise ProtocolReadError(f"tag 2 is not valid for PartitionRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            last_known_elr = None
                        else:
                            last_known_elr, position = read_int32s(buffer, position, count)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(partition_id, topic_id, replicas, isr, removing_replicas, adding_replicas, leader, leader_recovery_state, leader_epoch, partition_epoch, directories, eligible_leader_replicas, last_known_elr, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("PartitionRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.directories:
                raise unsupported_field("PartitionRecord", "directories", version)
        if version < 2:
            if self.eligible_leader_replicas is not None:
                raise unsupported_field("PartitionRecord", "eligible_leader_replicas", version)
            if self.last_known_elr is not None:
                raise unsupported_field("PartitionRecord", "last_known_elr", version)
        append = out.append
        append(_write_i4_uuid(self.partition_id, self.topic_id.raw))
        out.write_compact_array_length(len(self.replicas))
        out.write_int32s(self.replicas)
        out.write_compact_array_length(len(self.isr))
        out.write_int32s(self.isr)
        out.write_compact_array_length(len(self.removing_replicas))
        out.write_int32s(self.removing_replicas)
        out.write_compact_array_length(len(self.adding_replicas))
        out.write_int32s(self.adding_replicas)
        append(_write_i4_i4_i4(self.leader, self.leader_epoch, self.partition_epoch))
        if version >= 1:
            out.write_compact_array_length(len(self.directories))
            out.write_uuids(self.directories)
        tagged = list(self.unknown_tagged_fields)
        if self.leader_recovery_state:
            tagged.append((0, _write_i1(self.leader_recovery_state)))
        if version == 2 and (self.eligible_leader_replicas is not None):
            eligible_leader_replicas_out = Writer()
            if self.eligible_leader_replicas is None:
                eligible_leader_replicas_out.append(b"\0")
            else:
                eligible_leader_replicas_out.write_compact_array_length(len(self.eligible_leader_replicas))
                eligible_leader_replicas_out.write_int32s(self.eligible_leader_replicas)
            tagged.append((1, eligible_leader_replicas_out.to_bytes()))
        if version == 2 and (self.last_known_elr is not None):
            last_known_elr_out = Writer()
            if self.last_known_elr is None:
                last_known_elr_out.append(b"\0")
            else:
                last_known_elr_out.write_compact_array_length(len(self.last_known_elr))
                last_known_elr_out.write_int32s(self.last_known_elr)
            tagged.append((2, last_known_elr_out.to_bytes()))
        out.write_tagged_fields(tagged)
