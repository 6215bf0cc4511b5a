"""ControlRecordTypeSchema. Generated from ControlRecordTypeSchema.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
)

_read_i2 = struct.Struct(">h").unpack_from
_write_i2 = struct.Struct(">h").pack


class ControlRecordTypeSchema(Struct, gc=False):
    """Key of a control record, after its version."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    type: int = 0  # Kind of control record.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (type,) = _read_i2(buffer, position)
            position += 2
            return cls(type), position
        except READ_ERRORS as error:
            raise malformed("ControlRecordTypeSchema", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.type))
