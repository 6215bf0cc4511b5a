"""The columns of `kafka-log`: their Spark and Arrow types, and how each is made from batches of a
segment.

A column comes from batch headers or from records. Only wanted columns are made. Rows of records
need no unpacking for columns that a header holds; offsets count among those where no record was
compacted away.

Timestamps are microseconds in Spark and milliseconds in Kafka. A timestamp that does not fit, such
as nanoseconds that a producer sent by mistake, is null; `timestamp_ms`, `base_timestamp_ms` and
`max_timestamp_ms` have the number. (Spark's own source fails such a query with "long overflow".)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kmirror.record.columns import Int64s, RecordColumns
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from kmirror.spark.arrow_bytes import HEADERS, gather, header_arrays
from kmirror.verify.slices import LogSlice

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
CODECS: Final = np.array([CompressionType.for_id(index).name.lower() if index <= 4 else f"codec {index}" for index in range(8)])
CORRUPT_COLUMN: Final = "_corrupt"
_MOST_MS: Final = ((1 << 63) - 1) // 1000


@dataclass
class Batches:
    """Headers of batches of one segment. `control_types` has the name of each control batch's
    record, by row."""

    piece: LogSlice
    headers: npt.NDArray[Any]
    positions: Int64s
    control_types: dict[int, str]
    crc_ok: npt.NDArray[np.bool_] | None = None

    @property
    def last_offset(self) -> Int64s:
        offsets: Int64s = self.headers["base_offset"] + self.headers["last_offset_delta"]
        return offsets

    def take(self, rows: Any) -> Batches:
        kept = dict(zip(rows.tolist(), range(len(rows)))) if self.control_types else {}
        types = {kept[row]: name for row, name in self.control_types.items() if row in kept}
        crc_ok = None if self.crc_ok is None else self.crc_ok[rows]
        return Batches(self.piece, self.headers[rows], self.positions[rows], types, crc_ok)


@dataclass
class Records:
    """Rows of records. `batch_row` is the row of each record's batch in `batches`; `columns` and
    `rows` are set if the records were unpacked."""

    batches: Batches
    batch_row: Int64s
    offset: Int64s
    columns: RecordColumns | None = None
    rows: Int64s | None = None

    def __len__(self) -> int:
        return len(self.batch_row)

    def slice(self, start: int, stop: int) -> Records:
        rows = None if self.rows is None else self.rows[start:stop]
        return Records(self.batches, self.batch_row[start:stop], self.offset[start:stop], self.columns, rows)

    @cached_property
    def unpacked(self) -> tuple[RecordColumns, Int64s]:
        assert self.columns is not None and self.rows is not None, "these columns need the records"
        return self.columns, self.rows


@dataclass(frozen=True)
class Column:
    """`make` returns a numpy array, a list or an Arrow array with one value per row."""

    sql_type: str
    arrow_type: Any
    make: Callable[[Any], Any]


def _header(name: str, sql_type: str, arrow_type: Any) -> Column:
    return Column(sql_type, arrow_type, lambda batches: batches.headers[name])


def _flag(bit: int) -> Column:
    return Column("boolean", pa.bool_(), lambda batches: batches.headers["attributes"] & bit != 0)


def _milliseconds(name: str) -> dict[str, Column]:
    """Returns two columns of a header's timestamp: as a timestamp, and as a number of ms."""
    return {
        name: Column("timestamp", TIMESTAMP, lambda batches: _microseconds(batches.headers[name])),
        f"{name}_ms": _header(name, "bigint", pa.int64()),
    }


def _microseconds(milliseconds: Int64s) -> pa.Array:
    """Returns timestamps, null where the microseconds do not fit 64 bits."""
    too_large = (milliseconds > _MOST_MS) | (milliseconds < -_MOST_MS)
    if not too_large.any():
        return pa.array(milliseconds * 1000).cast(TIMESTAMP)
    return pa.array(np.where(too_large, 0, milliseconds) * 1000, mask=too_large).cast(TIMESTAMP)


def _is_append_time(batches: Batches) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = batches.headers["attributes"] & LOG_APPEND_TIME_FLAG != 0
    return found


