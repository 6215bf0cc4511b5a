"""RemoveRaftVoterRequest and RemoveRaftVoterResponse. Generated from RemoveRaftVoterRequest.json and RemoveRaftVoterResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_tagged_fields,
)

_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_uuid = struct.Struct(">i16s").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_uuid = struct.Struct(">i16s").pack


class RemoveRaftVoterRequest(Struct, gc=False):
    """Asks to remove a voter from the metadata quorum."""

    API_KEY: ClassVar[int] = 81
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = ""  # Id of the cluster.
    voter_id: int = 0  # Number of the voter.
    voter_directory_id: Uuid = Uuid.ZERO  # Directory of the voter.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            cluster_id: str | None
            cluster_id, position = read_compact_nullable_string(buffer, position)
            voter_id, voter_directory_id_bytes = _read_i4_uuid(buffer, position)
            position += 20
            voter_directory_id = Uuid(voter_directory_id_bytes)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(cluster_id, voter_id, voter_directory_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RemoveRaftVoterRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.cluster_id)
        append(_write_i4_uuid(self.voter_id, self.voter_directory_id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class RemoveRaftVoterResponse(Struct, gc=False):
    """Answers a request to remove a voter from the metadata quorum."""

    API_KEY: ClassVar[int] = 81
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RemoveRaftVoterResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
