"""GetTelemetrySubscriptionsRequest and GetTelemetrySubscriptionsResponse. Generated from GetTelemetrySubscriptionsRequest.json and GetTelemetrySubscriptionsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_compact_strings,
    read_int8s,
    read_tagged_fields,
)

_read_i4_i2_uuid_i4 = struct.Struct(">ih16si").unpack_from
_read_i4_i4_bool = struct.Struct(">ii?").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4_i2_uuid_i4 = struct.Struct(">ih16si").pack
_write_i4_i4_bool = struct.Struct(">ii?").pack
_write_uuid = struct.Struct(">16s").pack


class GetTelemetrySubscriptionsRequest(Struct, gc=False):
    """Asks to ask which client metrics are wanted."""

    API_KEY: ClassVar[int] = 71
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    client_instance_id: Uuid = Uuid.ZERO  # Id of the client for telemetry, zero to ask for one.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (client_instance_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            client_instance_id = Uuid(client_instance_id_bytes)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(client_instance_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("GetTelemetrySubscriptionsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_uuid(self.client_instance_id.raw))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class GetTelemetrySubscriptionsResponse(Struct, gc=False):
    """Answers a request to ask which client metrics are wanted."""

    API_KEY: ClassVar[int] = 71
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    client_instance_id: Uuid = Uuid.ZERO  # Id of the client for telemetry, zero to ask for one.
    subscription_id: int = 0  # Version of the metrics subscription.
    accepted_compression_types: list[int] = field(default_factory=list)  # Codecs that the broker can read, best first.
    push_interval_ms: int = 0  # How often to push metrics.
    telemetry_max_bytes: int = 0  # Largest push that the broker accepts.
    delta_temporality: bool = False  # True if the metrics are to be increments, false if totals.
    requested_metrics: list[str] = field(default_factory=list)  # Prefixes of the metrics that are wanted; empty for none, one empty string for all.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code, client_instance_id_bytes, subscription_id = _read_i4_i2_uuid_i4(buffer, position)
            position += 26
            client_instance_id = Uuid(client_instance_id_bytes)
            accepted_compression_types: list[int]
            count, position = read_compact_array_length(buffer, position)
            accepted_compression_types, position = read_int8s(buffer, position, count)
            push_interval_ms, telemetry_max_bytes, delta_temporality = _read_i4_i4_bool(buffer, position)
            position += 9
            requested_metrics: list[str]
            count, position = read_compact_array_length(buffer, position)
            requested_metrics, position = read_compact_strings(buffer, position, count)
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, client_instance_id, subscription_id, accepted_compression_types, push_interval_ms, telemetry_max_bytes, delta_temporality, requested_metrics, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("GetTelemetrySubscriptionsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2_uuid_i4(self.throttle_time_ms, self.error_code, self.client_instance_id.raw, self.subscription_id))
        out.write_compact_array_length(len(self.accepted_compression_types))
        out.write_int8s(self.accepted_compression_types)
        append(_write_i4_i4_bool(self.push_interval_ms, self.telemetry_max_bytes, self.delta_temporality))
        out.write_compact_array_length(len(self.requested_metrics))
        out.write_compact_strings(self.requested_metrics)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
