"""Runs a `kafka-log` stream as Spark does, without Spark: positions are JSON text, and tasks and
readers are pickled.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit

from kmirror.spark.options import ReadOptions
from kmirror.spark.stream_reader import KafkaLogStreamReader

Rows = list[dict[str, Any]]


class StreamRun:
    """One streaming query with its checkpoint. `restart` starts it as a new process.

    Options are keyword arguments with underscores for dots.
    """

    def __init__(self, path: Path | str, *, log_end: bool = True, **options: str) -> None:
        self.options = {
            "path": str(path),
            "startingOffsets": "earliest",
            **{name.replace("_", "."): text for name, text in options.items()},
        }
        if log_end:
            self.options.setdefault("readUpTo", "logEndOffset")
        self.history: list[tuple[str, str]] = []
        self.position: str | None = None
        self.restart()

    def restart(self) -> None:
        self.reader = KafkaLogStreamReader(ReadOptions.parse(self.options, for_stream=True))

    def plan(self, limit: ReadLimit | None = None) -> tuple[str, str]:
        """Returns the start and end positions of the next batch."""
        if self.position is None:
            self.position = json.dumps(self.reader.initialOffset())
        wanted = self.reader.getDefaultReadLimit() if limit is None else limit
        return self.position, json.dumps(self.reader.latestOffset(json.loads(self.position), wanted))

    def tasks(self, start: str, end: str) -> list[Any]:
        return [pickle.loads(pickle.dumps(task)) for task in self.reader.partitions(json.loads(start), json.loads(end))]

    def read(self, tasks: list[Any]) -> Rows:
        reader = pickle.loads(pickle.dumps(KafkaLogStreamReader(self.reader.options)))
        return [row for task in tasks for table in reader.read(task) for row in table.to_pylist()]

    def between(self, start: str, end: str) -> Rows:
        return self.read(self.tasks(start, end))

    def run_first_again(self, end: str) -> Rows:
        """Returns the first batch as it is run after a restart: its end is in the checkpoint, and
        its start is asked for again, as Spark does."""
        self.restart()
        rows = self.between(json.dumps(self.reader.initialOffset()), end)
        self.position = end
        return rows

    def batch(self, limit: ReadLimit | None = None) -> Rows:
        """Returns the next batch; empty if there is nothing new."""
        start, end = self.plan(limit)
        if start == end:
            return []
        rows = self.between(start, end)
        self.history.append((start, end))
        self.position = end
        return rows

    def rest(self) -> Iterator[Rows]:
        """Yields batches until there is nothing new."""
        while True:
            before = self.position
            rows = self.batch()
            if self.position == before or not self.history:
                return
            yield rows
