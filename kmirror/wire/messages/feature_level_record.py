"""FeatureLevelRecord. Generated from FeatureLevelRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i2 = struct.Struct(">h").unpack_from
_write_i2 = struct.Struct(">h").pack


class FeatureLevelRecord(Struct, gc=False):
    """Sets the finalized level of a feature."""

    API_KEY: ClassVar[int] = 12
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    name: str = ""  # Name of the feature.
    feature_level: int = 0  # Level that the feature is finalized at, 0 for off.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            name, position = read_compact_string(buffer, position)
            (feature_level,) = _read_i2(buffer, position)
            position += 2
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(name, feature_level, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FeatureLevelRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i2(self.feature_level))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
