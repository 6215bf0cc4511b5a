"""GroupMetadataKey. Generated from GroupMetadataKey.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_string,
)



class GroupMetadataKey(Struct, gc=False):
    """Key of the record of a classic group."""

    API_KEY: ClassVar[int] = 2
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group: str = ""  # Name of the group.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group, position = read_string(buffer, position)
            return cls(group), position
        except READ_ERRORS as error:
            raise malformed("GroupMetadataKey", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.group)
