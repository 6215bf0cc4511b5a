"""The tables of a replay as Arrow: schemas from the rows' dataclasses, Parquet files with the schema's version in their metadata."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from kmirror.verify.replay.findings import SCHEMA_VERSION
from kmirror.verify.replay.tables import TABLES

VERSION_KEY: Final = b"kmirror.replay.version"
_TYPES: Final = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}


def arrow_schema(table: str) -> pa.Schema:
    """A column for each field of the table's rows; those that may be None are nullable."""
    row_type = TABLES[table]
    hints = typing.get_type_hints(row_type)
    columns = []
    for column in fields(row_type):
        kinds = typing.get_args(hints[column.name]) or (hints[column.name],)
        (kind,) = [each for each in kinds if each is not NoneType]
        columns.append(pa.field(column.name, _TYPES[kind], nullable=NoneType in kinds))
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION).encode(), b"kmirror.replay.table": table.encode()})


def arrow_table(table: str, rows: Sequence[Any]) -> pa.Table:
    schema = arrow_schema(table)
    return pa.table({name: [getattr(row, name) for row in rows] for name in schema.names}, schema=schema)


def write_parquet(path: Path, table: str, rows: Sequence[Any]) -> None:
    """One Parquet file with `rows`, also without any."""
    pyarrow.parquet.write_table(arrow_table(table, rows), path, compression="zstd")
