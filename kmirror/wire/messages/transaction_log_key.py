"""TransactionLogKey. Generated from TransactionLogKey.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_string,
)



class TransactionLogKey(Struct, gc=False):
    """Key of the record of a transactional id and its transaction."""

    API_KEY: ClassVar[int] = 0
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    transactional_id: str = ""  # Transactional id of the producer; null if it has none.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            transactional_id, position = read_string(buffer, position)
            return cls(transactional_id), position
        except READ_ERRORS as error:
            raise malformed("TransactionLogKey", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.transactional_id)
