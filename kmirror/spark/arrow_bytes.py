"""Keys, values and headers of records as Arrow columns, without a Python object per record.

Record bodies lie one after the other in a buffer, so the ends and beginnings of, say, the values
never decrease. [start 0, end 0, start 1, end 1 ...] are therefore the offsets of an Arrow array in
which every second element is a value, and Arrow itself gathers those.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kmirror.record.columns import Int64s, RecordColumns

HEADER_FIELDS: Final = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
HEADERS: Final = pa.list_(pa.struct(HEADER_FIELDS))


def gather(body: memoryview, position: Int64s, length: Int64s, kind: Any = None) -> pa.Array:
    """Returns bytes `position` to `position + length` of `body` as an array; null where the length
    is negative. Positions must ascend."""
    count = len(position)
    if not count:
        return pa.array([], type=kind or pa.binary())
    size = np.maximum(length, 0)
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = position
    bounds[1::2] = position + size
    woven = pa.Array.from_buffers(kind or pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(body)])
    chosen = np.arange(0, 2 * count, 2, dtype=np.int32)
    missing = length < 0
    return woven.take(pa.array(chosen, mask=missing) if missing.any() else pa.array(chosen))


def header_arrays(records: RecordColumns, rows: Int64s, *, null_if_empty: bool = False) -> pa.Array:
    """Returns the headers of the records in `rows`. A record without headers has an empty list, or
    null with `null_if_empty`."""
    counts = records.header_count[rows]
    ends = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(counts, out=ends[1:])
    keys, values = _header_fields(records, rows, counts, ends)
    missing = counts == 0
    offsets: Any = ends
    if null_if_empty and missing.any():
        offsets = pa.array(ends, mask=np.append(missing, False))
    pairs = pa.StructArray.from_arrays([keys, values], fields=HEADER_FIELDS)
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS)


def _header_fields(records: RecordColumns, rows: Int64s, counts: Int64s, ends: Any) -> tuple[pa.Array, pa.Array]:
    """Returns all keys and all values, record by record. They are read in rounds: the first header
    of each record, then the second, and so on."""
    total = int(ends[-1])
    key_position, key_length, value_position, value_length = (np.zeros(total, dtype=np.int64) for _ in range(4))
    left = np.flatnonzero(counts > 0)
    cursor = records.header_position[rows[left]]
    data = np.frombuffer(records.body, dtype=np.uint8)
    number = 0
    while left.size:
        place = ends[left] + number
        key_length[place], start = _read_varints(data, cursor)
        key_position[place] = start
        value_length[place], start = _read_varints(data, start + key_length[place])
        value_position[place] = start
        cursor = start + np.maximum(value_length[place], 0)
        number += 1
        kept = counts[left] > number
        left, cursor = left[kept], cursor[kept]
    return _text(records.body, key_position, key_length), gather(records.body, value_position, value_length)


def _text(body: memoryview, position: Int64s, length: Int64s) -> pa.Array:
    """Decodes text as Java does: invalid UTF-8 becomes replacement characters."""
    keys = gather(body, position, length, pa.string())
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = gather(body, position, length).to_pylist()
        return pa.array([key.decode("utf-8", "replace") for key in raw], type=pa.string())
    return keys


def _read_varints(data: Any, positions: Int64s) -> tuple[Int64s, Int64s]:
    """Returns (signed values, positions after them) of zigzag varints that are known to be
    sound."""
    byte = data[positions].astype(np.int64)
    value = byte & 0x7F
    ends = positions + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while more.size:
        byte = data[ends[more]].astype(np.int64)
        value[more] |= (byte & 0x7F) << shift
        ends[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    return (value >> 1) ^ -(value & 1), ends
