"""PartitionChangeRecord. Generated from PartitionChangeRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    ProtocolReadError,
    TaggedFields,
    Writer,
    malformed,
    read_compact_nullable_array_length,
    read_int32s,
    read_unknown_tagged_field,
    read_unsigned_varint,
    read_uuids,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_uuid = struct.Struct(">i16s").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_uuid = struct.Struct(">i16s").pack


class PartitionChangeRecord(Struct, gc=False):
    """Changes parts of a partition's registration."""

    API_KEY: ClassVar[int] = 5
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    partition_id: int = -1  # Number of the partition.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    isr: list[int] | None = None  # Replicas that are in sync.
    leader: int = -2  # Number of the leading broker, -1 for none.
    replicas: list[int] | None = None  # Brokers that hold the partition, the preferred leader first.
    removing_replicas: list[int] | None = None  # Replicas that a reassignment is removing.
    adding_replicas: list[int] | None = None  # Replicas that a reassignment is adding.
    leader_recovery_state: int = -1  # 0 if the leader is sound, 1 if it was elected uncleanly and recovers.
    directories: list[Uuid] | None = None  # Ids of the log directories of the replicas, in their order. [1+]
    eligible_leader_replicas: list[int] | None = None  # Replicas outside of the ISR that are complete up to the high watermark. [2+]
    last_known_elr: list[int] | None = None  # Last known eligible leaders, for recovery when none is left. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            partition_id, topic_id_bytes = _read_i4_uuid(buffer, position)
            position += 20
            topic_id = Uuid(topic_id_bytes)
            isr: list[int] | None = None
            leader: int = -2
            replicas: list[int] | None = None
            removing_replicas: list[int] | None = None
            adding_replicas: list[int] | None = None
            leader_recovery_state: int = -1
            eligible_leader_replicas: list[int] | None = None
            last_known_elr: list[int] | None = None
            directories: list[Uuid] | None = None
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            isr = None
                        else:
                            isr, position = read_int32s(buffer, position, count)
                    elif tag == 1:
                        (leader,) = _read_i4(buffer, position)
                        position += 4
                    elif tag == 2:
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            replicas = None
                        else:
                            replicas, position = read_int32s(buffer, position, count)
                    elif tag == 3:
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            removing_replicas = None
                        else:
                            removing_replicas, position = read_int32s(buffer, position, count)
                    elif tag == 4:
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            adding_replicas = None
                        else:
                            adding_replicas, position = read_int32s(buffer, position, count)
                    elif tag == 5:
                        (leader_recovery_state,) = _read_i1(buffer, position)
                        position += 1
                    elif tag == 6:
                        if version < 2:
                            raise ProtocolReadError(f"tag 6 is not valid for PartitionChangeRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            eligible_leader_replicas = None
                        else:
                            eligible_leader_replicas, position = read_int32s(buffer, position, count)
                    elif tag == 7:
                        if version < 2:
                            raise ProtocolReadError(f"tag 7 is not valid for PartitionChangeRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            last_known_elr = None
                        else:
                            last_known_elr, position = read_int32s(buffer, position, count)
                    elif tag == 8:
                        if version < 1:
                            raise ProtocolReadError(f"tag 8 is not valid for PartitionChangeRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            directories = None
                        else:
                            directories, position = read_uuids(buffer, position, count)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(partition_id, topic_id, isr, leader, replicas, removing_replicas, adding_replicas, leader_recovery_state, directories, eligible_leader_replicas, last_known_elr, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("PartitionChangeRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.directories is not None:
                raise unsupported_field("PartitionChangeRecord", "directories", version)
        if version < 2:
            if self.eligible_leader_replicas is not None:
                raise unsupported_field("PartitionChangeRecord", "eligible_leader_replicas", version)
            if self.last_known_elr is not None:
                raise unsupported_field("PartitionChangeRecord", "last_known_elr", version)
        append = out.append
        append(_write_i4_uuid(self.partition_id, self.topic_id.raw))
        tagged = list(self.unknown_tagged_fields)
        if self.isr is not None:
            isr_out = Writer()
            if self.isr is None:
                isr_out.append(b"\0")
            else:
                isr_out.write_compact_array_length(len(self.isr))
                isr_out.write_int32s(self.isr)
            tagged.append((0, isr_out.to_bytes()))
        if self.leader != -2:
            tagged.append((1, _write_i4(self.leader)))
        if self.replicas is not None:
            replicas_out = Writer()
            if self.replicas is None:
                replicas_out.append(b"\0")
            else:
                replicas_out.write_compact_array_length(len(self.replicas))
                replicas_out.write_int32s(self.replicas)
            tagged.append((2, replicas_out.to_bytes()))
        if self.removing_replicas is not None:
            removing_replicas_out = Writer()
            if self.removing_replicas is None:
                removing_replicas_out.append(b"\0")
            else:
                removing_replicas_out.write_compact_array_length(len(self.removing_replicas))
                removing_replicas_out.write_int32s(self.removing_replicas)
            tagged.append((3, removing_replicas_out.to_bytes()))
        if self.adding_replicas is not None:
            adding_replicas_out = Writer()
            if self.adding_replicas is None:
                adding_replicas_out.append(b"\0")
            else:
                adding_replicas_out.write_compact_array_length(len(self.adding_replicas))
                adding_replicas_out.write_int32s(self.adding_replicas)
            tagged.append((4, adding_replicas_out.to_bytes()))
        if self.leader_recovery_state != -1:
            tagged.append((5, _write_i1(self.leader_recovery_state)))
        if version == 2 and (self.eligible_leader_replicas is not None):
            eligible_leader_replicas_out = Writer()
            if self.eligible_leader_replicas is None:
                eligible_leader_replicas_out.append(b"\0")
            else:
                eligible_leader_replicas_out.write_compact_array_length(len(self.eligible_leader_replicas))
                eligible_leader_replicas_out.write_int32s(self.eligible_leader_replicas)
            tagged.append((6, eligible_leader_replicas_out.to_bytes()))
        if version == 2 and (self.last_known_elr is not None):
            last_known_elr_out = Writer()
            if self.last_known_elr is None:
                last_known_elr_out.append(b"\0")
            else:
                last_known_elr_out.write_compact_array_length(len(self.last_known_elr))
                last_known_elr_out.write_int32s(self.last_known_elr)
            tagged.append((7, last_known_elr_out.to_bytes()))
        if version >= 1 and (self.directories is not None):
            directories_out = Writer()
            if self.directories is None:
                directories_out.append(b"\0")
            else:
                directories_out.write_compact_array_length(len(self.directories))
                directories_out.write_uuids(self.directories)
            tagged.append((8, directories_out.to_bytes()))
        out.write_tagged_fields(tagged)
