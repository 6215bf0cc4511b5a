"""UpdateRaftVoterRequest and UpdateRaftVoterResponse. Generated from UpdateRaftVoterRequest.json and UpdateRaftVoterResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i2_i2 = struct.Struct(">hh").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i4_i4_uuid = struct.Struct(">ii16s").unpack_from
_read_u2 = struct.Struct(">H").unpack_from
_write_i2_i2 = struct.Struct(">hh").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack
_write_i4_i4 = struct.Struct(">ii").pack
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


class UpdateRaftVoterRequest(Struct, gc=False):
    """Asks to update a voter's endpoints and versions."""

    API_KEY: ClassVar[int] = 82
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    cluster_id: str | None = ""  # Id of the cluster.
    current_leader_epoch: int = 0  # Leader epoch that the caller knows, to be fenced if it is old; -1 for none.
    voter_id: int = 0  # Number of the voter.
    voter_directory_id: Uuid = Uuid.ZERO  # Directory of the voter.
    listeners: list[Listener] = field(default_factory=list)  # Listeners of the node.
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)  # Range of kraft.version that the voter supports.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            cluster_id: str | None
            cluster_id, position = read_compact_nullable_string(buffer, position)
            current_leader_epoch, voter_id, voter_directory_id_bytes = _read_i4_i4_uuid(buffer, position)
            position += 24
            voter_directory_id = Uuid(voter_directory_id_bytes)
            listeners: list[Listener]
            count, position = read_compact_array_length(buffer, position)
            listeners = []
            for _ in range(count):
                listeners_element, position = Listener.read(buffer, position, version)
                listeners.append(listeners_element)
            kraft_version_feature: KRaftVersionFeature
            kraft_version_feature, position = KRaftVersionFeature.read(buffer, position, version)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(cluster_id, current_leader_epoch, voter_id, voter_directory_id, listeners, kraft_version_feature, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("UpdateRaftVoterRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.cluster_id)
        append(_write_i4_i4_uuid(self.current_leader_epoch, self.voter_id, self.voter_directory_id.raw))
        out.write_compact_array_length(len(self.listeners))
        for listeners_element in self.listeners:
            listeners_element.write(out, version)
        self.kraft_version_feature.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class CurrentLeader(Struct, gc=False):
    """Who leads the partition now, if the caller asked the wrong one."""

    leader_id: int = -1  # Number of the leader, -1 if unknown.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        leader_id, leader_epoch = _read_i4_i4(buffer, position)
        position += 8
        host, position = read_compact_string(buffer, position)
        (port,) = _read_i4(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(leader_id, leader_epoch, host, port, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4(self.leader_id, self.leader_epoch))
        out.write_compact_string(self.host)
        append(_write_i4(self.port))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class UpdateRaftVoterResponse(Struct, gc=False):
    """Answers a request to update a voter's endpoints and versions."""

    API_KEY: ClassVar[int] = 82
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    current_leader: CurrentLeader = field(default_factory=CurrentLeader)  # Who leads the partition now, if the caller asked the wrong one.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            current_leader: CurrentLeader = CurrentLeader()
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        current_leader, position = CurrentLeader.read(buffer, position, version)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(throttle_time_ms, error_code, current_leader, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("UpdateRaftVoterResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        tagged = list(self.unknown_tagged_fields)
        if self.current_leader != _DEFAULT_CURRENT_LEADER:
            current_leader_out = Writer()
            self.current_leader.write(current_leader_out, version)
            tagged.append((0, current_leader_out.to_bytes()))
        out.write_tagged_fields(tagged)


_DEFAULT_CURRENT_LEADER = CurrentLeader()
