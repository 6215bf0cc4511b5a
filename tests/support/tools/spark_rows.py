"""Reads rows of `kafka-log` as a Spark task does, without Spark. Everything is pickled as it would
be on the way to an executor.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from kmirror.spark.data_source import KafkaLogReader
from kmirror.spark.options import ReadOptions


def read_rows(path: Path | str, **options: str) -> list[dict[str, Any]]:
    """Returns all rows. Options are keyword arguments with underscores for dots."""
    reader = KafkaLogReader(ReadOptions.parse({"path": str(path), **{name.replace("_", "."): value for name, value in options.items()}}))
    rows: list[dict[str, Any]] = []
    for task in reader.partitions():
        for table in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(task))):
            rows += table.to_pylist()
    return rows
