"""Arrow columns as the bytes of record batches, without a Python object per record.

A record is [varints, key, varint, value, varint, headers] (`record.record`). numpy makes the
varints of all records, which lie one record after the other in a buffer, the data of an Arrow
array. Arrow joins that array with those of keys, values and headers, row by row. The data of the
result are the records of all batches, and the records of one batch lie between two of its offsets.
Python only loops over batches.

`Rows` are records of one partition in their order, as one Arrow batch:

    key, value      binary, null where there is none
    headers         list of (key string, value binary); null is like an empty list
    timestamp       int64, ms
    offset          int64; all null: they get consecutive offsets
    epoch           int32, the leader epoch; all null: they get the partition's epoch
    append_time     bool: the timestamp is the log's (LogAppendTime)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kmirror.common.errors import KmirrorError
from kmirror.record.builder import assemble
from kmirror.record.columns import Int64s
from kmirror.record.compression import CompressionType, compress
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from kmirror.record.record_batch import LOG_APPEND_TIME_FLAG, RECORD_BATCH_OVERHEAD
from kmirror.spark.arrow_bytes import HEADERS
from kmirror.storage.batch_header import RawHeader, unpack_raw_header
from kmirror.storage.log_offset_metadata import MAX_RELATIVE_OFFSET

ROWS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", pa.int64()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("append_time", pa.bool_()),
    ]
)
RECORD_OVERHEAD: Final = 21
"""The most bytes that lengths and deltas of a record take, by the same estimate as Kafka's
producer."""
MAX_RECORD_BYTES: Final = (1 << 31) - 1 - (1 << 16)
_JOIN: Final = pc.JoinOptions(null_handling="replace", null_replacement="")


class Codec(NamedTuple):
    """A codec and its level (None: the codec's default)."""

    type: CompressionType
    level: int | None


class BuiltBatch(NamedTuple):
    """A batch and its unpacked header."""

    header: RawHeader
    data: bytearray

    @property
    def last_offset(self) -> int:
        return self.header[0] + self.header[6]


def record_sizes(rows: pa.RecordBatch) -> Int64s:
    """Returns the most bytes that each record can take."""
    sizes = np.full(rows.num_rows, RECORD_OVERHEAD, dtype=np.int64)
    for name in ("key", "value"):
        sizes += _lengths(rows.column(name))
    headers = rows.column("headers")
    if headers.null_count < len(headers):
        flat = headers.flatten()
        inner = _lengths(flat.field("key")) + _lengths(flat.field("value")) + 10
        ends = np.zeros(len(inner) + 1, dtype=np.int64)
        np.cumsum(inner, out=ends[1:])
        bounds = _list_bounds(headers)
        sizes += ends[bounds[1:]] - ends[bounds[:-1]]
    return sizes


def cut_into_batches(rows: pa.RecordBatch, sizes: Int64s, batch_bytes: int) -> list[int]:
    """Returns where each batch begins, and where the last one ends. A batch has one leader epoch,
    one timestamp type, one append time, and about `batch_bytes` before compression."""
    ends = np.cumsum(sizes)
    forced = _forced_cuts(rows)
    offsets = None if rows.column("offset").null_count else rows.column("offset").to_numpy()
    room = max(batch_bytes - RECORD_BATCH_OVERHEAD, 1)
    cuts = [0]
    while cuts[-1] < len(sizes):
        start = cuts[-1]
        before = int(ends[start] - sizes[start])
        stop = max(int(np.searchsorted(ends, before + room, side="right")), start + 1)
        position = int(np.searchsorted(forced, start, side="right"))
        if position < len(forced):
            stop = min(stop, int(forced[position]))
        if offsets is not None:
            stop = min(stop, int(np.searchsorted(offsets, int(offsets[start]) + MAX_RELATIVE_OFFSET, side="right")))
        cuts.append(stop)
    return cuts


def _forced_cuts(rows: pa.RecordBatch) -> Int64s:
    """Returns the rows that cannot be in the same batch as the row before them."""
    is_log_time = rows.column("append_time").to_numpy(zero_copy_only=False)
    differs = is_log_time[1:] != is_log_time[:-1]
    if is_log_time.any():
        timestamps = rows.column("timestamp").to_numpy()
        differs |= is_log_time[1:] & (timestamps[1:] != timestamps[:-1])
    if not rows.column("epoch").null_count:
        epochs = rows.column("epoch").to_numpy()
        differs |= epochs[1:] != epochs[:-1]
    return np.flatnonzero(differs) + 1


def build_batches(rows: pa.RecordBatch, cuts: Sequence[int], codec: Codec, *, first_offset: int, epoch: int) -> Iterator[BuiltBatch]:
    """Yields the batches between `cuts`. If records have no offsets, the first one gets
    `first_offset`; if they have no epochs, they get `epoch`."""
    count = rows.num_rows
    starts, stops = np.array(cuts[:-1]), np.array(cuts[1:])
    timestamps = rows.column("timestamp").to_numpy()
    has_offsets = not rows.column("offset").null_count
    offsets = rows.column("offset").to_numpy() if has_offsets else np.arange(first_offset, first_offset + count, dtype=np.int64)
    batch_of_row = np.repeat(starts, stops - starts)
    joined = _join(rows, timestamps - timestamps[batch_of_row], offsets - offsets[batch_of_row])
    data = memoryview(joined.buffers()[2])
    bounds = np.frombuffer(joined.buffers()[1], dtype=np.int32, count=count + 1)
    epochs = None if rows.column("epoch").null_count else rows.column("epoch").to_numpy()
    is_log_time = rows.column("append_time").to_numpy(zero_copy_only=False)
    for start, stop in zip(cuts, cuts[1:]):
        records = data[int(bounds[start]) : int(bounds[stop])]
        batch = assemble(
            compress(codec.type, records, level=codec.level),
            base_offset=int(offsets[start]),
            partition_leader_epoch=epoch if epochs is None else int(epochs[start]),
            attributes=int(codec.type) | (LOG_APPEND_TIME_FLAG if is_log_time[start] else 0),
            last_offset_delta=int(offsets[stop - 1] - offsets[start]),
            base_timestamp=int(timestamps[start]),
            max_timestamp=max(int(timestamps[start:stop].max()), NO_TIMESTAMP),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=stop - start,
        )
        yield BuiltBatch(unpack_raw_header(batch, 0), batch)


def _join(rows: pa.RecordBatch, timestamp_deltas: Int64s, offset_deltas: Int64s) -> pa.BinaryArray:
    """Returns the records' bytes, one row per record."""
    key, value = rows.column("key"), rows.column("value")
    key_length, value_length = _lengths(key, null=-1), _lengths(value, null=-1)
    header_counts, header_bytes = _headers(rows.column("headers"))
    zeros = np.zeros(rows.num_rows, dtype=np.int64)
    fields = [zeros, timestamp_deltas, offset_deltas, key_length]
    lengths = np.maximum(key_length, 0) + np.maximum(value_length, 0)
    for numbers in (*fields, value_length, header_counts):
        lengths += _varint_sizes(_zigzag(numbers))
    if header_bytes is not None:
        lengths += _lengths(header_bytes)
    parts = [_varints([lengths, *fields]), key, _varints([value_length]), value, _varints([header_counts])]
    if header_bytes is not None:
        parts.append(header_bytes)
    return pc.binary_join_element_wise(*parts, b"", options=_JOIN)


def _headers(headers: pa.ListArray) -> tuple[Int64s, pa.BinaryArray | None]:
    """Returns (the number of headers of each record, their bytes or None if no record has any)."""
    flat = headers.flatten()
    if not len(flat):
        return np.zeros(len(headers), dtype=np.int64), None
    names, values = flat.field("key").cast(pa.binary()), flat.field("value")
    if flat.null_count or names.null_count:
        raise KmirrorError("a header has no key; Kafka's headers have one")
    each = pc.binary_join_element_wise(
        _varints([_lengths(names)]), names, _varints([_lengths(values, null=-1)]), values, b"", options=_JOIN
    )
    ends = np.frombuffer(each.buffers()[1], dtype=np.int32, count=len(each) + 1)
    bounds = _list_bounds(headers)
    offsets = pa.py_buffer(np.ascontiguousarray(ends[bounds]))
    return np.diff(bounds), pa.Array.from_buffers(pa.binary(), len(headers), [None, offsets, each.buffers()[2]])


def _list_bounds(lists: pa.ListArray) -> Int64s:
    """Returns where each list begins in the result of `flatten`, and where the last one ends."""
    bounds = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), out=bounds[1:])
    return bounds


