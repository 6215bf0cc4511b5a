"""DescribeClusterRequest and DescribeClusterResponse. Generated from DescribeClusterRequest.json and DescribeClusterResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_bool_i1 = struct.Struct(">?b").unpack_from
_read_bool_i1_bool = struct.Struct(">?b?").unpack_from
_read_i1 = struct.Struct(">b").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_bool = struct.Struct(">?").pack
_write_bool_i1 = struct.Struct(">?b").pack
_write_bool_i1_bool = struct.Struct(">?b?").pack
_write_i1 = struct.Struct(">b").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class DescribeClusterRequest(Struct, gc=False):
    """Asks to describe the cluster's nodes."""

    API_KEY: ClassVar[int] = 60
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    include_cluster_authorized_operations: bool = False  # True if the answer is to say what the caller may do to the cluster.
    endpoint_type: int = 1  # Which nodes are meant: 1 brokers, 2 controllers. [1+]
    include_fenced_brokers: bool = False  # True if fenced brokers are to be listed too. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 2:
                include_cluster_authorized_operations, endpoint_type, include_fenced_brokers = _read_bool_i1_bool(buffer, position)
                position += 3
            elif version >= 1:
                include_cluster_authorized_operations, endpoint_type = _read_bool_i1(buffer, position)
                position += 2
                include_fenced_brokers = False
            else:
                (include_cluster_authorized_operations,) = _read_bool(buffer, position)
                position += 1
                endpoint_type = 1
                include_fenced_brokers = False
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(include_cluster_authorized_operations, endpoint_type, include_fenced_brokers, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeClusterRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.endpoint_type != 1:
                raise unsupported_field("DescribeClusterRequest", "endpoint_type", version)
        if version < 2:
            if self.include_fenced_brokers:
                raise unsupported_field("DescribeClusterRequest", "include_fenced_brokers", version)
        append = out.append
        if version >= 2:
            append(_write_bool_i1_bool(self.include_cluster_authorized_operations, self.endpoint_type, self.include_fenced_brokers))
        elif version >= 1:
            append(_write_bool_i1(self.include_cluster_authorized_operations, self.endpoint_type))
        else:
            append(_write_bool(self.include_cluster_authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeClusterBroker(Struct, gc=False):
    """Brokers of the cluster."""

    broker_id: int = 0  # Number of the broker.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    rack: str | None = None  # Rack of the node; null if it has none.
    is_fenced: bool = False  # True while the broker is fenced. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (broker_id,) = _read_i4(buffer, position)
        position += 4
        host, position = read_compact_string(buffer, position)
        (port,) = _read_i4(buffer, position)
        position += 4
        rack: str | None
        rack, position = read_compact_nullable_string(buffer, position)
        if version >= 2:
            (is_fenced,) = _read_bool(buffer, position)
            position += 1
        else:
            is_fenced = False
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(broker_id, host, port, rack, is_fenced, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.broker_id))
        out.write_compact_string(self.host)
        append(_write_i4(self.port))
        out.write_compact_nullable_string(self.rack)
        if version >= 2:
            append(_write_bool(self.is_fenced))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class DescribeClusterResponse(Struct, gc=False):
    """Answers a request to describe the cluster's nodes."""

    API_KEY: ClassVar[int] = 60
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = None  # Result in words, null on success.
    endpoint_type: int = 1  # Which nodes are meant: 1 brokers, 2 controllers. [1+]
    cluster_id: str = ""  # Id of the cluster.
    controller_id: int = -1  # Number of the active controller, -1 if unknown.
    brokers: list[DescribeClusterBroker] = field(default_factory=list)  # Brokers of the cluster.
    cluster_authorized_operations: int = -2147483648  # Bit set of what the caller may do to the cluster; the lowest int32 if not asked for.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            if version >= 1:
                (endpoint_type,) = _read_i1(buffer, position)
                position += 1
            else:
                endpoint_type = 1
            cluster_id, position = read_compact_string(buffer, position)
            (controller_id,) = _read_i4(buffer, position)
            position += 4
            brokers: list[DescribeClusterBroker]
            count, position = read_compact_array_length(buffer, position)
            brokers = []
            for _ in range(count):
                brokers_element, position = DescribeClusterBroker.read(buffer, position, version)
                brokers.append(brokers_element)
            (cluster_authorized_operations,) = _read_i4(buffer, position)
            position += 4
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, endpoint_type, cluster_id, controller_id, brokers, cluster_authorized_operations, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("DescribeClusterResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if version >= 1:
            append(_write_i1(self.endpoint_type))
        out.write_compact_string(self.cluster_id)
        append(_write_i4(self.controller_id))
        out.write_compact_array_length(len(self.brokers))
        for brokers_element in self.brokers:
            brokers_element.write(out, version)
        append(_write_i4(self.cluster_authorized_operations))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
