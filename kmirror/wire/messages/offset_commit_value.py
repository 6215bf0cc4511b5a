"""OffsetCommitValue. Generated from OffsetCommitValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_string,
    read_string,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_i8 = struct.Struct(">q").unpack_from
_read_i8_i4 = struct.Struct(">qi").unpack_from
_read_i8_i8 = struct.Struct(">qq").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i8 = struct.Struct(">q").pack
_write_i8_i4 = struct.Struct(">qi").pack
_write_i8_i8 = struct.Struct(">qq").pack
_write_uuid = struct.Struct(">16s").pack


class OffsetCommitValue(Struct, gc=False):
    """Value of the record of a committed offset."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 4

    offset: int = 0  # Offset at which the consumer goes on.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown. [3+]
    metadata: str = ""  # Text kept with the offset.
    commit_timestamp: int = 0  # When the offset was committed, in ms since 1970.
    expire_timestamp: int = -1  # When the commit expires, in ms since 1970; -1 for by the broker's rule. [1]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [4+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 3:
                offset, leader_epoch = _read_i8_i4(buffer, position)
                position += 12
            else:
                (offset,) = _read_i8(buffer, position)
                position += 8
                leader_epoch = -1
            if version >= 4:
                metadata, position = read_compact_string(buffer, position)
            else:
                metadata, position = read_string(buffer, position)
            if version >= 2:
                (commit_timestamp,) = _read_i8(buffer, position)
                position += 8
                expire_timestamp = -1
            elif version >= 1:
                commit_timestamp, expire_timestamp = _read_i8_i8(buffer, position)
                position += 16
            else:
                (commit_timestamp,) = _read_i8(buffer, position)
                position += 8
                expire_timestamp = -1
            topic_id: Uuid = Uuid.ZERO
            unknown_tagged_fields: TaggedFields = ()
            if version == 4:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
                            (topic_id_bytes,) = _read_uuid(buffer, position)
                            position += 16
                            topic_id = Uuid(topic_id_bytes)
                        else:
                            value, position = read_unknown_tagged_field(buffer, position, size)
                            unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("OffsetCommitValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 4:
            raise unsupported_field("OffsetCommitValue", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            append(_write_i8_i4(self.offset, self.leader_epoch))
        else:
            append(_write_i8(self.offset))
        if version >= 4:
            out.write_compact_string(self.metadata)
        else:
            out.write_string(self.metadata)
        if version >= 2:
            append(_write_i8(self.commit_timestamp))
        elif version >= 1:
            append(_write_i8_i8(self.commit_timestamp, self.expire_timestamp))
        else:
            append(_write_i8(self.commit_timestamp))
        if version == 4:
            tagged = list(self.unknown_tagged_fields)
            if self.topic_id:
                tagged.append((0, _write_uuid(self.topic_id.raw)))
            out.write_tagged_fields(tagged)
