"""Reads rows of `kafka-log` as a Spark task does, without Spark. Everything is pickled as it would
be on the way to an executor.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kmirror.spark.data_source import KafkaLogReader
from kmirror.spark.options import ReadOptions


def read_rows(path: Path | str, **options: str) -> list[dict[str, Any]]:
    """Returns all rows. Options are keyword arguments with underscores for dots."""
    planned = PlannedRead(path, **options)
    return planned.read(planned.tasks)


class PlannedRead:
    """A query that was planned, whose tasks are read later."""

    def __init__(self, path: Path | str, **options: str) -> None:
        given = {name.replace("_", "."): value for name, value in options.items()}
        self._reader = KafkaLogReader(ReadOptions.parse({"path": str(path), **given}))
        self.tasks = [pickle.loads(pickle.dumps(task)) for task in self._reader.partitions()]

    def read(self, tasks: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns the rows of tasks."""
        rows: list[dict[str, Any]] = []
        for task in tasks:
            for table in pickle.loads(pickle.dumps(self._reader)).read(task):
                rows += table.to_pylist()
        return rows
