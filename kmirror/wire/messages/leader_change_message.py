"""LeaderChangeMessage. Generated from LeaderChangeMessage.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_tagged_fields,
    unsupported_field,
)

_read_i2_i4 = struct.Struct(">hi").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_uuid = struct.Struct(">i16s").unpack_from
_write_i2_i4 = struct.Struct(">hi").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_uuid = struct.Struct(">i16s").pack


class Voter(Struct, gc=False):
    """Voters that elected the leader."""

    voter_id: int = 0  # Number of the voter.
    voter_directory_id: Uuid = Uuid.ZERO  # Directory of the voter. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 1:
            voter_id, voter_directory_id_bytes = _read_i4_uuid(buffer, position)
            position += 20
            voter_directory_id = Uuid(voter_directory_id_bytes)
        else:
            (voter_id,) = _read_i4(buffer, position)
            position += 4
            voter_directory_id = Uuid.ZERO
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(voter_id, voter_directory_id, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.voter_directory_id:
                raise unsupported_field("LeaderChangeMessage", "voter_directory_id", version)
        append = out.append
        if version >= 1:
            append(_write_i4_uuid(self.voter_id, self.voter_directory_id.raw))
        else:
            append(_write_i4(self.voter_id))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class LeaderChangeMessage(Struct, gc=False):
    """Control record that a new quorum leader writes first."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    version: int = 0  # Version of this record.
    leader_id: int = 0  # Number of the leader, -1 if unknown.
    voters: list[Voter] = field(default_factory=list)  # Voters of the quorum.
    granting_voters: list[Voter] = field(default_factory=list)  # Voters that elected the leader.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            version_, leader_id = _read_i2_i4(buffer, position)
            position += 6
            voters: list[Voter]
            count, position = read_compact_array_length(buffer, position)
            voters = []
            for _ in range(count):
                voters_element, position = Voter.read(buffer, position, version)
                voters.append(voters_element)
            granting_voters: list[Voter]
            count, position = read_compact_array_length(buffer, position)
            granting_voters = []
            for _ in range(count):
                granting_voters_element, position = Voter.read(buffer, position, version)
                granting_voters.append(granting_voters_element)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(version_, leader_id, voters, granting_voters, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("LeaderChangeMessage", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2_i4(self.version, self.leader_id))
        out.write_compact_array_length(len(self.voters))
        for voters_element in self.voters:
            voters_element.write(out, version)
        out.write_compact_array_length(len(self.granting_voters))
        for granting_voters_element in self.granting_voters:
            granting_voters_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
