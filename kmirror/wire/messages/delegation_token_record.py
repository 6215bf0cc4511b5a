"""DelegationTokenRecord. Generated from DelegationTokenRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_string,
    read_compact_strings,
    read_tagged_fields,
)

_read_i8_i8_i8 = struct.Struct(">qqq").unpack_from
_write_i8_i8_i8 = struct.Struct(">qqq").pack


class DelegationTokenRecord(Struct, gc=False):
    """A delegation token was made or renewed."""

    API_KEY: ClassVar[int] = 10
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    owner: str = ""  # Who owns the token.
    requester: str = ""  # Who asked for the token.
    renewers: list[str] = field(default_factory=list)  # Principals that may renew the token.
    issue_timestamp: int = 0  # When the token was made, in ms since 1970.
    max_timestamp: int = 0  # Time after which the token cannot be renewed, in ms since 1970.
    expiration_timestamp: int = 0  # When this expires, in ms since 1970.
    token_id: str = ""  # Id of the delegation token.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            owner, position = read_compact_string(buffer, position)
            requester, position = read_compact_string(buffer, position)
            renewers: list[str]
            count, position = read_compact_array_length(buffer, position)
            renewers, position = read_compact_strings(buffer, position, count)
            issue_timestamp, max_timestamp, expiration_timestamp = _read_i8_i8_i8(buffer, position)
            position += 24
            token_id, position = read_compact_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(owner, requester, renewers, issue_timestamp, max_timestamp, expiration_timestamp, token_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DelegationTokenRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.owner)
        out.write_compact_string(self.requester)
        out.write_compact_array_length(len(self.renewers))
        out.write_compact_strings(self.renewers)
        append(_write_i8_i8_i8(self.issue_timestamp, self.max_timestamp, self.expiration_timestamp))
        out.write_compact_string(self.token_id)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
