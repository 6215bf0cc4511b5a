"""One record of a batch, and the reader of its bytes.

    record  := length varint (of what follows), attributes i8, timestampDelta varlong, offsetDelta varint,
               keyLength varint (-1: null), key, valueLength varint (-1: null), value, headerCount varint, header*
    header  := keyLength varint, key (UTF-8), valueLength varint (-1: null), value

All varints are zig-zag encoded. Deltas are against the batch's base offset and base timestamp.
`read_record` is the strict reader (Kafka's `DefaultRecord.readFrom`): every structural fault is
INVALID_RECORD, never an IndexError. A negative key or value length other than -1 reads as null, as
in Kafka.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.common.varint import VarintError, encode_varint, read_varint, read_varlong

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
MIN_LONG: Final = -(1 << 63)
MAX_LONG: Final = (1 << 63) - 1

_NULL: Final = encode_varint(-1)

Header = tuple[str, bytes | None]


class Record(msgspec.Struct, gc=False):
    """One record.

    `key` and `value` are views into the batch (or None); copy them if they must outlive it.
    `timestamp` is in ms.
    """

    offset: int
    timestamp: int
    key: Buffer | None = None
    value: Buffer | None = None
    headers: list[Header] = []
    sequence: int = NO_SEQUENCE


def increment_sequence(sequence: int, increment: int) -> int:
    """`sequence` + `increment`; 0 follows 2147483647."""
    return sequence + increment & 0x7FFFFFFF


def decrement_sequence(sequence: int, decrement: int) -> int:
    return sequence - decrement & 0x7FFFFFFF


def java_long(value: int) -> int:
    """`value` as Java's long arithmetic leaves it: sums such as Long.MAX_VALUE + 1 wrap around."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def read_record(
    buffer: memoryview, position: int, *, base_offset: int, base_timestamp: int, base_sequence: int, log_append_time: int | None
) -> tuple[Record, int]:
    """(the record at `position`, the position after it); INVALID_RECORD if it is malformed."""
    try:
        length, start = read_varint(buffer, position)
        end = start + length
        limit = len(buffer)
        if end > limit:
            raise invalid_record(
                f"Invalid record size: expected {length} bytes in record payload, but instead the buffer has only "
                f"{limit - start} remaining bytes."
            )
        timestamp_delta, cursor = read_varlong(buffer, start + 1)
        offset_delta, cursor = read_varint(buffer, cursor)
        key, cursor = _read_bytes(buffer, cursor, limit)
        value, cursor = _read_bytes(buffer, cursor, limit)
        headers, cursor = _read_headers(buffer, cursor, limit)
    except VarintError as error:
        raise invalid_record("Found invalid record structure") from error
    if cursor != end:
        raise invalid_record(f"Invalid record size: expected to read {length} bytes in record payload, but instead read {cursor - start}")
    timestamp = base_timestamp + timestamp_delta if log_append_time is None else log_append_time
    if not MIN_LONG <= timestamp <= MAX_LONG:
        timestamp = java_long(timestamp)
    sequence = increment_sequence(base_sequence, offset_delta) if base_sequence >= 0 else NO_SEQUENCE
    return Record(base_offset + offset_delta, timestamp, key, value, headers, sequence), end


def _read_bytes(buffer: memoryview, position: int, limit: int) -> tuple[memoryview | None, int]:
    length, start = read_varint(buffer, position)
    if length < 0:
        return None, start
    if start + length > limit:
        raise invalid_record("Found invalid record structure")
    return buffer[start : start + length], start + length


def _read_headers(buffer: memoryview, position: int, limit: int) -> tuple[list[Header], int]:
    count, cursor = read_varint(buffer, position)
    if count < 0:
        raise invalid_record(f"Found invalid number of record headers {count}")
    if count > limit - cursor:
        raise invalid_record(f"Found invalid number of record headers. {count} is larger than the remaining size of the buffer")
    return read_headers(buffer, cursor, limit, count) if count else ([], cursor)


def read_headers(buffer: memoryview, position: int, limit: int, count: int) -> tuple[list[Header], int]:
    """(`count` headers from `position` on, the position after them). INVALID_RECORD if one reaches
    beyond `limit`.
    """
    headers: list[Header] = []
    cursor = position
    for _ in range(count):
        length, cursor = read_varint(buffer, cursor)
        if length < 0:
            raise invalid_record(f"Invalid negative header key size {length}")
        if cursor + length > limit:
            raise invalid_record("Found invalid record structure")
        name = str(buffer[cursor : cursor + length], "utf-8", "replace")
        value, cursor = _read_bytes(buffer, cursor + length, limit)
        headers.append((name, None if value is None else bytes(value)))
    return headers, cursor


def write_record(
    out: bytearray, *, offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: list[Header]
) -> None:
    """Append one record to `out`."""
    parts: list[Buffer] = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    if key is None:
        parts.append(_NULL)
    else:
        parts += (encode_varint(len(key)), key)
    if value is None:
        parts.append(_NULL)
    else:
        parts += (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, header_value in headers:
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        parts += (_NULL,) if header_value is None else (encode_varint(len(header_value)), header_value)
    body = b"".join(parts)
    out += encode_varint(len(body))
    out += body


def invalid_record(message: str) -> ApiException:
    """INVALID_RECORD with Kafka's text."""
    return ApiException(Errors.INVALID_RECORD, message)


def corrupt_message(message: str) -> ApiException:
    """CORRUPT_MESSAGE (Kafka's `CorruptRecordException`) with Kafka's text."""
    return ApiException(Errors.CORRUPT_MESSAGE, message)
