"""EndTxnMarker. Generated from EndTxnMarker.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
)

_read_i4 = struct.Struct(">i").unpack_from
_write_i4 = struct.Struct(">i").pack


class EndTxnMarker(Struct, gc=False):
    """Value of the control record that ends a transaction."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    coordinator_epoch: int = 0  # Epoch of the transaction coordinator.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (coordinator_epoch,) = _read_i4(buffer, position)
            position += 4
            return cls(coordinator_epoch), position
        except READ_ERRORS as error:
            raise malformed("EndTxnMarker", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.coordinator_epoch))
