"""What a trigger of a stream costs its driver, by how many partitions moved, and what reading
through a stream's tasks costs beside the batch source's.

One process, without a JVM: CPU seconds of what Spark calls. The tasks of both sources read the same
log, key and value, in turn.
"""

from __future__ import annotations

import functools
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from benches.data import batch, json_records
from benches.harness import MB, Context, Row, in_turn, median, median_ratio
from kmirror.record.compression import CompressionType

NAME = "00000000000000000000.log"
RECORDS = 100


def run(context: Context) -> Iterator[Row]:
    count = context.choose(50, 2_000)
    data = context.folder / "many"
    fill(data, count, batches=5)
    for label, moves, options in (
        ("a trigger without news", False, {}),
        ("a trigger where every partition moved", True, {}),
        ("the same with maxBytesPerTrigger", True, {"maxBytesPerTrigger": str(10 * MB)}),
    ):
        costs = [trigger(data, count, moves=moves, options=options) for _ in range(context.choose(1, 5))]
        yield Row("spark_stream", label, median(costs) / count * 1e6, "CPU-ms/1,000 partitions", "-", None, note=f"{count} partitions")
    large = context.folder / "large"
    fill(large, 1, batches=context.choose(50, 20_000))
    size = (large / "t-0" / NAME).stat().st_size / MB
    bare, streamed = in_turn(context.choose(1, 3), lambda: cpu(lambda: read_batch(large)), lambda: cpu(lambda: read_stream(large)))
    note = f"{size:.0f} MB; {median_ratio(bare, streamed):.2f} of the batch source"
    yield Row(
        "spark_stream", "key and value", size / median(streamed), "MB/CPU-s", "-", None, "the batch source", size / median(bare), note=note
    )


@functools.cache
def one_batch() -> bytes:
    return bytes(batch(json_records(RECORDS), compression=CompressionType.LZ4))


def cpu(measure: Callable[[], Any]) -> float:
    began = time.process_time()
    measure()
    return time.process_time() - began


def fill(data: pathlib.Path, partitions: int, *, batches: int) -> None:
    """Logs, each with all of itself below the high watermark."""
    for partition in range(partitions):
        folder = data / f"t-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        append(folder / NAME, 0, batches)
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    watermarks(data, partitions, batches)


def append(path: pathlib.Path, first: int, batches: int) -> None:
    made = bytearray(one_batch())
    with path.open("ab") as file:
        for index in range(first, first + batches):
            made[:8] = (index * RECORDS).to_bytes(8, "big")
            file.write(made)


def watermarks(data: pathlib.Path, partitions: int, batches: int) -> None:
    lines = [f"t {partition} {batches * RECORDS}" for partition in range(partitions)]
    (data / "replication-offset-checkpoint").write_text("\n".join(["0", str(partitions), *lines, ""]))


def stream(data: pathlib.Path, options: dict[str, str]) -> Any:
    from kmirror.spark.options import ReadOptions
    from kmirror.spark.stream_reader import KafkaLogStreamReader

    given = {"path": str(data), "startingOffsets": "earliest", "columns": "key,value", **options}
    return KafkaLogStreamReader(ReadOptions.parse(given, for_stream=True))


def trigger(data: pathlib.Path, partitions: int, *, moves: bool, options: dict[str, str]) -> float:
    """CPU seconds of `latestOffset` and `partitions`, of a query that had read everything."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = stream(data, options)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    if moves:
        batches = (data / "t-0" / NAME).stat().st_size // len(one_batch())
        for partition in range(partitions):
            append(data / f"t-{partition}" / NAME, batches, 1)
        watermarks(data, partitions, batches + 1)
    return cpu(lambda: reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit())))


def read_stream(data: pathlib.Path) -> int:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = stream(data, {})
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    return sum(table.num_rows for task in tasks for table in reader.read(task))


def read_batch(data: pathlib.Path) -> int:
    from kmirror.spark.data_source import KafkaLogReader
    from kmirror.spark.options import ReadOptions

    reader = KafkaLogReader(ReadOptions.parse({"path": str(data), "columns": "key,value"}))
    return sum(table.num_rows for task in reader.partitions() for table in reader.read(task))
