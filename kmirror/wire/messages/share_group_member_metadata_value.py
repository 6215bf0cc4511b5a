"""ShareGroupMemberMetadataValue. Generated from ShareGroupMemberMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_tagged_fields,
)



class ShareGroupMemberMetadataValue(Struct, gc=False):
    """Value of the record of a share group's member."""

    API_KEY: ClassVar[int] = 10
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    rack_id: str | None = ""  # Rack of the caller.
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    subscribed_topic_names: list[str] = field(default_factory=list)  # Topics that the member wants.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            rack_id: str | None
            rack_id, position = read_compact_nullable_string(buffer, position)
            client_id, position = read_compact_string(buffer, position)
            client_host, position = read_compact_string(buffer, position)
            subscribed_topic_names: list[str]
            count, position = read_compact_array_length(buffer, position)
            subscribed_topic_names, position = read_compact_strings(buffer, position, count)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(rack_id, client_id, client_host, subscribed_topic_names, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareGroupMemberMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.rack_id)
        out.write_compact_string(self.client_id)
        out.write_compact_string(self.client_host)
        out.write_compact_array_length(len(self.subscribed_topic_names))
        out.write_compact_strings(self.subscribed_topic_names)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
