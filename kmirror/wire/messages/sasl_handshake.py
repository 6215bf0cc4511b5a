"""SaslHandshakeRequest and SaslHandshakeResponse. Generated from SaslHandshakeRequest.json and SaslHandshakeResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_array_length,
    read_string,
    read_strings,
)

_read_i2 = struct.Struct(">h").unpack_from
_write_i2 = struct.Struct(">h").pack


class SaslHandshakeRequest(Struct, gc=False):
    """Asks to choose a SASL mechanism."""

    API_KEY: ClassVar[int] = 17
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = None

    mechanism: str = ""  # Name or number of the mechanism.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            mechanism, position = read_string(buffer, position)
            return cls(mechanism), position
        except READ_ERRORS as error:
            raise malformed("SaslHandshakeRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.mechanism)


class SaslHandshakeResponse(Struct, gc=False):
    """Answers a request to choose a SASL mechanism."""

    API_KEY: ClassVar[int] = 17
    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int | None] = None

    error_code: int = 0  # Result as a code, 0 on success.
    mechanisms: list[str] = field(default_factory=list)  # SASL mechanisms that the broker offers.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            (error_code,) = _read_i2(buffer, position)
            position += 2
            mechanisms: list[str]
            count, position = read_array_length(buffer, position)
            mechanisms, position = read_strings(buffer, position, count)
            return cls(error_code, mechanisms), position
        except READ_ERRORS as error:
            raise malformed("SaslHandshakeResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i2(self.error_code))
        out.write_array_length(len(self.mechanisms))
        out.write_strings(self.mechanisms)
