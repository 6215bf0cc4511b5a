"""VotersRecord. Generated from VotersRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_string,
    read_tagged_fields,
)

_read_i2 = struct.Struct(">h").unpack_from
_read_i2_i2 = struct.Struct(">hh").unpack_from
_read_i4_uuid = struct.Struct(">i16s").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_i2 = struct.Struct(">h").pack
_write_i2_i2 = struct.Struct(">hh").pack
_write_i4_uuid = struct.Struct(">i16s").pack
_write_u2 = struct.Struct(">H").pack


class Endpoint(Struct, gc=False):
    """Where to connect."""

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


class KRaftVersionFeature(Struct, gc=False):
    """Range of kraft.version that the voter supports."""

    min_supported_version: int = 0  # Lowest level supported.
    max_supported_version: int = 0  # Highest level supported.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        min_supported_version, max_supported_version = _read_i2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(min_supported_version, max_supported_version, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2_i2(self.min_supported_version, self.max_supported_version))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class Voter(Struct, gc=False):
    """Voters of the quorum."""

    voter_id: int = 0  # Number of the voter.
    voter_directory_id: Uuid = Uuid.ZERO  # Directory of the voter.
    endpoints: list[Endpoint] = field(default_factory=list)  # Where to connect.
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)  # Range of kraft.version that the voter supports.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        voter_id, voter_directory_id_bytes = _read_i4_uuid(buffer, position)
        position += 20
        voter_directory_id = Uuid(voter_directory_id_bytes)
        endpoints: list[Endpoint]
        count, position = read_compact_array_length(buffer, position)
        endpoints = []
        for _ in range(count):
            endpoints_element, position = Endpoint.read(buffer, position, version)
            endpoints.append(endpoints_element)
        kraft_version_feature: KRaftVersionFeature
        kraft_version_feature, position = KRaftVersionFeature.read(buffer, position, version)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(voter_id, voter_directory_id, endpoints, kraft_version_feature, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_uuid(self.voter_id, self.voter_directory_id.raw))
        out.write_compact_array_length(len(self.endpoints))
        for endpoints_element in self.endpoints:
            endpoints_element.write(out, version)
        self.kraft_version_feature.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class VotersRecord(Struct, gc=False):
    """Control record with the voters of the quorum."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    version: int = 0  # Version of this record.
    voters: list[Voter] = field(default_factory=list)  # Voters of the quorum.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (version_,) = _read_i2(buffer, position)
            position += 2
            voters: list[Voter]
            count, position = read_compact_array_length(buffer, position)
            voters = []
            for _ in range(count):
                voters_element, position = Voter.read(buffer, position, version)
                voters.append(voters_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(version_, voters, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("VotersRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.version))
        out.write_compact_array_length(len(self.voters))
        for voters_element in self.voters:
            voters_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
