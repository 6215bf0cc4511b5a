"""BrokerRegistrationChangeRecord. Generated from BrokerRegistrationChangeRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    ProtocolReadError,
    TaggedFields,
    Writer,
    malformed,
    read_compact_array_length,
    read_compact_nullable_array_length,
    read_unknown_tagged_field,
    read_unsigned_varint,
    read_uuids,
    unsupported_field,
)

_read_i1 = struct.Struct(">b").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_write_i1 = struct.Struct(">b").pack
_write_i4_i8 = struct.Struct(">iq").pack


class BrokerRegistrationChangeRecord(Struct, gc=False):
    """Changes parts of a broker's registration."""

    API_KEY: ClassVar[int] = 17
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0  # Number of the broker.
    broker_epoch: int = 0  # Epoch that the controller gave the broker when it registered.
    fenced: int = 0  # True if the broker may not lead or serve.
    in_controlled_shutdown: int = 0  # True if the broker is shutting down in an orderly way. [1+]
    log_dirs: list[Uuid] = field(default_factory=list)  # Log directories, by id or path as the type says. [2+]
    cordoned_log_dirs: list[Uuid] | None = None  # Directories that take no new partitions. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            broker_id, broker_epoch = _read_i4_i8(buffer, position)
            position += 12
            fenced: int = 0
            in_controlled_shutdown: int = 0
            log_dirs: list[Uuid] = []
            cordoned_log_dirs: list[Uuid] | None = None
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        (fenced,) = _read_i1(buffer, position)
                        position += 1
                    elif tag == 1:
                        if version < 1:
                            raise ProtocolReadError(f"tag 1 is not valid for BrokerRegistrationChangeRecord version {version}")
                        (in_controlled_shutdown,) = _read_i1(buffer, position)
                        position += 1
                    elif tag == 2:
                        if version < 2:
                            raise ProtocolReadError(f"tag 2 is not valid for BrokerRegistrationChangeRecord version {version}")
                        count, position = read_compact_array_length(buffer, position)
                        log_dirs, position = read_uuids(buffer, position, count)
                    elif tag == 3:
                        if version < 3:
                            raise ProtocolReadError(f"tag 3 is not valid for BrokerRegistrationChangeRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            cordoned_log_dirs = None
                        else:
                            cordoned_log_dirs, position = read_uuids(buffer, position, count)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(broker_id, broker_epoch, fenced, in_controlled_shutdown, log_dirs, cordoned_log_dirs, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("BrokerRegistrationChangeRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.in_controlled_shutdown:
                raise unsupported_field("BrokerRegistrationChangeRecord", "in_controlled_shutdown", version)
        if version < 2:
            if self.log_dirs:
                raise unsupported_field("BrokerRegistrationChangeRecord", "log_dirs", version)
        if version < 3:
            if self.cordoned_log_dirs is not None:
                raise unsupported_field("BrokerRegistrationChangeRecord", "cordoned_log_dirs", version)
        append = out.append
        append(_write_i4_i8(self.broker_id, self.broker_epoch))
        tagged = list(self.unknown_tagged_fields)
        if self.fenced:
            tagged.append((0, _write_i1(self.fenced)))
        if version >= 1 and (self.in_controlled_shutdown):
            tagged.append((1, _write_i1(self.in_controlled_shutdown)))
        if version >= 2 and (self.log_dirs):
            log_dirs_out = Writer()
            log_dirs_out.write_compact_array_length(len(self.log_dirs))
            log_dirs_out.write_uuids(self.log_dirs)
            tagged.append((2, log_dirs_out.to_bytes()))
        if version == 3 and (self.cordoned_log_dirs is not None):
            cordoned_log_dirs_out = Writer()
            if self.cordoned_log_dirs is None:
                cordoned_log_dirs_out.append(b"\0")
            else:
                cordoned_log_dirs_out.write_compact_array_length(len(self.cordoned_log_dirs))
                cordoned_log_dirs_out.write_uuids(self.cordoned_log_dirs)
            tagged.append((3, cordoned_log_dirs_out.to_bytes()))
        out.write_tagged_fields(tagged)
