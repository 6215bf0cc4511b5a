"""The columns of `kafka-log`: their Spark and Arrow types, and how each is made from a block of batches.

Only the columns that are wanted are made, which is what `.option("columns", ...)` saves: without key, value and headers a record costs
its place in a few numpy arrays, and rows of batches need no decompression at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.record.columns import RecordColumns, batch_columns, decode_columns
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
CODECS: Final = np.array([CompressionType.for_id(index).name.lower() if index <= 4 else f"codec {index}" for index in range(8)])


@dataclass
class Block:
    """Some batches of one segment; what several columns need is made once. For record rows `rows` chooses those that are wanted."""

    topic: str
    partition: int
    path: str
    positions: Sequence[int]
    batches: Sequence[RecordBatch]
    low: int
    high: int

    @cached_property
    def headers(self) -> Any:
        """The batches' headers as a numpy record array."""
        return batch_columns(b"".join(batch.memory[:61] for batch in self.batches), range(0, 61 * len(self.batches), 61))

    @cached_property
    def records(self) -> RecordColumns:
        """CorruptFileError for the first batch that cannot be decoded."""
        try:
            return decode_columns(self.batches)
        except ApiException as error:
            raise self._corrupt(error) from error

    def _corrupt(self, error: ApiException) -> CorruptFileError:
        for position, batch in zip(self.positions, self.batches):
            try:
                decode_columns([batch])
            except ApiException as problem:
                return CorruptFileError(self.path, position, problem.message)
        return CorruptFileError(self.path, self.positions[0], error.message)

    @cached_property
    def rows(self) -> Any:
        """The records whose offsets are from `low` to `high`, as row numbers."""
        offset = self.records.offset
        return np.flatnonzero((offset >= self.low) & (offset <= self.high))

    @cached_property
    def batch_of_row(self) -> Any:
        return self.records.batch_index[self.rows]

    @cached_property
    def row_lists(self) -> tuple[bytes, Any]:
        return bytes(self.records.body), self.rows.tolist()


@dataclass(frozen=True)
class Column:
    """`make` gives a numpy array or a list of one value a row."""

    sql_type: str
    arrow_type: Any
    make: Callable[[Block], Any]


def _header(name: str, sql_type: str, arrow_type: Any) -> Column:
    return Column(sql_type, arrow_type, lambda block: block.headers[name])


def _flag(bit: int) -> Column:
    return Column("boolean", pa.bool_(), lambda block: block.headers["attributes"] & bit != 0)


def _last_offset(block: Block) -> Any:
    return block.headers["base_offset"] + block.headers["last_offset_delta"]


def _timestamp_type(block: Block) -> Any:
    return np.where(block.headers["attributes"] & LOG_APPEND_TIME_FLAG != 0, "LogAppendTime", "CreateTime").tolist()


def _compression(block: Block) -> Any:
    return CODECS[block.headers["attributes"] & COMPRESSION_MASK].tolist()


def _control_type(block: Block) -> list[str | None]:
    return [_control_type_of(batch) for batch in block.batches]


def _control_type_of(batch: RecordBatch) -> str | None:
    if not batch.is_control:
        return None
    try:
        record = next(batch.records(), None)
        return "UNKNOWN" if record is None else ControlRecordType.parse(record.key).name
    except ApiException:
        return "UNKNOWN"


def _last_sequence(block: Block) -> Any:
    base = block.headers["base_sequence"].astype(np.int64)
    return np.where(base < 0, -1, base + block.headers["last_offset_delta"] & 0x7FFFFFFF)


def _delete_horizon(block: Block) -> list[int | None]:
    return [batch.delete_horizon_ms for batch in block.batches]


SHARED: Final[dict[str, Column]] = {
    "base_offset": _header("base_offset", "bigint", pa.int64()),
    "last_offset": Column("bigint", pa.int64(), _last_offset),
    "leader_epoch": _header("partition_leader_epoch", "int", pa.int32()),
    "producer_id": _header("producer_id", "bigint", pa.int64()),
    "producer_epoch": _header("producer_epoch", "int", pa.int32()),
    "timestamp_type": Column("string", pa.string(), _timestamp_type),
    "is_transactional": _flag(TRANSACTIONAL_FLAG),
    "is_control": _flag(CONTROL_FLAG),
    "control_type": Column("string", pa.string(), _control_type),
    "compression": Column("string", pa.string(), _compression),
    "crc": _header("crc", "bigint", pa.int64()),
    "position": Column("bigint", pa.int64(), lambda block: np.array(block.positions, dtype=np.int64)),
}
"""Facts of a batch: a value a batch; in rows of records each is repeated for its records."""

