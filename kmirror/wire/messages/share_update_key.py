"""ShareUpdateKey. Generated from ShareUpdateKey.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_string,
)

_read_uuid_i4 = struct.Struct(">16si").unpack_from
_write_uuid_i4 = struct.Struct(">16si").pack


class ShareUpdateKey(Struct, gc=False):
    """Key of the record of a change to the state of a share partition."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = None

    group_id: str = ""  # Name of the group.
    topic_id: Uuid = Uuid.ZERO  # Id of the topic.
    partition: int = 0  # Number of the partition.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            group_id, position = read_string(buffer, position)
            topic_id_bytes, partition = _read_uuid_i4(buffer, position)
            position += 20
            topic_id = Uuid(topic_id_bytes)
            return cls(group_id, topic_id, partition), position
        except READ_ERRORS as error:
            raise malformed("ShareUpdateKey", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_string(self.group_id)
        append(_write_uuid_i4(self.topic_id.raw, self.partition))
