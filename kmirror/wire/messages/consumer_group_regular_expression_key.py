"""ConsumerGroupRegularExpressionKey. Generated from ConsumerGroupRegularExpressionKey.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_string,
)



class ConsumerGroupRegularExpressionKey(Struct, gc=False):
    """Key of the record of the topics that a pattern of a consumer group matches."""

    API_KEY: ClassVar[int] = 16
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""  # Name of the group.
    regular_expression: str = ""  # Pattern that topics are matched with.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_string(buffer, position)
            regular_expression, position = read_string(buffer, position)
            return cls(group_id, regular_expression), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupRegularExpressionKey", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.group_id)
        out.write_string(self.regular_expression)
