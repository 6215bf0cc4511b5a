"""MirrorPartitionStateKey. Generated from MirrorPartitionStateKey.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_string,
)



class MirrorPartitionStateKey(Struct, gc=False):
    """Key of the record of the state of a mirror partition (KIP-1279)."""

    API_KEY: ClassVar[int] = 2
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    mirror_name: str = ""  # Name of the mirror.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            mirror_name, position = read_string(buffer, position)
            return cls(mirror_name), position
        except READ_ERRORS as error:
            raise malformed("MirrorPartitionStateKey", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.mirror_name)
