"""What a task of `df.write.format("kafka-log")` does with Arrow columns, and the commit, against
building the same batches record by record.

MB of keys and values by CPU second of this process; both sides compress with lz4, in turn; the
builder writes no file. Spark's own part (making the Arrow columns) is not in it.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benches.data import json_records
from benches.harness import MB, Context, Row, in_turn, median, median_ratio
from kmirror.record.builder import RecordBatchBuilder
from kmirror.record.compression import CompressionType

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.tools.spark_writes import table, writer_for

ROWS = 10_000
CASES = (("records of 1 KB", 1), ("records of 100 bytes", 10))
TARGET = 2.0


def columns(cuts: int) -> pa.RecordBatch:
    """`ROWS` records; each value is one of `cuts` parts of a JSON text."""
    values = [value[: len(value) // cuts] for value in json_records(ROWS)]
    keys = [b"key-%d" % row for row in range(ROWS)]
    times = [1_750_000_000_000 + row for row in range(ROWS)]
    return table(topic=["t"] * ROWS, partition=[0] * ROWS, key=keys, value=values, timestamp_ms=times)


def written(folder: pathlib.Path, batch: pa.RecordBatch, repeats: int) -> tuple[float, float]:
    """CPU seconds of the task, of the commit."""
    writer = writer_for(folder / "log", batch.schema, compression_type="lz4")
    began = time.process_time()
    message = writer.write(iter([batch] * repeats))
    done = time.process_time()
    writer.commit([message])
    used = time.process_time() - done
    shutil.rmtree(folder / "log")
    return done - began, used


def built_one_by_one(batch: pa.RecordBatch, repeats: int, records_per_batch: int) -> float:
    offset = 0
    began = time.process_time()
    for _ in range(repeats):
        keys, values, times = (batch.column(name).to_pylist() for name in ("key", "value", "timestamp_ms"))
        for start in range(0, ROWS, records_per_batch):
            builder = RecordBatchBuilder(base_offset=offset, compression=CompressionType.LZ4)
            for row in range(start, min(start + records_per_batch, ROWS)):
                builder.append(offset, times[row], keys[row], values[row], [])
                offset += 1
            builder.build()
    return time.process_time() - began


def run(context: Context) -> Iterator[Row]:
    repeats = context.choose(2, 40)
    for name, cuts in CASES:
        batch = columns(cuts)
        size = batch.column("key").nbytes + batch.column("value").nbytes
        commits: list[float] = []

        def ours(batch: Any = batch, commits: list[float] = commits) -> float:
            task, commit = written(context.folder, batch, repeats)
            commits.append(commit)
            return task

        def theirs(batch: Any = batch, size: int = size) -> float:
            return built_one_by_one(batch, repeats, max(ROWS * (256 << 10) // size, 1))

        context.say(f"spark_write: {name}")
        tasks, builders = in_turn(3, ours, theirs)
        megabytes, ratio = size * repeats / MB, median_ratio(builders, tasks)
        value, peer = megabytes / median(tasks), megabytes / median(builders)
        note = f"{ratio:.1f} x; {ROWS * repeats / median(tasks):,.0f} records a CPU-s; the commit {1000 * median(commits):.0f} ms"
        target = f">= {TARGET:g} x the builder, at 100 bytes"
        is_met = ratio >= TARGET if cuts > 1 else None
        yield Row("spark_write", name, value, "MB/CPU-s", target, is_met, peer="record by record", peer_value=peer, note=note)
