"""StreamsGroupTargetAssignmentMetadataValue. Generated from StreamsGroupTargetAssignmentMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i8 = struct.Struct(">q").pack


class StreamsGroupTargetAssignmentMetadataValue(Struct, gc=False):
    """Value of the record of a streams group's target assignment."""

    API_KEY: ClassVar[int] = 20
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    assignment_epoch: int = 0  # Version of the target assignment.
    assignment_timestamp: int = 0  # When the assignment was computed, in ms since 1970.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (assignment_epoch,) = _read_i4(buffer, position)
            position += 4
            assignment_timestamp: int = 0
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        (assignment_timestamp,) = _read_i8(buffer, position)
                        position += 8
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(assignment_epoch, assignment_timestamp, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupTargetAssignmentMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.assignment_epoch))
        tagged = list(self.unknown_tagged_fields)
        if self.assignment_timestamp:
            tagged.append((0, _write_i8(self.assignment_timestamp)))
        out.write_tagged_fields(tagged)
