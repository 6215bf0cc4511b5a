"""UpdateFeaturesRequest and UpdateFeaturesResponse. Generated from UpdateFeaturesRequest.json and UpdateFeaturesResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

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
_read_i2 = struct.Struct(">h").unpack_from
_read_i2_bool = struct.Struct(">h?").unpack_from
_read_i2_i1 = struct.Struct(">hb").unpack_from
_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2 = struct.Struct(">ih").unpack_from
_write_bool = struct.Struct(">?").pack
_write_i2 = struct.Struct(">h").pack
_write_i2_bool = struct.Struct(">h?").pack
_write_i2_i1 = struct.Struct(">hb").pack
_write_i4 = struct.Struct(">i").pack
_write_i4_i2 = struct.Struct(">ih").pack


class FeatureUpdateKey(Struct, gc=False):
    """Features to change."""

    feature: str = ""  # Name of the feature.
    max_version_level: int = 0  # Highest level in force or asked for.
    allow_downgrade: bool = False  # True if the level may go down; replaced by UpgradeType. [0]
    upgrade_type: int = 1  # 1 upgrade, 2 safe downgrade, 3 downgrade that may lose metadata. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        feature, position = read_compact_string(buffer, position)
        if version >= 1:
            max_version_level, upgrade_type = _read_i2_i1(buffer, position)
            position += 3
            allow_downgrade = False
        else:
            max_version_level, allow_downgrade = _read_i2_bool(buffer, position)
            position += 3
            upgrade_type = 1
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(feature, max_version_level, allow_downgrade, upgrade_type, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if version > 0:
            if self.allow_downgrade:
                raise unsupported_field("UpdateFeaturesRequest", "allow_downgrade", version)
        if version < 1:
            if self.upgrade_type != 1:
                raise unsupported_field("UpdateFeaturesRequest", "upgrade_type", version)
        append = out.append
        out.write_compact_string(self.feature)
        if version >= 1:
            append(_write_i2_i1(self.max_version_level, self.upgrade_type))
        else:
            append(_write_i2_bool(self.max_version_level, self.allow_downgrade))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class UpdateFeaturesRequest(Struct, gc=False):
    """Asks to change finalized feature levels."""

    API_KEY: ClassVar[int] = 57
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    timeout_ms: int = 60000  # How long to wait for the work to be done.
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)  # Features to change.
    validate_only: bool = False  # True to check everything and change nothing. [1+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (timeout_ms,) = _read_i4(buffer, position)
            position += 4
            feature_updates: list[FeatureUpdateKey]
            count, position = read_compact_array_length(buffer, position)
            feature_updates = []
            for _ in range(count):
                feature_updates_element, position = FeatureUpdateKey.read(buffer, position, version)
                feature_updates.append(feature_updates_element)
            if version >= 1:
                (validate_only,) = _read_bool(buffer, position)
                position += 1
            else:
                validate_only = False
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(timeout_ms, feature_updates, validate_only, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("UpdateFeaturesRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version < 1:
            if self.validate_only:
                raise unsupported_field("UpdateFeaturesRequest", "validate_only", version)
        append = out.append
        append(_write_i4(self.timeout_ms))
        out.write_compact_array_length(len(self.feature_updates))
        for feature_updates_element in self.feature_updates:
            feature_updates_element.write(out, version)
        if version >= 1:
            append(_write_bool(self.validate_only))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class UpdatableFeatureResult(Struct, gc=False):
    """One result for each thing asked."""

    feature: str = ""  # Name of the feature.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        feature, position = read_compact_string(buffer, position)
        (error_code,) = _read_i2(buffer, position)
        position += 2
        error_message: str | None
        error_message, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(feature, error_code, error_message, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_compact_string(self.feature)
        append(_write_i2(self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class UpdateFeaturesResponse(Struct, gc=False):
    """Answers a request to change finalized feature levels."""

    API_KEY: ClassVar[int] = 57
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int | None] = 0

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success.
    error_message: str | None = ""  # Result in words, null on success.
    results: list[UpdatableFeatureResult] = field(default_factory=list)  # One result for each thing asked. [0-1]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            throttle_time_ms, error_code = _read_i4_i2(buffer, position)
            position += 6
            error_message: str | None
            error_message, position = read_compact_nullable_string(buffer, position)
            results: list[UpdatableFeatureResult]
            if version <= 1:
                count, position = read_compact_array_length(buffer, position)
                results = []
                for _ in range(count):
                    results_element, position = UpdatableFeatureResult.read(buffer, position, version)
                    results.append(results_element)
            else:
                results = []
            unknown_tagged_fields: TaggedFields = ()
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
            return cls(throttle_time_ms, error_code, error_message, results, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("UpdateFeaturesResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i2(self.throttle_time_ms, self.error_code))
        out.write_compact_nullable_string(self.error_message)
        if version <= 1:
            out.write_compact_array_length(len(self.results))
            for results_element in self.results:
                results_element.write(out, version)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")
