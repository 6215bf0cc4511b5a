"""The wire's primitive types, as small functions that generated messages call.

Readers take (buffer, position) and give (value, new position). A length is checked against what is
left in the buffer before anything is allocated, so a frame cannot make us allocate memory for a
length that it only claims. The generated code reads fixed-size fields with `struct`; the top-level
message's `read` turns the errors of a short buffer (`READ_ERRORS`) into `ProtocolReadError`.

As in Kafka, UTF-8 is decoded leniently (bad sequences become U+FFFD), and unpaired surrogates are
written as '?', as in Java. `compact` forms (KIP-482, flexible versions) carry length + 1 as an
unsigned varint, with 0 for null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Buffer, FileSlice
from kmirror.common.uuid import Uuid

T = TypeVar("T")
Records = Buffer | FileSlice | list[FileSlice | Buffer]
TaggedFields = tuple[tuple[int, bytes], ...]

MAX_STRING_LENGTH = 0x7FFF
READ_ERRORS = (struct.error, IndexError)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_SMALL_VARINTS = tuple(bytes([value]) for value in range(128))


class ProtocolReadError(KmirrorError):
    """The bytes are not a message of the API and version that they claim to be."""


class ProtocolWriteError(KmirrorError):
    """A message holds a null or a value that the wire cannot carry."""


def malformed(message_name: str, version: int, error: Exception) -> ProtocolReadError:
    """Returns the error for a frame that ended early or does not unpack."""
    return ProtocolReadError(f"{message_name} version {version} is cut short or malformed: {error}")


def unsupported_field(message_name: str, field_name: str, version: int) -> ApiException:
    """Returns the error for a set field that `version` cannot carry and that must not be dropped
    silently."""
    return ApiException(Errors.UNSUPPORTED_VERSION, f"Attempted to write a non-default {field_name} at version {version} of {message_name}")


def not_null(value: T | None, field_name: str) -> T:
    """Returns `value`; raises ProtocolWriteError if it is None, because this version cannot leave
    it out."""
    if value is None:
        raise ProtocolWriteError(f"{field_name} must not be null in this version")
    return value


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 32 bits."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    shift = 7
    while True:
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise ProtocolReadError(f"varint at byte {position} is too long: more than 5 bytes")
    return value & 0xFFFFFFFF, position + 1


def _checked_end(buffer: Buffer, position: int, length: int) -> int:
    end = position + length
    if end > len(buffer):
        raise ProtocolReadError(f"field at byte {position} claims {length} bytes, but only {len(buffer) - position} are left")
    return end


def _null_error(position: int) -> ProtocolReadError:
    return ProtocolReadError(f"field at byte {position} is null, but must not be")


def read_string(buffer: Buffer, position: int) -> tuple[str, int]:
    length: int = _INT16.unpack_from(buffer, position)[0]
    if length < 0:
        raise _null_error(position)
    position += 2
    end = position + length
    if end > len(buffer):
        _checked_end(buffer, position, length)
    return str(buffer[position:end], "utf-8", "replace"), end


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    if _INT16.unpack_from(buffer, position)[0] < 0:
        return None, position + 2
    return read_string(buffer, position)


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    length = buffer[position]
    if length < 0x80:
        position += 1
    else:
        length, position = read_unsigned_varint(buffer, position)
    if length == 0:
        raise _null_error(position)
    if length > MAX_STRING_LENGTH + 1:
        raise ProtocolReadError(f"string at byte {position} had invalid length {length - 1}")
    end = position + length - 1
    if end > len(buffer):
        _checked_end(buffer, position, length - 1)
    return str(buffer[position:end], "utf-8", "replace"), end


def read_compact_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    if buffer[position] == 0:
        return None, position + 1
    return read_compact_string(buffer, position)


def read_nullable_bytes(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    records, position = read_nullable_records(buffer, position)
    return None if records is None else bytes(records), position


def read_bytes(buffer: Buffer, position: int) -> tuple[bytes, int]:
    value, end = read_nullable_bytes(buffer, position)
    if value is None:
        raise _null_error(position)
    return value, end


def read_compact_nullable_bytes(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
    records, position = read_compact_nullable_records(buffer, position)
    return None if records is None else bytes(records), position


def read_compact_bytes(buffer: Buffer, position: int) -> tuple[bytes, int]:
    value, end = read_compact_nullable_bytes(buffer, position)
    if value is None:
        raise _null_error(position)
    return value, end


def read_nullable_records(buffer: Buffer, position: int) -> tuple[Buffer | None, int]:
    """Returns record data as a slice of `buffer` (no copy if that is a memoryview)."""
    length = _INT32.unpack_from(buffer, position)[0]
    position += 4
    if length < 0:
        return None, position
    end = _checked_end(buffer, position, length)
    return buffer[position:end], end


def read_records(buffer: Buffer, position: int) -> tuple[Buffer, int]:
    value, end = read_nullable_records(buffer, position)
    if value is None:
        raise _null_error(position)
    return value, end


def read_compact_nullable_records(buffer: Buffer, position: int) -> tuple[Buffer | None, int]:
    length, position = read_unsigned_varint(buffer, position)
    if length == 0:
        return None, position
    end = _checked_end(buffer, position, length - 1)
    return buffer[position:end], end


def read_compact_records(buffer: Buffer, position: int) -> tuple[Buffer, int]:
    value, end = read_compact_nullable_records(buffer, position)
    if value is None:
        raise _null_error(position)
    return value, end


def read_nullable_array_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns the element count of an array, -1 for null; every element takes at least one byte."""
    count = _INT32.unpack_from(buffer, position)[0]
    position += 4
    if count > len(buffer) - position:
        raise ProtocolReadError(f"array at byte {position} claims {count} elements, but only {len(buffer) - position} bytes are left")
    return (count if count >= 0 else -1), position


