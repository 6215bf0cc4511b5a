"""LegacyOffsetCommitValue. Generated from LegacyOffsetCommitValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_string,
)

_read_i8 = struct.Struct(">q").unpack_from
_write_i8 = struct.Struct(">q").pack


class LegacyOffsetCommitValue(Struct, gc=False):
    """Value of the record of a committed offset in the oldest form."""

    API_KEY: ClassVar[int] = 0
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    offset: int = 0  # Offset at which the consumer goes on.
    metadata: str = ""  # Text kept with the offset.
    commit_timestamp: int = 0  # When the offset was committed, in ms since 1970.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (offset,) = _read_i8(buffer, position)
            position += 8
            metadata, position = read_string(buffer, position)
            (commit_timestamp,) = _read_i8(buffer, position)
            position += 8
            return cls(offset, metadata, commit_timestamp), position
        except READ_ERRORS as error:
            raise malformed("LegacyOffsetCommitValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8(self.offset))
        out.write_string(self.metadata)
        append(_write_i8(self.commit_timestamp))