def _choice(numbers: Any, names: Sequence[str]) -> pa.Array:
    """`names[number]` for each number."""
    return pa.array(names, type=pa.string()).take(pa.array(numbers.astype(np.int8)))


def _control_type(batches: Batches) -> list[str | None]:
    return [batches.control_types.get(row) for row in range(len(batches.headers))]


def _last_sequence(batches: Batches) -> Any:
    base = batches.headers["base_sequence"].astype(np.int64)
    return np.where(base < 0, -1, base + batches.headers["last_offset_delta"] & 0x7FFFFFFF)


def _delete_horizon(batches: Batches) -> pa.Array:
    return pa.array(batches.headers["base_timestamp"], mask=batches.headers["attributes"] & DELETE_HORIZON_FLAG == 0)


def _crc_valid(batches: Batches) -> Any:
    assert batches.crc_ok is not None, "the CRC was not asked for"
    return batches.crc_ok


def _names(batches: Batches, name: str) -> pa.Array:
    return pa.repeat(pa.scalar(name), len(batches.headers))


PLACE: Final[dict[str, Column]] = {
    "topic": Column("string", pa.string(), lambda batches: _names(batches, batches.piece.topic)),
    "partition": Column("int", pa.int32(), lambda batches: pa.repeat(pa.scalar(batches.piece.partition, pa.int32()), len(batches.headers))),
    "segment": Column("string", pa.string(), lambda batches: _names(batches, batches.piece.path.rpartition("/")[2])),
}
SHARED: Final[dict[str, Column]] = {
    **PLACE,
    "base_offset": _header("base_offset", "bigint", pa.int64()),
    "last_offset": Column("bigint", pa.int64(), lambda batches: batches.last_offset),
    "leader_epoch": _header("partition_leader_epoch", "int", pa.int32()),
    "producer_id": _header("producer_id", "bigint", pa.int64()),
    "producer_epoch": _header("producer_epoch", "int", pa.int32()),
    "timestamp_type": Column("string", pa.string(), lambda batches: _choice(_is_append_time(batches), ["CreateTime", "LogAppendTime"])),
    "timestampType": Column("int", pa.int32(), _is_append_time),
    "is_transactional": _flag(TRANSACTIONAL_FLAG),
    "is_control": _flag(CONTROL_FLAG),
    "control_type": Column("string", pa.string(), _control_type),
    "compression": Column(
        "string", pa.string(), lambda batches: _choice(batches.headers["attributes"] & COMPRESSION_MASK, CODECS.tolist())
    ),
    "crc": _header("crc", "bigint", pa.int64()),
    "position": Column("bigint", pa.int64(), lambda batches: batches.positions),
}
"""Columns with one value per batch. Rows of records repeat it for each record of the batch."""

BATCH_ONLY: Final[dict[str, Column]] = {
    "record_count": _header("record_count", "int", pa.int32()),
    "size_bytes": Column("int", pa.int32(), lambda batches: batches.headers["length"] + LOG_OVERHEAD),
    "magic": _header("magic", "int", pa.int32()),
    "crc_valid": Column("boolean", pa.bool_(), _crc_valid),
    **_milliseconds("base_timestamp"),
    **_milliseconds("max_timestamp"),
    "base_sequence": _header("base_sequence", "int", pa.int32()),
    "last_sequence": Column("int", pa.int32(), _last_sequence),
    "has_delete_horizon": _flag(DELETE_HORIZON_FLAG),
    "delete_horizon_ms": Column("bigint", pa.int64(), _delete_horizon),
}


def _slices(position: str, length: str) -> Callable[[Records], pa.Array]:
    def make(records: Records) -> pa.Array:
        columns, rows = records.unpacked
        return gather(columns.body, getattr(columns, position)[rows], getattr(columns, length)[rows])

    return make


def _of_record(name: str) -> Callable[[Records], Any]:
    return lambda records: getattr(records.unpacked[0], name)[records.unpacked[1]]


