"""AddRaftVoterRequest and AddRaftVoterResponse. Generated from AddRaftVoterRequest.json and AddRaftVoterResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4_uuid = struct.Struct(">ii16s").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4_uuid = struct.Struct(">ii16s").pack
_write_u2 = struct.Struct(">H").pack


class Listener(Struct, gc=False):
    """Listeners of the node."""

    name: str = ""  # Name of the listener.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        host, position = read_compact_string(buffer, position)
        (port,) = _read_u2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, host, port, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_string(self.host)
        append(_write_u2(self.port))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AddRaftVoterRequest(Struct, gc=False):
    """Asks to add a voter to the metadata quorum."""

    API_KEY: ClassVar[int] = 80
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = ""  # Id of the cluster.
    timeout_ms: int = 0  # How long to wait for the work to be done.
    voter_id: int = 0  # Number of the voter.
    voter_directory_id: Uuid = Uuid.ZERO  # Directory of the voter.
    listeners: list[Listener] = field(default_factory=list)  # Listeners of the node.
    ack_when_committed: bool = True  # True if the answer must wait until the voter set is committed. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            cluster_id: str | None
            cluster_id, position = read_compact_nullable_string(buffer, position)
            timeout_ms, voter_id, voter_directory_id_bytes = _read_i4_i4_uuid(buffer, position)
            position += 24
            voter_directory_id = Uuid(voter_directory_id_bytes)
            listeners: list[Listener]
            count, position = read_compact_array_length(buffer, position)
            listeners = []
            for _ in range(count):
                listeners_element, position = Listener.read(buffer, position, version)
                listeners.append(listeners_element)
            if version >= 1:
                (ack_when_committed,) = _read_bool(buffer, position)
                position += 1
            else:
                ack_when_committed = True
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(cluster_id, timeout_ms, voter_id, voter_directory_id, listeners, ack_when_committed, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("AddRaftVoterRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if not self.ack_when_committed:
                raise unsupported_field("AddRaftVoterRequest", "ack_when_committed", version)
        append = out.append
        out.write_compact_nullable_string(self.cluster_id)
        append(_write_i4_i4_uuid(self.timeout_ms, self.voter_id, self.voter_directory_id.raw))
        out.write_compact_array_length(len(self.listeners))
        for listeners_element in self.listeners:
            listeners_element.write(out, version)
        if version >= 1:
            append(_write_bool(self.ack_when_committed))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AddRaftVoterResponse(Struct, gc=False):
    """Answers a request to add a voter to the metadata quorum."""

    API_KEY: ClassVar[int] = 80
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
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
            raise malformed("AddRaftVoterResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
