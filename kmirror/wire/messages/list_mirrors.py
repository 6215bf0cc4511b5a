"""ListMirrorsRequest and ListMirrorsResponse. Generated from ListMirrorsRequest.json and ListMirrorsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class ListMirrorsRequest(Struct, gc=False):
    """Asks to list mirrors (KIP-1279)."""

    API_KEY: ClassVar[int] = 98
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListMirrorsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ListedMirror(Struct, gc=False):
    """The mirrors."""

    mirror_name: str = ""  # Name of the mirror.
    source_bootstrap: str = ""  # Bootstrap servers of the source cluster.
    source_cluster_id: str = ""  # Id of the source cluster.
    topic_count: int = 0  # How many topics the mirror has.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        mirror_name, position = read_compact_string(buffer, position)
        source_bootstrap, position = read_compact_string(buffer, position)
        source_cluster_id, position = read_compact_string(buffer, position)
        (topic_count,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(mirror_name, source_bootstrap, source_cluster_id, topic_count, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.mirror_name)
        out.write_compact_string(self.source_bootstrap)
        out.write_compact_string(self.source_cluster_id)
        append(_write_i4(self.topic_count))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ListMirrorsResponse(Struct, gc=False):
    """Answers a request to list mirrors (KIP-1279)."""

    API_KEY: ClassVar[int] = 98
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    mirrors: list[ListedMirror] = field(default_factory=list)  # The mirrors.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            mirrors: list[ListedMirror]
            count, position = read_compact_array_length(buffer, position)
            mirrors = []
            for _ in range(count):
                mirrors_element, position = ListedMirror.read(buffer, position, version)
                mirrors.append(mirrors_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, mirrors, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ListMirrorsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        out.write_compact_array_length(len(self.mirrors))
        for mirrors_element in self.mirrors:
            mirrors_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
