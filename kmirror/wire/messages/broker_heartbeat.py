"""BrokerHeartbeatRequest and BrokerHeartbeatResponse. Generated from BrokerHeartbeatRequest.json and BrokerHeartbeatResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    read_uuids,
    unsupported_field,
)

_read_i4_i2_bool_bool_bool = struct.Struct(">ih???").unpack_from
_read_i4_i8_i8_bool_bool = struct.Struct(">iqq??").unpack_from
_write_i4_i2_bool_bool_bool = struct.Struct(">ih???").pack
_write_i4_i8_i8_bool_bool = struct.Struct(">iqq??").pack


class BrokerHeartbeatRequest(Struct, gc=False):
    """Asks to keep a broker's registration alive."""

    API_KEY: ClassVar[int] = 63
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    broker_id: int = 0  # Number of the broker.
    broker_epoch: int = -1  # Epoch that the controller gave the broker when it registered.
    current_metadata_offset: int = 0  # How far the broker has read the metadata log.
    want_fence: bool = False  # True if the broker wants to be fenced.
    want_shut_down: bool = False  # True if the broker wants to stop.
    offline_log_dirs: list[Uuid] = field(default_factory=list)  # Directories that failed. [1+]
    cordoned_log_dirs: list[Uuid] | None = None  # Directories that take no new partitions. [2+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down = _read_i4_i8_i8_bool_bool(buffer, position)
            position += 22
            offline_log_dirs: list[Uuid] = []
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
                        if version < 1:
                            raise ProtocolReadError(f"tag 0 is not valid for BrokerHeartbeatRequest version {version}")
                        count, position = read_compact_array_length(buffer, position)
                        offline_log_dirs, position = read_uuids(buffer, position, count)
                    elif tag == 1:
                        if version < 2:
                            raise ProtocolReadError(f"tag 1 is not valid for BrokerHeartbeatRequest version {version}")
                        count, position = read_compact_nullable_array_length(buffer, position)
                        if count < 0:
                            cordoned_log_dirs = None
                        else:
                            cordoned_log_dirs, position = read_uuids(buffer, position, count)
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(broker_id, broker_epoch, current_metadata_offset, want_fence, want_shut_down, offline_log_dirs, cordoned_log_dirs, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("BrokerHeartbeatRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.offline_log_dirs:
                raise unsupported_field("BrokerHeartbeatRequest", "offline_log_dirs", version)
        if version < 2:
            if self.cordoned_log_dirs is not None:
                raise unsupported_field("BrokerHeartbeatRequest", "cordoned_log_dirs", version)
        append = out.append
        append(_write_i4_i8_i8_bool_bool(self.broker_id, self.broker_epoch, self.current_metadata_offset, self.want_fence, self.want_shut_down))
        tagged = list(self.unknown_tagged_fields)
        if version >= 1 and (self.offline_log_dirs):
            offline_log_dirs_out = Writer()
            offline_log_dirs_out.write_compact_array_length(len(self.offline_log_dirs))
            offline_log_dirs_out.write_uuids(self.offline_log_dirs)
            tagged.append((0, offline_log_dirs_out.to_bytes()))
        if version == 2 and (self.cordoned_log_dirs is not None):
            cordoned_log_dirs_out = Writer()
            if self.cordoned_log_dirs is None:
                cordoned_log_dirs_out.append(b"\0")
            else:
                cordoned_log_dirs_out.write_compact_array_length(len(self.cordoned_log_dirs))
                cordoned_log_dirs_out.write_uuids(self.cordoned_log_dirs)
            tagged.append((1, cordoned_log_dirs_out.to_bytes()))
        out.write_tagged_fields(tagged)


class BrokerHeartbeatResponse(Struct, gc=False):
    """Answers a request to keep a broker's registration alive."""

    API_KEY: ClassVar[int] = 63
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    is_caught_up: bool = False  # True if the broker has read the metadata log far enough.
    is_fenced: bool = True  # True while the broker is fenced.
    should_shut_down: bool = False  # True if the broker may stop now.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down = _read_i4_i2_bool_bool_bool(buffer, position)
            position += 9
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, is_caught_up, is_fenced, should_shut_down, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("BrokerHeartbeatResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2_bool_bool_bool(self.throttle_time_ms, self.error_code, self.is_caught_up, self.is_fenced, self.should_shut_down))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
