"""RemoveTopicRecord. Generated from RemoveTopicRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_tagged_fields,
)

_read_uuid = struct.Struct(">16s").unpack_from
_write_uuid = struct.Struct(">16s").pack


class RemoveTopicRecord(Struct, gc=False):
    """A topic was deleted."""

    API_KEY: ClassVar[int] = 9
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(topic_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RemoveTopicRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.topic_id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