def read_array_length(buffer: Buffer, position: int) -> tuple[int, int]:
    count, end = read_nullable_array_length(buffer, position)
    if count < 0:
        raise _null_error(position)
    return count, end


def read_compact_nullable_array_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns the element count of a compact array, -1 for null."""
    length = buffer[position]
    if length < 0x80:
        position += 1
    else:
        length, position = read_unsigned_varint(buffer, position)
    count = length - 1
    if count > len(buffer) - position:
        raise ProtocolReadError(f"array at byte {position} claims {count} elements, but only {len(buffer) - position} bytes are left")
    return count, position


def read_compact_array_length(buffer: Buffer, position: int) -> tuple[int, int]:
    count, end = read_compact_nullable_array_length(buffer, position)
    if count < 0:
        raise _null_error(position)
    return count, end


def read_strings(buffer: Buffer, position: int, count: int) -> tuple[list[str], int]:
    values = []
    for _ in range(count):
        value, position = read_string(buffer, position)
        values.append(value)
    return values, position


def read_compact_strings(buffer: Buffer, position: int, count: int) -> tuple[list[str], int]:
    values = []
    for _ in range(count):
        value, position = read_compact_string(buffer, position)
        values.append(value)
    return values, position


def read_uuids(buffer: Buffer, position: int, count: int) -> tuple[list[Uuid], int]:
    end = _checked_end(buffer, position, count * 16)
    return [Uuid(bytes(buffer[start : start + 16])) for start in range(position, end, 16)], end


_FEW = 16
_FEW_INT32S = [struct.Struct(f">{count}i") for count in range(_FEW)]


def _read_integers(code: str, width: int, buffer: Buffer, position: int, count: int) -> tuple[list[int], int]:
    end = _checked_end(buffer, position, count * width)
    return list(struct.unpack_from(f">{count}{code}", buffer, position)), end


def read_int8s(buffer: Buffer, position: int, count: int) -> tuple[list[int], int]:
    return _read_integers("b", 1, buffer, position, count)


def read_int16s(buffer: Buffer, position: int, count: int) -> tuple[list[int], int]:
    return _read_integers("h", 2, buffer, position, count)


def read_int32s(buffer: Buffer, position: int, count: int) -> tuple[list[int], int]:
    end = position + 4 * count
    if 0 <= count < _FEW and end <= len(buffer):
        return list(_FEW_INT32S[count].unpack_from(buffer, position)), end
    return _read_integers("i", 4, buffer, position, count)


def read_int64s(buffer: Buffer, position: int, count: int) -> tuple[list[int], int]:
    return _read_integers("q", 8, buffer, position, count)


def read_unknown_tagged_field(buffer: Buffer, position: int, size: int) -> tuple[bytes, int]:
    """Returns the raw bytes of a tagged field that this schema does not know."""
    end = _checked_end(buffer, position, size)
    return bytes(buffer[position:end]), end


def read_tagged_fields(buffer: Buffer, position: int) -> tuple[TaggedFields, int]:
    """Reads the tag section of a struct that defines no tags of its own."""
    count, position = read_unsigned_varint(buffer, position)
    fields = []
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        value, position = read_unknown_tagged_field(buffer, position, size)
        fields.append((tag, value))
    return tuple(fields), position


def encode_unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL_VARINTS[value]
    if 0x4000 <= value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _size_of(records: Records) -> int:
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, list):
        return sum(_size_of(part) for part in records)
    return records.size


class Writer:
    """Collects the parts of a message; record data joins by reference and is never copied.

    `append` takes small encoded pieces. `parts()` returns what to send, in order, with the small
    pieces joined.
    """

    __slots__ = ("_closed_parts", "_pieces", "append")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._closed_parts: list[Buffer | FileSlice] = []
        self.append = self._pieces.append

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return sum(map(len, self._pieces)) + sum(map(_size_of, self._closed_parts))

    def parts(self) -> list[Buffer | FileSlice]:
        """Everything written, as few buffers and file slices as possible."""
        if self._pieces:
            self._closed_parts.append(b"".join(self._pieces))
            self._pieces.clear()
        return list(self._closed_parts)

    def to_bytes(self) -> bytes:
        """Everything written, as one `bytes` (reads file slices)."""
        if not self._closed_parts:
            return b"".join(self._pieces)
        return b"".join(part if isinstance(part, (bytes, bytearray, memoryview)) else part.to_bytes() for part in self.parts())

    def write_string(self, value: str) -> None:
        encoded = value.encode("utf-8", "replace")
        self._check_string(encoded)
        self.append(_INT16.pack(len(encoded)))
        self.append(encoded)

    def write_nullable_string(self, value: str | None) -> None:
        if value is None:
            self.append(b"\xff\xff")
        else:
            self.write_string(value)

    def write_compact_string(self, value: str) -> None:
        encoded = value.encode("utf-8", "replace")
        length = len(encoded) + 1
        if length < 0x80:
            self.append(_SMALL_VARINTS[length])
        else:
            self._check_string(encoded)
            self.append(encode_unsigned_varint(length))
        self.append(encoded)

    def write_compact_nullable_string(self, value: str | None) -> None:
        if value is None:
            self.append(b"\0")
        else:
            self.write_compact_string(value)

    def _check_string(self, encoded: bytes) -> None:
        if len(encoded) > MAX_STRING_LENGTH:
            raise ProtocolWriteError(f"string of {len(encoded)} bytes is longer than the {MAX_STRING_LENGTH} that the wire allows")

    def write_bytes(self, value: bytes) -> None:
        self.append(_INT32.pack(len(value)))
        self.append(value)

    def write_nullable_bytes(self, value: bytes | None) -> None:
        if value is None:
            self.append(b"\xff\xff\xff\xff")
        else:
            self.write_bytes(value)

    def write_compact_bytes(self, value: bytes) -> None:
        self.append(encode_unsigned_varint(len(value) + 1))
        self.append(value)

    def write_compact_nullable_bytes(self, value: bytes | None) -> None:
        if value is None:
            self.append(b"\0")
        else:
            self.write_compact_bytes(value)

    def write_records(self, value: Records) -> None:
        self.append(_INT32.pack(_size_of(value)))
        self._append_records(value)

    def write_nullable_records(self, value: Records | None) -> None:
        if value is None:
            self.append(b"\xff\xff\xff\xff")
        else:
            self.write_records(value)

    def write_compact_records(self, value: Records) -> None:
        self.append(encode_unsigned_varint(_size_of(value) + 1))
        self._append_records(value)

    def write_compact_nullable_records(self, value: Records | None) -> None:
        if value is None:
            self.append(b"\0")
        else:
            self.write_compact_records(value)

    def _append_records(self, value: Records) -> None:
        if self._pieces:
            self._closed_parts.append(b"".join(self._pieces))
            self._pieces.clear()
        parts = value if isinstance(value, list) else [value]
        self._closed_parts.extend(part for part in parts if _size_of(part))

    def write_array_length(self, count: int) -> None:
        self.append(_INT32.pack(count))

    def write_compact_array_length(self, count: int) -> None:
        self.append(encode_unsigned_varint(count + 1))

    def write_strings(self, values: Iterable[str]) -> None:
        for value in values:
            self.write_string(value)

    def write_compact_strings(self, values: Iterable[str]) -> None:
        for value in values:
            self.write_compact_string(value)

    def write_uuids(self, values: Iterable[Uuid]) -> None:
        self.append(b"".join(value.raw for value in values))

    def write_int8s(self, values: Sequence[int]) -> None:
        self.append(struct.pack(f">{len(values)}b", *values))

    def write_int16s(self, values: Sequence[int]) -> None:
        self.append(struct.pack(f">{len(values)}h", *values))

    def write_int32s(self, values: Sequence[int]) -> None:
        self.append(struct.pack(f">{len(values)}i", *values))

    def write_int64s(self, values: Sequence[int]) -> None:
        self.append(struct.pack(f">{len(values)}q", *values))

    def write_tagged_fields(self, fields: Sequence[tuple[int, bytes]]) -> None:
        """A tag section, in ascending order of tags."""
        if not fields:
            self.append(b"\0")
            return
        self.append(encode_unsigned_varint(len(fields)))
        for tag, value in sorted(fields) if len(fields) > 1 else fields:
            self.append(encode_unsigned_varint(tag))
            self.append(encode_unsigned_varint(len(value)))
            self.append(value)
