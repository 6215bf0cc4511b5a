"""Random logs, read by random queries, against all their records filtered one by one.

The logs have gaps, empty batches, compacted batches, every codec, and offset indexes that are
sound, missing or wrong. The queries have ends, filters that are pushed down, and slices of a few
bytes. What is pushed may leave more rows, which Spark filters again, and never fewer.
"""

from __future__ import annotations

import json
import operator
import pickle
import random
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.logs.log_folders import TIME, write_segments

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from pyspark.sql import datasource as spark

from kmirror.record.builder import assemble, build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.spark.data_source import KafkaLogReader
from kmirror.spark.filters import Pushed
from kmirror.spark.options import ReadOptions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS = {
    spark.EqualTo: operator.eq,
    spark.EqualNullSafe: operator.eq,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
}
Test = Callable[[int, int], bool]
"""Of an offset and a time in ms."""


class Row(NamedTuple):
    offset: int
    time: int
    key: bytes | None
    value: bytes | None


class RandomLog:
    """Segments of `t-0` in a folder, and their records."""

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self._chance = chance
        self.rows: list[Row] = []
        self._next = chance.choice([0, 7, 1 << 33])
        for _ in range(chance.randint(1, 4)):
            self._write_segment(folder)

    def _write_segment(self, folder: Path) -> None:
        base_offset = self._next
        parts: list[bytes] = []
        entries: list[tuple[int, int]] = []
        for _ in range(self._chance.randint(1, 25)):
            position = sum(map(len, parts))
            parts.append(self._batch())
            if position and self._chance.random() < 0.4:
                entries.append((self._next - 1 - base_offset, position))
        write_segments(folder, (base_offset, parts))
        shift = self._chance.choice([(0, 0), (0, 0), (9, 0), (60, 0), (0, 1), None])
        if shift is not None:
            index = [struct.pack(">ii", offset + shift[0], position + shift[1]) for offset, position in entries]
            (folder / f"{base_offset:020d}.index").write_bytes(b"".join(index) + bytes(self._chance.choice([0, 80])))

    def _batch(self) -> bytes:
        chance = self._chance
        first = self._next + chance.choice([0, 0, 0, 1, 5])
        count = chance.randint(0, 6)
        span = max(count, 1) + chance.choice([0, 0, 3])
        rows = [
            Row(offset, TIME + chance.randint(-50, 50), chance.choice([None, b"", b"k"]), chance.choice([None, b"", b"v" * 40]))
            for offset in sorted(chance.sample(range(first, first + span), count))
        ]
        self.rows += rows
        self._next = first + span
        if rows:
            records = [Record(row.offset, row.time, row.key, row.value, []) for row in rows]
            codec = chance.choice(list(CompressionType))
            return bytes(build_batch(records, base_offset=first, last_offset=self._next - 1, compression=codec))
        nothing = {"partition_leader_epoch": 0, "attributes": 0, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
        times = {"base_timestamp": -1, "max_timestamp": -1}
        return bytes(assemble(b"", base_offset=first, last_offset_delta=span - 1, record_count=0, **nothing, **times))

    def offset(self) -> int:
        return self._chance.choice(self.rows).offset + self._chance.randint(-2, 2) if self.rows else 0

    def filter(self) -> tuple[Any, Test]:
        """A filter as Spark pushes it, and the same as a test."""
        kind, compare = self._chance.choice(list(COMPARISONS.items()))
        offset = self.offset()
        time = EPOCH + timedelta(milliseconds=TIME + self._chance.randint(-50, 50), microseconds=self._chance.choice([0, 1, 999]))
        number, topic = self._chance.choice([0, 1]), self._chance.choice(["t", "u"])
        made: list[tuple[Any, Test]] = [
            (kind(("offset",), offset), lambda row, _: bool(compare(row, offset))),
            (kind(("timestamp",), time), lambda _, ms: bool(compare(EPOCH + timedelta(milliseconds=ms), time))),
            (kind(("partition",), number), lambda *_: bool(compare(0, number))),
            (kind(("topic",), topic), lambda *_: bool(compare("t", topic))),
            (spark.In(("offset",), (offset, offset + 1, None)), lambda row, _: row in (offset, offset + 1)),
            (spark.Not(spark.EqualTo(("offset",), offset)), lambda row, _: row != offset),
        ]
        return self._chance.choice(made)


def rows_of(path: Path, options: dict[str, str], filters: list[Any]) -> list[dict[str, Any]]:
    reader = KafkaLogReader(ReadOptions.parse({"path": str(path), **options}))
    reader.pushed = Pushed()
    reader.pushed.push(filters)
    return [
        row
        for task in reader.partitions()
        for table in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(task)))
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("seed", range(40))
def test_a_query_gives_the_records_that_its_filters_and_ends_leave(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = RandomLog(chance, tmp_path / "t-0")
    for _ in range(5):
        options = {"splitBytes": str(chance.choice([1, 300, 3_000, 1 << 30])), "failOnDataLoss": "false"}
        options["columns"] = chance.choice(["offset", "offset,position", "offset,timestamp_ms,key,value"])
        options["mode"] = chance.choice(["FAILFAST", "PERMISSIVE"])
        low, end = (chance.choice([None, max(log.offset(), 0)]) for _ in range(2))
        if low is not None and end is not None:
            low, end = min(low, end), max(low, end)
        options |= {} if low is None else {"startingOffsets": json.dumps({"t": {"0": low}})}
        options |= {} if end is None else {"endingOffsets": json.dumps({"t": {"0": end}})}
        filters = [log.filter() for _ in range(chance.choice([0, 1, 2]))]
        expected = [
            row
            for row in log.rows
            if (low is None or row.offset >= low) and (end is None or row.offset < end) and all(test(*row[:2]) for _, test in filters)
        ]
        left = {row.offset for row in expected}
        found = rows_of(tmp_path, options, [pushed for pushed, _ in filters])
        assert all(row.get("_corrupt") is None for row in found), (seed, options)
        names = ["offset", "timestamp_ms", "key", "value"] if "value" in options["columns"] else ["offset"]
        kept = [tuple(row[name] for name in names) for row in found if row["offset"] in left]
        assert kept == [row[: len(names)] for row in expected], (seed, options, filters)
        if not filters:
            assert len(found) == len(expected)
