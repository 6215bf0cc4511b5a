"""The hot loop of a produce request: it hops from record to record of a batch by their lengths,
without building `Record` objects.

Varints of one and two bytes are decoded in line, longer ones by `read_varint`. Every length inside
a record must add up to the record's length, and the records to the body. So one comparison for each
record and one at the end find everything that is cut or swapped. A varint ends at the first byte
below 0x80. The strict reader (`RecordBatch.records`) says what is wrong with a malformed record.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.ports import Buffer
from kmirror.common.varint import VarintError, read_varint, read_varlong

UNBOUNDED: Final = 1 << 64
"""Larger than every timestamp delta."""


def hop_records(body: Buffer, record_count: int) -> tuple[int, int, bool, bool] | None:
    """(smallest, largest timestamp delta, whether offset deltas are 0, 1, 2 ..., whether a key is
    missing).

    None if a record is malformed. Without records the deltas are `UNBOUNDED` and its negative.
    """
    position = 0
    min_delta, max_delta = UNBOUNDED, -UNBOUNDED
    consecutive, keys_missing = True, False
    try:
        for index in range(record_count):
            raw = body[position]
            if raw < 0x80:
                cursor = position + 1
            elif (high := body[position + 1]) < 0x80:
                raw += (high << 7) - 0x80
                cursor = position + 2
            else:
                length, cursor = read_varint(body, position)
                raw = length << 1 if length >= 0 else 1
            if raw & 1:
                return None
            end = cursor + (raw >> 1)
            cursor += 2
            raw = body[cursor - 1]
            if raw < 0x80:
                delta = raw >> 1 ^ -(raw & 1)
            elif (high := body[cursor]) < 0x80:
                raw += (high << 7) - 0x80
                delta = raw >> 1 ^ -(raw & 1)
                cursor += 1
            else:
                delta, cursor = read_varlong(body, cursor - 1)
            if delta > max_delta:
                max_delta = delta
            if delta < min_delta:
                min_delta = delta
            raw = body[cursor]
            if raw < 0x80:
                cursor += 1
            elif (high := body[cursor + 1]) < 0x80:
                raw += (high << 7) - 0x80
                cursor += 2
            else:
                offset_delta, cursor = read_varint(body, cursor)
                raw = offset_delta << 1
            if raw != index << 1:
                consecutive = False
            raw = body[cursor]
            if raw == 1:
                keys_missing = True
                cursor += 1
            elif raw < 0x80 and not raw & 1:
                cursor += 1 + (raw >> 1)
            else:
                length, cursor = read_varint(body, cursor)
                if length < 0:
                    keys_missing = True
                else:
                    cursor += length
            raw = body[cursor]
            if raw < 0x80:
                cursor += 1 if raw & 1 else 1 + (raw >> 1)
            elif (high := body[cursor + 1]) < 0x80:
                raw += (high << 7) - 0x80
                cursor += 2 if raw & 1 else 2 + (raw >> 1)
            else:
                length, cursor = read_varint(body, cursor)
                if length > 0:
                    cursor += length
            cursor = cursor + 1 if body[cursor] == 0 else _hop_headers(body, cursor)
            if cursor != end:
                return None
            position = end
    except (VarintError, IndexError):
        return None
    return (min_delta, max_delta, consecutive, keys_missing) if position == len(body) else None


def _hop_headers(body: Buffer, position: int) -> int:
    """The position after the headers; -1 if one of them is impossible."""
    count, cursor = read_varint(body, position)
    if not 0 <= count <= len(body) - cursor:
        return -1
    for _ in range(count):
        length, cursor = read_varint(body, cursor)
        if length < 0:
            return -1
        length, cursor = read_varint(body, cursor + length)
        if length > 0:
            cursor += length
    return cursor
