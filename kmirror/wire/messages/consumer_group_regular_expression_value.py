"""ConsumerGroupRegularExpressionValue. Generated from ConsumerGroupRegularExpressionValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_strings,
    read_tagged_fields,
)

_read_i8_i8 = struct.Struct(">qq").unpack_from
_write_i8_i8 = struct.Struct(">qq").pack


class ConsumerGroupRegularExpressionValue(Struct, gc=False):
    """Value of the record of the topics that a pattern of a consumer group matches."""

    API_KEY: ClassVar[int] = 16
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topics: list[str] = field(default_factory=list)  # Topics concerned.
    version: int = 0  # Offset of the metadata log at which the pattern was resolved.
    timestamp: int = 0  # When the pattern was resolved, in ms since 1970.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[str]
            count, position = read_compact_array_length(buffer, position)
            topics, position = read_compact_strings(buffer, position, count)
            version_, timestamp = _read_i8_i8(buffer, position)
            position += 16
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topics, version_, timestamp, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupRegularExpressionValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_array_length(len(self.topics))
        out.write_compact_strings(self.topics)
        append(_write_i8_i8(self.version, self.timestamp))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
