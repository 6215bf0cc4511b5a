"""RemoveDelegationTokenRecord. Generated from RemoveDelegationTokenRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

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



class RemoveDelegationTokenRecord(Struct, gc=False):
    """A delegation token was removed."""

    API_KEY: ClassVar[int] = 26
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    token_id: str = ""  # Id of the delegation token.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            token_id, position = read_compact_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(token_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RemoveDelegationTokenRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.token_id)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
