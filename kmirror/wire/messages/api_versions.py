"""ApiVersionsRequest and ApiVersionsResponse. Generated from ApiVersionsRequest.json and ApiVersionsResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    TaggedFields,
    Writer,
    malformed,
    read_array_length,
    read_compact_array_length,
    read_compact_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_bool = struct.Struct(">?").unpack_from
_read_i2 = struct.Struct(">h").unpack_from
_read_i2_i2 = struct.Struct(">hh").unpack_from
_read_i2_i2_i2 = struct.Struct(">hhh").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2 = struct.Struct(">h").pack
_write_i2_i2 = struct.Struct(">hh").pack
_write_i2_i2_i2 = struct.Struct(">hhh").pack
_write_i4 = struct.Struct(">i").pack
_write_i8 = struct.Struct(">q").pack


class ApiVersionsRequest(Struct, gc=False):
    """Asks to ask which APIs and versions are served."""

    API_KEY: ClassVar[int] = 18
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    client_software_name: str = ""  # Name of the client library. [3+]
    client_software_version: str = ""  # Version of the client library. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            client_software_name: str
            if version >= 3:
                client_software_name, position = read_compact_string(buffer, position)
            else:
                client_software_name = ""
            client_software_version: str
            if version >= 3:
                client_software_version, position = read_compact_string(buffer, position)
            else:
                client_software_version = ""
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(client_software_name, client_software_version, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ApiVersionsRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("ApiVersionsRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 3:
            out.write_compact_string(self.client_software_name)
        if version >= 3:
            out.write_compact_string(self.client_software_version)
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ApiVersion(Struct, gc=False):
    """APIs that are served here, with their versions."""

    api_key: int = 0  # Number of an API.
    min_version: int = 0  # Lowest version supported.
    max_version: int = 0  # Highest version supported.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        api_key, min_version, max_version = _read_i2_i2_i2(buffer, position)
        position += 6
        unknown_tagged_fields: TaggedFields = ()
        if version >= 3:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(api_key, min_version, max_version, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("ApiVersionsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2_i2_i2(self.api_key, self.min_version, self.max_version))
        if version >= 3:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class SupportedFeatureKey(Struct, gc=False):
    """Features that this node supports."""

    name: str = ""  # Name of the feature.
    min_version: int = 0  # Lowest version supported.
    max_version: int = 0  # Highest version supported.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        min_version, max_version = _read_i2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, min_version, max_version, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i2_i2(self.min_version, self.max_version))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FinalizedFeatureKey(Struct, gc=False):
    """Features that are in force in the whole cluster."""

    name: str = ""  # Name of the feature.
    max_version_level: int = 0  # Highest level in force or asked for.
    min_version_level: int = 0  # Lowest level in force.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        name, position = read_compact_string(buffer, position)
        max_version_level, min_version_level = _read_i2_i2(buffer, position)
        position += 4
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(name, max_version_level, min_version_level, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.name)
        append(_write_i2_i2(self.max_version_level, self.min_version_level))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class ApiVersionsResponse(Struct, gc=False):
    """Answers a request to ask which APIs and versions are served."""

    API_KEY: ClassVar[int] = 18
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int | None] = 3

    error_code: int = 0  # Result as a code, 0 on success.
    api_keys: list[ApiVersion] = field(default_factory=list)  # APIs that are served here, with their versions.
    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all. [1+]
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)  # Features that this node supports. [3+]
    finalized_features_epoch: int = -1  # Version of the finalized features, -1 if unknown. [3+]
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)  # Features that are in force in the whole cluster. [3+]
    zk_migration_ready: bool = False  # True if the node is ready to migrate from ZooKeeper. [3+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            api_keys: list[ApiVersion]
            if version >= 3:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            api_keys = []
            for _ in range(count):
                api_keys_element, position = ApiVersion.read(buffer, position, version)
                api_keys.append(api_keys_element)
            if version >= 1:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
            else:
                throttle_time_ms = 0
            supported_features: list[SupportedFeatureKey] = []
            finalized_features_epoch: int = -1
            finalized_features: list[FinalizedFeatureKey] = []
            zk_migration_ready: bool = False
            unknown_tagged_fields: TaggedFields = ()
            if version >= 3:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
                            count, position = read_compact_array_length(buffer, position)
                            supported_features = []
                            for _ in range(count):
                                supported_features_element, position = SupportedFeatureKey.read(buffer, position, version)
                                supported_features.append(supported_features_element)
                        elif tag == 1:
                            (finalized_features_epoch,) = _read_i8(buffer, position)
                            position += 8
                        elif tag == 2:
                            count, position = read_compact_array_length(buffer, position)
                            finalized_features = []
                            for _ in range(count):
                                finalized_features_element, position = FinalizedFeatureKey.read(buffer, position, version)
                                finalized_features.append(finalized_features_element)
                        elif tag == 3:
                            (zk_migration_ready,) = _read_bool(buffer, position)
                            position += 1
                        else:
                            value, position = read_unknown_tagged_field(buffer, position, size)
                            unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(error_code, api_keys, throttle_time_ms, supported_features, finalized_features_epoch, finalized_features, zk_migration_ready, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("ApiVersionsResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 3:
            raise unsupported_field("ApiVersionsResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i2(self.error_code))
        if version >= 3:
            out.write_compact_array_length(len(self.api_keys))
        else:
            out.write_array_length(len(self.api_keys))
        for api_keys_element in self.api_keys:
            api_keys_element.write(out, version)
        if version >= 1:
            append(_write_i4(self.throttle_time_ms))
        if version >= 3:
            tagged = list(self.unknown_tagged_fields)
            if self.supported_features:
                supported_features_out = Writer()
                supported_features_out.write_compact_array_length(len(self.supported_features))
                for supported_features_element in self.supported_features:
                    supported_features_element.write(supported_features_out, version)
                tagged.append((0, supported_features_out.to_bytes()))
            if self.finalized_features_epoch != -1:
                tagged.append((1, _write_i8(self.finalized_features_epoch)))
            if self.finalized_features:
                finalized_features_out = Writer()
                finalized_features_out.write_compact_array_length(len(self.finalized_features))
                for finalized_features_element in self.finalized_features:
                    finalized_features_element.write(finalized_features_out, version)
                tagged.append((2, finalized_features_out.to_bytes()))
            if self.zk_migration_ready:
                tagged.append((3, _write_bool(self.zk_migration_ready)))
            out.write_tagged_fields(tagged)