def _lengths(values: pa.Array, *, null: int = 0) -> Int64s:
    found: Int64s = pc.fill_null(pc.binary_length(values), null).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _zigzag(numbers: Int64s) -> npt.NDArray[np.uint64]:
    found: npt.NDArray[np.uint64] = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    return found


def _varint_sizes(zigzag: npt.NDArray[np.uint64]) -> Int64s:
    sizes = np.ones(len(zigzag), dtype=np.int64)
    largest = int(zigzag.max()) if len(zigzag) else 0
    shift = 7
    while largest >> shift:
        sizes += zigzag >= np.uint64(1 << shift)
        shift += 7
    return sizes


def _varints(columns: Sequence[Int64s]) -> pa.BinaryArray:
    """Returns rows with the varints of that row of each column, one after the other."""
    zigzags = [_zigzag(numbers) for numbers in columns]
    sizes = [_varint_sizes(zigzag) for zigzag in zigzags]
    ends = np.zeros(len(columns[0]) + 1, dtype=np.int32)
    np.cumsum(np.sum(sizes, axis=0), out=ends[1:])
    data = np.zeros(int(ends[-1]), dtype=np.uint8)
    positions = ends[:-1].astype(np.int64)
    for zigzag, size in zip(zigzags, sizes):
        _put(data, positions, zigzag, size)
        positions += size
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _put(data: Any, positions: Int64s, zigzag: npt.NDArray[np.uint64], sizes: Int64s) -> None:
    more = sizes > 1
    data[positions] = (zigzag & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
    rows = np.flatnonzero(more)
    number = 1
    while rows.size:
        more = sizes[rows] > number + 1
        group = ((zigzag[rows] >> np.uint64(7 * number)) & np.uint64(0x7F)).astype(np.uint8)
        data[positions[rows] + number] = group | (more.astype(np.uint8) << 7)
        rows = rows[more]
        number += 1
