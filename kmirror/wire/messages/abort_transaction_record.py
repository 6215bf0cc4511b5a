"""AbortTransactionRecord. Generated from AbortTransactionRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_nullable_string,
    read_unknown_tagged_field,
    read_unsigned_varint,
)



class AbortTransactionRecord(Struct, gc=False):
    """Ends a metadata transaction and undoes it."""

    API_KEY: ClassVar[int] = 25
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    reason: str | None = None  # Why, in words.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            reason: str | None = None
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        reason, position = read_compact_nullable_string(buffer, position)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(reason, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AbortTransactionRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        tagged = list(self.unknown_tagged_fields)
        if self.reason is not None:
            reason_out = Writer()
            reason_out.write_compact_nullable_string(self.reason)
            tagged.append((0, reason_out.to_bytes()))
        out.write_tagged_fields(tagged)
