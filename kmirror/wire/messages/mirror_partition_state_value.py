"""MirrorPartitionStateValue. Generated from MirrorPartitionStateValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_string,
    read_tagged_fields,
)

_read_i4_i1 = struct.Struct(">ib").unpack_from
_write_i4_i1 = struct.Struct(">ib").pack


class MirrorPartitionStateValue(Struct, gc=False):
    """Value of the record of the state of a mirror partition (KIP-1279)."""

    API_KEY: ClassVar[int] = 2
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_name: str = ""  # Name of the topic.
    partition: int = 0  # Number of the partition.
    state: int = 0  # State of the mirror partition, as a number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topic_name, position = read_compact_string(buffer, position)
            partition, state = _read_i4_i1(buffer, position)
            position += 5
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topic_name, partition, state, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("MirrorPartitionStateValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.topic_name)
        append(_write_i4_i1(self.partition, self.state))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