RECORD_ONLY: Final[dict[str, Column]] = {
    "offset": Column("bigint", pa.int64(), lambda records: records.offset),
    "timestamp": Column("timestamp", TIMESTAMP, lambda records: _microseconds(_of_record("timestamp")(records))),
    "timestamp_ms": Column("bigint", pa.int64(), _of_record("timestamp")),
    "key": Column("binary", pa.binary(), _slices("key_position", "key_length")),
    "value": Column("binary", pa.binary(), _slices("value_position", "value_length")),
    "headers": Column("array<struct<key:string,value:binary>>", HEADERS, lambda records: header_arrays(*records.unpacked)),
    "sequence": Column("int", pa.int32(), _of_record("sequence")),
}
WITHOUT_UNPACKING: Final = frozenset(SHARED) | {"offset"}
"""Columns of records that need only headers, if no record of a batch is missing."""

RECORD_COLUMNS: Final = (
    *(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
        "base_offset",
        "last_offset",
        "leader_epoch",
    ),
    *("producer_id", "producer_epoch", "sequence", "is_transactional", "is_control", "control_type", "compression", "crc", "position"),
    "segment",
)
BATCH_COLUMNS: Final = (
    *("topic", "partition", "base_offset", "last_offset", "record_count", "size_bytes", "leader_epoch", "magic", "crc", "crc_valid"),
    *("base_timestamp", "max_timestamp", "timestamp_type", "producer_id", "producer_epoch", "base_sequence", "last_sequence"),
    *("is_transactional", "is_control", "control_type", "has_delete_horizon", "delete_horizon_ms", "compression", "position", "segment"),
)
KAFKA_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""The columns of Spark's Kafka source; `includeHeaders` adds `headers`."""
MORE_RECORD_COLUMNS: Final = ("timestamp_ms",)
MORE_BATCH_COLUMNS: Final = ("base_timestamp_ms", "max_timestamp_ms")
"""Made only if `columns` asks for them."""
_ALL: Final = (
    SHARED | BATCH_ONLY | RECORD_ONLY | {CORRUPT_COLUMN: Column("string", pa.string(), lambda rows: pa.nulls(_count(rows), pa.string()))}
)


def sql_schema(names: Sequence[str]) -> str:
    """Returns the columns as Spark's DDL."""
    return ", ".join(f"`{name}` {_ALL[name].sql_type}" for name in names)


def sql_type(name: str) -> str:
    """Returns a column's type as Spark's DDL writes it."""
    return _ALL[name].sql_type


def _count(rows: Batches | Records) -> int:
    return len(rows) if isinstance(rows, Records) else len(rows.headers)


def batch_rows(batches: Batches, names: Sequence[str]) -> pa.RecordBatch:
    """Returns one row per batch."""
    return _table(names, lambda name: _array(_ALL[name], _ALL[name].make(batches)))


def record_rows(records: Records, names: Sequence[str], *, null_headers: bool = False) -> pa.RecordBatch:
    """Returns one row per record. A record without headers has an empty list, or null with
    `null_headers`, as in Spark's Kafka source."""
    index = pa.array(records.batch_row)

    def make(name: str) -> pa.Array:
        if name == "headers":
            return header_arrays(*records.unpacked, null_if_empty=null_headers)
        if name in RECORD_ONLY or name == CORRUPT_COLUMN:
            return _array(_ALL[name], _ALL[name].make(records))
        if name in PLACE:
            return pa.repeat(PLACE[name].make(records.batches)[0], len(records))
        return _array(SHARED[name], SHARED[name].make(records.batches)).take(index)

    return _table(names, make)


def corrupt_row(piece: LogSlice, position: int, offset: int, reason: str, names: Sequence[str]) -> pa.RecordBatch:
    """Returns the row for bytes that are no sound batch: where they are, the offset that they have
    or should have, and the reason; other columns are null."""
    known = {
        "topic": piece.topic,
        "partition": piece.partition,
        "segment": piece.path.rpartition("/")[2],
        "position": position,
        "offset": offset,
        "base_offset": offset,
        "last_offset": offset,
        CORRUPT_COLUMN: f"{piece.path}: at byte {position}: {reason}",
    }
    return _table(names, lambda name: pa.array([known.get(name)], type=_ALL[name].arrow_type))


def _table(names: Sequence[str], make: Callable[[str], pa.Array]) -> pa.RecordBatch:
    arrays = [make(name) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _array(column: Column, values: Any) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, np.ndarray) and not pa.types.is_boolean(column.arrow_type):
        return pa.array(values).cast(column.arrow_type)
    return pa.array(values, type=column.arrow_type)
