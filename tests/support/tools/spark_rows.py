"""Rows of `kafka-log` as a task makes them, without Spark: everything pickled as on the way to an
executor.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from kmirror.spark.data_source import KafkaLogReader
from kmirror.spark.options import ReadOptions


def read_rows(path: Path | str, **options: str) -> list[dict[str, Any]]:
    """An option's dots are written as underscores."""
    reader = KafkaLogReader(ReadOptions.parse({"path": str(path), **{name.replace("_", "."): value for name, value in options.items()}}))
    rows: list[dict[str, Any]] = []
    for task in reader.partitions():
        for table in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(task))):
            rows += table.to_pylist()
    return rows
