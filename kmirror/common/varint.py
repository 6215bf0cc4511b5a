"""Variable-length integers: 7 bits a byte, least significant first, the high bit set on all bytes
but the last.

The same bytes are read in two ways: *unsigned* (lengths and tags of flexible messages) and
*zig-zag* (records: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...). A varint has at most 5 bytes, a varlong
at most 10; longer ones, and ones that the buffer cuts off, raise `VarintError`. Hot loops in
`record` inline these functions; they are the definition.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer


class VarintError(KmirrorError, ValueError):
    """The bytes at a position are not a varint: too long, or cut off by the end of the buffer."""


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns (value in [0, 2^32), position after it)."""
    value, end = _read(buffer, position, 5)
    return value & 0xFFFFFFFF, end


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns (signed 32-bit value, position after it), decoded as zig-zag."""
    if 0 <= position < len(buffer) and buffer[position] < 0x80:
        value = buffer[position]
        return value >> 1 ^ -(value & 1), position + 1
    value, end = _read(buffer, position, 5)
    value &= 0xFFFFFFFF
    return value >> 1 ^ -(value & 1), end


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Returns (signed 64-bit value, position after it), decoded as zig-zag."""
    if 0 <= position < len(buffer) and buffer[position] < 0x80:
        value = buffer[position]
        return value >> 1 ^ -(value & 1), position + 1
    value, end = _read(buffer, position, 10)
    value &= 0xFFFFFFFFFFFFFFFF
    return value >> 1 ^ -(value & 1), end


def _read(buffer: Buffer, position: int, max_bytes: int) -> tuple[int, int]:
    value = shift = 0
    try:
        for end in range(position, position + max_bytes):
            byte = buffer[end]
            if byte < 0x80:
                return value | byte << shift, end + 1
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise VarintError(f"the buffer ends inside the varint at byte {position}") from None
    raise VarintError(f"the varint at byte {position} is longer than {max_bytes} bytes")


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Appends `value`, which is in [0, 2^64)."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


_ONE_BYTE: Final = [bytes((raw,)) for raw in range(128)]


def encode_varint(value: int) -> bytes:
    """Encodes a signed 32- or 64-bit `value` as zig-zag (the widths differ only in the range that
    they allow)."""
    raw = value << 1 ^ value >> 63
    if raw < 0x80:
        return _ONE_BYTE[raw]
    if raw < 0x4000:
        return bytes((raw & 0x7F | 0x80, raw >> 7))
    out = bytearray()
    write_unsigned_varint(out, raw & 0xFFFFFFFFFFFFFFFF)
    return bytes(out)
