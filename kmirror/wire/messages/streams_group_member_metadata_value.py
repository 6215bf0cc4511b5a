"""StreamsGroupMemberMetadataValue. Generated from StreamsGroupMemberMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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

_read_i1 = struct.Struct(">b").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_i4_i4 = struct.Struct(">ii").pack
_write_u2 = struct.Struct(">H").pack


class Endpoint(Struct, gc=False):
    """Where queries to the member's state go."""

    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        host, position = read_compact_string(buffer, position)
        (port,) = _read_u2(buffer, position)
        position += 2
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(host, port, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.host)
        append(_write_u2(self.port))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class KeyValue(Struct, gc=False):
    """Tags of the client that steer where standby tasks go."""

    key: str = ""  # Key of the pair.
    value: str = ""  # Value of the pair.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        key, position = read_compact_string(buffer, position)
        value, position = read_compact_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(key, value, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.key)
        out.write_compact_string(self.value)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class StreamsGroupMemberMetadataValue(Struct, gc=False):
    """Value of the record of a streams group's member."""

    API_KEY: ClassVar[int] = 19
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    instance_id: str | None = ""  # Id of a static member; null for a dynamic one.
    rack_id: str | None = ""  # Rack of the caller.
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    rebalance_timeout_ms: int = -1  # How long members have to give up partitions in a rebalance.
    topology_epoch: int = 0  # Version of the topology.
    process_id: str = ""  # Id of the process that runs the member.
    user_endpoint: Endpoint | None = None  # Where queries to the member's state go.
    client_tags: list[KeyValue] = field(default_factory=list)  # Tags of the client that steer where standby tasks go.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            instance_id: str | None
            instance_id, position = read_compact_nullable_string(buffer, position)
            rack_id: str | None
            rack_id, position = read_compact_nullable_string(buffer, position)
            client_id, position = read_compact_string(buffer, position)
            client_host, position = read_compact_string(buffer, position)
            rebalance_timeout_ms, topology_epoch = _read_i4_i4(buffer, position)
            position += 8
            process_id, position = read_compact_string(buffer, position)
            user_endpoint: Endpoint | None
            (nullness,) = _read_i1(buffer, position)
            position += 1
            if nullness < 0:
                user_endpoint = None
            else:
                user_endpoint, position = Endpoint.read(buffer, position, version)
            client_tags: list[KeyValue]
            count, position = read_compact_array_length(buffer, position)
            client_tags = []
            for _ in range(count):
                client_tags_element, position = KeyValue.read(buffer, position, version)
                client_tags.append(client_tags_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(instance_id, rack_id, client_id, client_host, rebalance_timeout_ms, topology_epoch, process_id, user_endpoint, client_tags, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupMemberMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.instance_id)
        out.write_compact_nullable_string(self.rack_id)
        out.write_compact_string(self.client_id)
        out.write_compact_string(self.client_host)
        append(_write_i4_i4(self.rebalance_timeout_ms, self.topology_epoch))
        out.write_compact_string(self.process_id)
        if self.user_endpoint is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            self.user_endpoint.write(out, version)
        out.write_compact_array_length(len(self.client_tags))
        for client_tags_element in self.client_tags:
            client_tags_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
