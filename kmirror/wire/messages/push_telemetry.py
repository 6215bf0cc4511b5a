"""PushTelemetryRequest and PushTelemetryResponse. Generated from PushTelemetryRequest.json and PushTelemetryResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_compact_bytes,
    read_tagged_fields,
)

_read_i4_i2 = struct.Struct(">ih").unpack_from
_read_uuid_i4_bool_i1 = struct.Struct(">16si?b").unpack_from
_write_i4_i2 = struct.Struct(">ih").pack
_write_uuid_i4_bool_i1 = struct.Struct(">16si?b").pack


class PushTelemetryRequest(Struct, gc=False):
    """Asks to send client metrics."""

    API_KEY: ClassVar[int] = 72
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    client_instance_id: Uuid = Uuid.ZERO  # Id of the client for telemetry, zero to ask for one.
    subscription_id: int = 0  # Version of the metrics subscription.
    terminating: bool = False  # True if this is the client's last push.
    compression_type: int = 0  # Codec of the metrics: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    metrics: bytes = b""  # Metrics in OpenTelemetry's protobuf form, perhaps compressed.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            client_instance_id_bytes, subscription_id, terminating, compression_type = _read_uuid_i4_bool_i1(buffer, position)
            position += 22
            client_instance_id = Uuid(client_instance_id_bytes)
            metrics, position = read_compact_bytes(buffer, position)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(client_instance_id, subscription_id, terminating, compression_type, metrics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("PushTelemetryRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid_i4_bool_i1(self.client_instance_id.raw, self.subscription_id, self.terminating, self.compression_type))
        out.write_compact_bytes(self.metrics)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class PushTelemetryResponse(Struct, gc=False):
    """Answers a request to send client metrics."""

    API_KEY: ClassVar[int] = 72
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("PushTelemetryResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
