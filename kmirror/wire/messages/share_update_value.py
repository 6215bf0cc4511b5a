"""ShareUpdateValue. Generated from ShareUpdateValue.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i4_i8 = struct.Struct(">iiq").unpack_from
_read_i8_i8_i1_i2 = struct.Struct(">qqbh").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i4_i8 = struct.Struct(">iiq").pack
_write_i8_i8_i1_i2 = struct.Struct(">qqbh").pack


class StateBatch(Struct, gc=False):
    """States of ranges of offsets."""

    first_offset: int = 0  # First offset of the transaction or range.
    last_offset: int = 0  # Last offset of the range.
    delivery_state: int = 0  # State of the records: 0 available, 2 acknowledged, 4 archived.
    delivery_count: int = 0  # How often the records were handed out.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        first_offset, last_offset, delivery_state, delivery_count = _read_i8_i8_i1_i2(buffer, position)
        position += 19
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(first_offset, last_offset, delivery_state, delivery_count, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i8_i1_i2(self.first_offset, self.last_offset, self.delivery_state, self.delivery_count))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ShareUpdateValue(Struct, gc=False):
    """Value of the record of a change to the state of a share partition."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    snapshot_epoch: int = 0  # Epoch of the last snapshot.
    leader_epoch: int = 0  # Epoch of the leader, -1 if unknown.
    start_offset: int = 0  # First offset that share consumers may still get, -1 if unset.
    delivery_complete_count: int = -1  # Records at or after the start offset that need no more delivery.
    state_batches: list[StateBatch] = field(default_factory=list)  # States of ranges of offsets.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            snapshot_epoch, leader_epoch, start_offset = _read_i4_i4_i8(buffer, position)
            position += 16
            state_batches: list[StateBatch]
            count, position = read_compact_array_length(buffer, position)
            state_batches = []
            for _ in range(count):
                state_batches_element, position = StateBatch.read(buffer, position, version)
                state_batches.append(state_batches_element)
            delivery_complete_count: int = -1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        (delivery_complete_count,) = _read_i4(buffer, position)
                        position += 4
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, state_batches, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ShareUpdateValue", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4_i8(self.snapshot_epoch, self.leader_epoch, self.start_offset))
        out.write_compact_array_length(len(self.state_batches))
        for state_batches_element in self.state_batches:
            state_batches_element.write(out, version)
        tagged = list(self.unknown_tagged_fields)
        if self.delivery_complete_count != -1:
            tagged.append((0, _write_i4(self.delivery_complete_count)))
        out.write_tagged_fields(tagged)
