"""RegisterBrokerRecord. Generated from RegisterBrokerRecord.json in protocol/records by tools/generate_messages.py; do not edit."""

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
    read_compact_nullable_string,
    read_compact_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    read_uuids,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_bool_bool = struct.Struct(">??").unpack_from
_read_i2_i2 = struct.Struct(">hh").unpack_from
_read_i4_bool_uuid_i8 = struct.Struct(">i?16sq").unpack_from
_read_i4_uuid_i8 = struct.Struct(">i16sq").unpack_from
_read_u2_i2 = struct.Struct(">Hh").unpack_from
_write_bool = struct.Struct(">?").pack
_write_bool_bool = struct.Struct(">??").pack
_write_i2_i2 = struct.Struct(">hh").pack
_write_i4_bool_uuid_i8 = struct.Struct(">i?16sq").pack
_write_i4_uuid_i8 = struct.Struct(">i16sq").pack
_write_u2_i2 = struct.Struct(">Hh").pack


class BrokerEndpoint(Struct, gc=False):
    """Listeners of the node."""

    name: str = ""  # Name of the listener.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    security_protocol: int = 0  # Protocol of the listener, as a number.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        host, position = read_compact_string(buffer, position)
        port, security_protocol = _read_u2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, host, port, security_protocol, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        out.write_compact_string(self.host)
        append(_write_u2_i2(self.port, self.security_protocol))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class BrokerFeature(Struct, gc=False):
    """Features with their levels."""

    name: str = ""  # Name of the feature.
    min_supported_version: int = 0  # Lowest level supported.
    max_supported_version: int = 0  # Highest level supported.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        min_supported_version, max_supported_version = _read_i2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, min_supported_version, max_supported_version, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i2_i2(self.min_supported_version, self.max_supported_version))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class RegisterBrokerRecord(Struct, gc=False):
    """A broker registered."""

    API_KEY: ClassVar[int] = 0
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0  # Number of the broker.
    is_migrating_zk_broker: bool = False  # True if the broker still runs with ZooKeeper during a migration. [2+]
    incarnation_id: Uuid = Uuid.ZERO  # Random id of this run of the process.
    broker_epoch: int = 0  # Epoch that the controller gave the broker when it registered.
    end_points: list[BrokerEndpoint] = field(default_factory=list)  # Listeners of the node.
    features: list[BrokerFeature] = field(default_factory=list)  # Features with their levels.
    rack: str | None = ""  # Rack of the node; null if it has none.
    fenced: bool = True  # True if the broker may not lead or serve.
    in_controlled_shutdown: bool = False  # True if the broker is shutting down in an orderly way. [1+]
    log_dirs: list[Uuid] = field(default_factory=list)  # Log directories, by id or path as the type says. [3+]
    cordoned_log_dirs: list[Uuid] | None = None  # Directories that take no new partitions. [4+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                broker_id, is_migrating_zk_broker, incarnation_id_bytes, broker_epoch = _read_i4_bool_uuid_i8(buffer, position)
                position += 29
                incarnation_id = Uuid(incarnation_id_bytes)
            else:
                broker_id, incarnation_id_bytes, broker_epoch = _read_i4_uuid_i8(buffer, position)
                position += 28
                incarnation_id = Uuid(incarnation_id_bytes)
                is_migrating_zk_broker = False
            end_points: list[BrokerEndpoint]
            count, position = read_compact_array_length(buffer, position)
            end_points = []
            for _ in range(count):
                end_points_element, position = BrokerEndpoint.read(buffer, position, version)
                end_points.append(end_points_element)
            features: list[BrokerFeature]
            count, position = read_compact_array_length(buffer, position)
            features = []
            for _ in range(count):
                features_element, position = BrokerFeature.read(buffer, position, version)
                features.append(features_element)
            rack: str | None
            rack, position = read_compact_nullable_string(buffer, position)
            if version >= 1:
                fenced, in_controlled_shutdown = _read_bool_bool(buffer, position)
                position += 2
            else:
                (fenced,) = _read_bool(buffer, position)
                position += 1
                in_controlled_shutdown = False
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
                        if version < 3:
                            raise ProtocolReadError(f"tag 0 is not valid for RegisterBrokerRecord version {version}")
                        count, position = read_compact_array_length(buffer, position)
                        log_dirs, position = read_uuids(buffer, position, count)
                    elif tag == 1:
                        if version < 4:
                            raise ProtocolReadError(f"tag 1 is not valid for RegisterBrokerRecord version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            cordoned_log_dirs = None
                        else:
                            cordoned_log_dirs, position = read_uuids(buffer, position, count)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(broker_id, is_migrating_zk_broker, incarnation_id, broker_epoch, end_points, features, rack, fenced, in_controlled_shutdown, log_dirs, cordoned_log_dirs, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("RegisterBrokerRecord", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 2:
            if self.is_migrating_zk_broker:
                raise unsupported_field("RegisterBrokerRecord", "is_migrating_zk_broker", version)
        if version < 1:
            if self.in_controlled_shutdown:
                raise unsupported_field("RegisterBrokerRecord", "in_controlled_shutdown", version)
        if version < 3:
            if self.log_dirs:
                raise unsupported_field("RegisterBrokerRecord", "log_dirs", version)
        if version < 4:
            if self.cordoned_log_dirs is not None:
                raise unsupported_field("RegisterBrokerRecord", "cordoned_log_dirs", version)
        append = out.append
        if version >= 2:
            append(_write_i4_bool_uuid_i8(self.broker_id, self.is_migrating_zk_broker, self.incarnation_id.raw, self.broker_epoch))
        else:
            append(_write_i4_uuid_i8(self.broker_id, self.incarnation_id.raw, self.broker_epoch))
        out.write_compact_array_length(len(self.end_points))
        for end_points_element in self.end_points:
            end_points_element.write(out, version)
        out.write_compact_array_length(len(self.features))
        for features_element in self.features:
            features_element.write(out, version)
        out.write_compact_nullable_string(self.rack)
        if version >= 1:
            append(_write_bool_bool(self.fenced, self.in_controlled_shutdown))
        else:
            append(_write_bool(self.fenced))
        tagged = list(self.unknown_tagged_fields)
        if version >= 3 and (self.log_dirs):
            log_dirs_out = Writer()
            log_dirs_out.write_compact_array_length(len(self.log_dirs))
            log_dirs_out.write_uuids(self.log_dirs)
            tagged.append((0, log_dirs_out.to_bytes()))
        if version == 4 and (self.cordoned_log_dirs is not None):
            cordoned_log_dirs_out = Writer()
            if self.cordoned_log_dirs is None:
                cordoned_log_dirs_out.append(b"\0")
            else:
                cordoned_log_dirs_out.write_compact_array_length(len(self.cordoned_log_dirs))
                cordoned_log_dirs_out.write_uuids(self.cordoned_log_dirs)
            tagged.append((1, cordoned_log_dirs_out.to_bytes()))
        out.write_tagged_fields(tagged)