BATCH_ONLY: Final[dict[str, Column]] = {
    "record_count": _header("record_count", "int", pa.int32()),
    "size_bytes": Column("int", pa.int32(), lambda block: [batch.size_in_bytes for batch in block.batches]),
    "magic": _header("magic", "int", pa.int32()),
    "crc_valid": Column("boolean", pa.bool_(), lambda block: [batch.is_valid() for batch in block.batches]),
    "base_timestamp": Column("timestamp", TIMESTAMP, lambda block: block.headers["base_timestamp"] * 1000),
    "max_timestamp": Column("timestamp", TIMESTAMP, lambda block: block.headers["max_timestamp"] * 1000),
    "base_sequence": _header("base_sequence", "int", pa.int32()),
    "last_sequence": Column("int", pa.int32(), _last_sequence),
    "has_delete_horizon": _flag(DELETE_HORIZON_FLAG),
    "delete_horizon_ms": Column("bigint", pa.int64(), _delete_horizon),
}


def _slices(position: str, length: str) -> Callable[[Block], list[bytes | None]]:
    def make(block: Block) -> list[bytes | None]:
        body, _ = block.row_lists
        starts, lengths = getattr(block.records, position)[block.rows].tolist(), getattr(block.records, length)[block.rows].tolist()
        return [body[start : start + size] if size >= 0 else None for start, size in zip(starts, lengths)]

    return make


def _record_headers(block: Block) -> list[list[dict[str, Any]]]:
    _, rows = block.row_lists
    return [[{"key": key, "value": value} for key, value in block.records.headers(row)] for row in rows]


RECORD_ONLY: Final[dict[str, Column]] = {
    "offset": Column("bigint", pa.int64(), lambda block: block.records.offset[block.rows]),
    "timestamp": Column("timestamp", TIMESTAMP, lambda block: block.records.timestamp[block.rows] * 1000),
    "key": Column("binary", pa.binary(), _slices("key_position", "key_length")),
    "value": Column("binary", pa.binary(), _slices("value_position", "value_length")),
    "headers": Column("array<struct<key:string,value:binary>>", HEADERS, _record_headers),
    "sequence": Column("int", pa.int32(), lambda block: block.records.sequence[block.rows]),
}

_PLACE: Final = {"topic": "string", "partition": "int", "segment": "string"}
RECORD_COLUMNS: Final = (
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
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "is_control",
    "control_type",
    "compression",
    "crc",
    "position",
    "segment",
)
BATCH_COLUMNS: Final = (
    "topic",
    "partition",
    "base_offset",
    "last_offset",
    "record_count",
    "size_bytes",
    "leader_epoch",
    "magic",
    "crc",
    "crc_valid",
    "base_timestamp",
    "max_timestamp",
    "timestamp_type",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "is_transactional",
    "is_control",
    "control_type",
    "has_delete_horizon",
    "delete_horizon_ms",
    "compression",
    "position",
    "segment",
)


def sql_schema(names: Sequence[str]) -> str:
    """The columns as Spark's DDL."""
    made = SHARED | BATCH_ONLY | RECORD_ONLY
    return ", ".join(f"`{name}` {_PLACE.get(name) or made[name].sql_type}" for name in names)


def record_rows(block: Block, names: Sequence[str]) -> pa.RecordBatch:
    """A row a record."""
    return _arrow(block, names, len(block.rows), _record_column)


def batch_rows(block: Block, names: Sequence[str]) -> pa.RecordBatch:
    """A row a batch."""
    return _arrow(block, names, len(block.batches), _batch_column)


def _record_column(block: Block, name: str) -> pa.Array:
    if name in RECORD_ONLY:
        return _array(RECORD_ONLY[name], RECORD_ONLY[name].make(block))
    return _array(SHARED[name], SHARED[name].make(block)).take(pa.array(block.batch_of_row))


def _batch_column(block: Block, name: str) -> pa.Array:
    column = (SHARED | BATCH_ONLY)[name]
    return _array(column, column.make(block))


def _array(column: Column, values: Any) -> pa.Array:
    if isinstance(values, np.ndarray) and pa.types.is_timestamp(column.arrow_type):
        return pa.array(values.astype(np.int64)).cast(column.arrow_type)
    if isinstance(values, np.ndarray) and not pa.types.is_boolean(column.arrow_type):
        return pa.array(values).cast(column.arrow_type)
    return pa.array(values, type=column.arrow_type)


def _arrow(block: Block, names: Sequence[str], count: int, make: Callable[[Block, str], pa.Array]) -> pa.RecordBatch:
    constants = {"topic": pa.scalar(block.topic), "partition": pa.scalar(block.partition, pa.int32())}
    constants["segment"] = pa.scalar(block.path.rpartition("/")[2])
    arrays = [pa.repeat(constants[name], count) if name in constants else make(block, name) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
