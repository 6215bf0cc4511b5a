"""ConsumerGroupMemberMetadataValue. Generated from ConsumerGroupMemberMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4 = struct.Struct(">i").unpack_from
_write_i4 = struct.Struct(">i").pack


class ClassicProtocol(Struct, gc=False):
    """Assignment strategies that the member supports, best first."""

    name: str = ""  # Name of the assignment strategy.
    metadata: bytes = b""  # What the member says about itself, in the form of the strategy.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        metadata, position = read_compact_bytes(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, metadata, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_bytes(self.metadata)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ClassicMemberMetadata(Struct, gc=False):
    """What a member that speaks the classic protocol sent; null for others."""

    session_timeout_ms: int = 0  # How long a member may be silent before it is removed.
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)  # Assignment strategies that the member supports, best first.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (session_timeout_ms,) = _read_i4(buffer, position)
        position += 4
        supported_protocols: list[ClassicProtocol]
        count, position = read_compact_array_length(buffer, position)
        supported_protocols = []
        for _ in range(count):
            supported_protocols_element, position = ClassicProtocol.read(buffer, position, version)
            supported_protocols.append(supported_protocols_element)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(session_timeout_ms, supported_protocols, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.session_timeout_ms))
        out.write_compact_array_length(len(self.supported_protocols))
        for supported_protocols_element in self.supported_protocols:
            supported_protocols_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ConsumerGroupMemberMetadataValue(Struct, gc=False):
    """Value of the record of a consumer group's member."""

    API_KEY: ClassVar[int] = 5
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    instance_id: str | None = ""  # Id of a static member; null for a dynamic one.
    rack_id: str | None = ""  # Rack of the caller.
    client_id: str = ""  # Name that the client gave itself.
    client_host: str = ""  # Address that the client connected from.
    subscribed_topic_names: list[str] = field(default_factory=list)  # Topics that the member wants.
    subscribed_topic_regex: str | None = ""  # Pattern of topics that the member wants; null if unchanged or none.
    rebalance_timeout_ms: int = -1  # How long members have to give up partitions in a rebalance.
    server_assignor: str | None = ""  # Assignment strategy that the broker is to use; null for its choice.
    classic_member_metadata: ClassicMemberMetadata | None = field(default_factory=ClassicMemberMetadata)  # What a member that speaks the classic protocol sent; null for others.
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
            subscribed_topic_names: list[str]
            count, position = read_compact_array_length(buffer, position)
            subscribed_topic_names, position = read_compact_strings(buffer, position, count)
            subscribed_topic_regex: str | None
            subscribed_topic_regex, position = read_compact_nullable_string(buffer, position)
            (rebalance_timeout_ms,) = _read_i4(buffer, position)
            position += 4
            server_assignor: str | None
            server_assignor, position = read_compact_nullable_string(buffer, position)
            classic_member_metadata: ClassicMemberMetadata | None = ClassicMemberMetadata()
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        nullness, position = read_unsigned_varint(buffer, position)
                        if nullness <= 0:
                            classic_member_metadata = None
                        else:
                            classic_member_metadata, position = ClassicMemberMetadata.read(buffer, position, version)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(instance_id, rack_id, client_id, client_host, subscribed_topic_names, subscribed_topic_regex, rebalance_timeout_ms, server_assignor, classic_member_metadata, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ConsumerGroupMemberMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_nullable_string(self.instance_id)
        out.write_compact_nullable_string(self.rack_id)
        out.write_compact_string(self.client_id)
        out.write_compact_string(self.client_host)
        out.write_compact_array_length(len(self.subscribed_topic_names))
        out.write_compact_strings(self.subscribed_topic_names)
        out.write_compact_nullable_string(self.subscribed_topic_regex)
        append(_write_i4(self.rebalance_timeout_ms))
        out.write_compact_nullable_string(self.server_assignor)
        tagged = list(self.unknown_tagged_fields)
        if self.classic_member_metadata is None or self.classic_member_metadata != _DEFAULT_CLASSIC_MEMBER_METADATA:
            classic_member_metadata_out = Writer()
            if self.classic_member_metadata is None:
                classic_member_metadata_out.append(b"\0")
            else:
                classic_member_metadata_out.append(b"\x01")
                self.classic_member_metadata.write(classic_member_metadata_out, version)
            tagged.append((0, classic_member_metadata_out.to_bytes()))
        out.write_tagged_fields(tagged)


_DEFAULT_CLASSIC_MEMBER_METADATA = ClassicMemberMetadata()
