"""Writes `kafka-log` as a Spark job does, without Spark. Everything is pickled as it would be on
the way to an executor and to the commit.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kmirror.spark.arrow_bytes import HEADERS
from kmirror.spark.log_writer import KafkaLogWriter
from kmirror.spark.write_options import WriteOptions

TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ms": pa.int64(),
    "timestamp_type": pa.string(),
    "timestampType": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "leader_epoch": pa.int32(),
    "is_control": pa.bool_(),
    "is_transactional": pa.bool_(),
    "_corrupt": pa.string(),
}


def table(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Returns a batch of these columns, in the types that `kafka-log` reads them with."""
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema([(name, TYPES[name]) for name in columns]))


def writer_for(path: Path | str, schema: pa.Schema, *, overwrite: bool = False, **options: Any) -> KafkaLogWriter:
    """Returns the writer of a job. Options are keyword arguments with underscores for dots."""
    given = {"path": str(path), **{name.replace("_", "."): str(value) for name, value in options.items()}}
    return KafkaLogWriter(WriteOptions.parse(given), from_arrow_schema(schema), overwrite=overwrite)


def write_tasks(path: Path | str, tasks: Sequence[Iterable[pa.RecordBatch]], *, overwrite: bool = False, **options: Any) -> None:
    """Runs one job of these tasks (lists of batches), and aborts a failed job as Spark does."""
    held = [list(task) for task in tasks]
    writer = writer_for(path, held[0][0].schema, overwrite=overwrite, **options)
    messages: list[Any] = [None] * len(held)
    try:
        for number, batches in enumerate(held):
            task = pickle.loads(pickle.dumps(writer))
            messages[number] = pickle.loads(pickle.dumps(task.write(iter(batches))))
        pickle.loads(pickle.dumps(writer)).commit(messages)
    except BaseException:
        pickle.loads(pickle.dumps(writer)).abort(messages)
        raise


def write_rows(path: Path | str, *, overwrite: bool = False, options: dict[str, Any] | None = None, **columns: Sequence[Any]) -> None:
    """Runs a job of one task with one batch."""
    write_tasks(path, [[table(**columns)]], overwrite=overwrite, **(options or {}))
