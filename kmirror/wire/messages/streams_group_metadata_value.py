"""StreamsGroupMetadataValue. Generated from StreamsGroupMetadataValue.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_nullable_array_length,
    read_compact_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i8 = struct.Struct(">iq").pack


class LastAssignmentConfig(Struct, gc=False):
    """Settings that the last assignment was made with."""

    key: str = ""  # Key of the setting.
    value: str = ""  # Value of the setting.
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


class StreamsGroupMetadataValue(Struct, gc=False):
    """Value of the record of a streams group."""

    API_KEY: ClassVar[int] = 17
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    epoch: int = 0  # Version of the group's membership and subscriptions.
    metadata_hash: int = 0  # Hash of the metadata of the subscribed topics.
    validated_topology_epoch: int = -1  # Version of the topology that was validated.
    last_assignment_configs: list[LastAssignmentConfig] | None = field(default_factory=list)  # Settings that the last assignment was made with.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            epoch, metadata_hash = _read_i4_i8(buffer, position)
            position += 12
            validated_topology_epoch: int = -1
            last_assignment_configs: list[LastAssignmentConfig] | None = []
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        (validated_topology_epoch,) = _read_i4(buffer, position)
                        position += 4
                    elif tag == 1:
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            last_assignment_configs = None
                        else:
                            last_assignment_configs = []
                            for _ in range(count):
                                last_assignment_configs_element, position = LastAssignmentConfig.read(buffer, position, version)
                                last_assignment_configs.append(last_assignment_configs_element)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(epoch, metadata_hash, validated_topology_epoch, last_assignment_configs, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("StreamsGroupMetadataValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.epoch, self.metadata_hash))
        tagged = list(self.unknown_tagged_fields)
        if self.validated_topology_epoch != -1:
            tagged.append((0, _write_i4(self.validated_topology_epoch)))
        if self.last_assignment_configs is None or self.last_assignment_configs != []:
            last_assignment_configs_out = Writer()
            if self.last_assignment_configs is None:
                last_assignment_configs_out.append(b"\0")
            else:
                last_assignment_configs_out.write_compact_array_length(len(self.last_assignment_configs))
                for last_assignment_configs_element in self.last_assignment_configs:
                    last_assignment_configs_element.write(last_assignment_configs_out, version)
            tagged.append((1, last_assignment_configs_out.to_bytes()))
        out.write_tagged_fields(tagged)
