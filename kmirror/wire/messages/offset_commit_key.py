"""OffsetCommitKey. Generated from OffsetCommitKey.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i4 = struct.Struct(">i").unpack_from
_write_i4 = struct.Struct(">i").pack


class OffsetCommitKey(Struct, gc=False):
    """Key of the record of a committed offset."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group: str = ""  # Name of the group.
    topic: str = ""  # Name of the topic.
    partition: int = 0  # Number of the partition.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group, position = read_string(buffer, position)
            topic, position = read_string(buffer, position)
            (partition,) = _read_i4(buffer, position)
            position += 4
            return cls(group, topic, partition), position
        except READ_ERRORS as error:
            raise malformed("OffsetCommitKey", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_string(self.group)
        out.write_string(self.topic)
        append(_write_i4(self.partition))
