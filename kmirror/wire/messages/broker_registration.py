"""BrokerRegistrationRequest and BrokerRegistrationResponse. Generated from BrokerRegistrationRequest.json and BrokerRegistrationResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_uuids,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i2_i2 = struct.Struct(">hh").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i8 = struct.Struct(">ihq").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_u2_i2 = struct.Struct(">Hh").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2_i2 = struct.Struct(">hh").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i8 = struct.Struct(">ihq").pack
_write_i8 = struct.Struct(">q").pack
_write_u2_i2 = struct.Struct(">Hh").pack
_write_uuid = struct.Struct(">16s").pack


class Listener(Struct, gc=False):
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


class Feature(Struct, gc=False):
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


class BrokerRegistrationRequest(Struct, gc=False):
    """Asks to register a broker."""

    API_KEY: ClassVar[int] = 62
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0  # Number of the broker.
    cluster_id: str = ""  # Id of the cluster.
    incarnation_id: Uuid = Uuid.ZERO  # Random id of this run of the process.
    listeners: list[Listener] = field(default_factory=list)  # Listeners of the node.
    features: list[Feature] = field(default_factory=list)  # Features with their levels.
    rack: str | None = ""  # Rack of the node; null if it has none.
    is_migrating_zk_broker: bool = False  # True if the broker still runs with ZooKeeper during a migration. [1+]
    log_dirs: list[Uuid] = field(default_factory=list)  # Log directories, by id or path as the type says. [2+]
    previous_broker_epoch: int = -1  # Epoch that the broker had before its clean shutdown, -1 if unknown. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (broker_id,) = _read_i4(buffer, position)
            position += 4
            cluster_id, position = read_compact_string(buffer, position)
            (incarnation_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            incarnation_id = Uuid(incarnation_id_bytes)
            listeners: list[Listener]
            count, position = read_compact_array_length(buffer, position)
            listeners = []
            for _ in range(count):
                listeners_element, position = Listener.read(buffer, position, version)
                listeners.append(listeners_element)
            features: list[Feature]
            count, position = read_compact_array_length(buffer, position)
            features = []
            for _ in range(count):
                features_element, position = Feature.read(buffer, position, version)
                features.append(features_element)
            rack: str | None
            rack, position = read_compact_nullable_string(buffer, position)
            if version >= 1:
                (is_migrating_zk_broker,) = _read_bool(buffer, position)
                position += 1
            else:
                is_migrating_zk_broker = False
            log_dirs: list[Uuid]
            if version >= 2:
                count, position = read_compact_array_length(buffer, position)
                log_dirs, position = read_uuids(buffer, position, count)
            else:
                log_dirs = []
            if version >= 3:
                (previous_broker_epoch,) = _read_i8(buffer, position)
                position += 8
            else:
                previous_broker_epoch = -1
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(broker_id, cluster_id, incarnation_id, listeners, features, rack, is_migrating_zk_broker, log_dirs, previous_broker_epoch, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("BrokerRegistrationRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.is_migrating_zk_broker:
                raise unsupported_field("BrokerRegistrationRequest", "is_migrating_zk_broker", version)
        append = out.append
        append(_write_i4(self.broker_id))
        out.write_compact_string(self.cluster_id)
        append(_write_uuid(self.incarnation_id.raw))
        out.write_compact_array_length(len(self.listeners))
        for listeners_element in self.listeners:
            listeners_element.write(out, version)
        out.write_compact_array_length(len(self.features))
        for features_element in self.features:
            features_element.write(out, version)
        out.write_compact_nullable_string(self.rack)
        if version >= 1:
            append(_write_bool(self.is_migrating_zk_broker))
        if version >= 2:
            out.write_compact_array_length(len(self.log_dirs))
            out.write_uuids(self.log_dirs)
        if version >= 3:
            append(_write_i8(self.previous_broker_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class BrokerRegistrationResponse(Struct, gc=False):
    """Answers a request to register a broker."""

    API_KEY: ClassVar[int] = 62
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    broker_epoch: int = -1  # Epoch that the controller gave the broker when it registered.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code, broker_epoch = _read_i4_i2_i8(buffer, position)
            position += 14
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, broker_epoch, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("BrokerRegistrationResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2_i8(self.throttle_time_ms, self.error_code, self.broker_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
