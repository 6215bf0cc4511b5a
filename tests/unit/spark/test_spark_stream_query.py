"""`readStream` of `kafka-log` in streaming queries: checkpoints, restarts in the middle, triggers,
errors as the user sees them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments
from support.waiting import PROGRAM_S

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

Seen = list[tuple[int, list[tuple[int, int]]]]


def high_watermarks(data: Path, *offsets: int) -> None:
    """Of t-0, t-1 ..."""
    lines = [f"t {partition} {offset}" for partition, offset in enumerate(offsets)]
    (data / "replication-offset-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def run(spark: Any, data: Path, seen: Seen, trigger: str, *, dies_at: int = -1, **options: str) -> Any:
    """A query to its end, with what each batch saw: its number, and (partition, offset) of its
    records.
    """

    def take(frame: Any, number: int) -> None:
        seen.append((number, sorted((row.partition, row.offset) for row in frame.collect())))
        if number == dies_at:
            raise RuntimeError("the machine died")

    stream = spark.readStream.format("kafka-log").options(startingOffsets="earliest", **options).load(str(data))
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(data.parent / "checkpoint"))
    query = writer.trigger(**{trigger: True}).start()
    assert query.awaitTermination(PROGRAM_S)
    return query


def test_a_query_goes_on_where_its_checkpoint_says(spark: Any, tmp_path: Path) -> None:
    data, seen = tmp_path / "data", []
    write_segments(data / "t-0", (0, batches(4)), (20, batches(2, first=20)))
    write_log(data / "t-1", *batches(2))
    high_watermarks(data, 30, 10)
    with pytest.raises(Exception, match="the machine died"):
        run(spark, data, seen, "availableNow", dies_at=1, maxOffsetsPerTrigger="16")
    (died, rows) = seen.pop()
    assert (died, len(rows)) == (1, 15)
    write_segments(data / "t-0", (30, batches(4, first=30)))
    high_watermarks(data, 50, 10)
    again: Seen = []
    query = run(spark, data, again, "availableNow", maxOffsetsPerTrigger="16")
    assert again[0] == (1, rows), "the batch that died, with the same rows, though more is there by now"
    assert [number for number, _ in again] == list(range(1, len(again) + 1)) and len(again) > 2
    assert sorted(row for _, rows in seen + again for row in rows) == [(0, offset) for offset in range(50)] + [
        (1, offset) for offset in range(10)
    ]
    last = query.lastProgress.sources[0]
    assert json.loads(last.endOffset) == {"t": {"0": {"offset": 50, "leaderEpoch": 0}, "1": {"offset": 10, "leaderEpoch": 0}}}
    assert json.loads(last.latestOffset) == json.loads(last.endOffset)

    write_segments(data / "t-0", (30, [*batches(2, first=30), *(batch(first, epoch=2) for first in range(40, 60, 5))]))
    high_watermarks(data, 60, 10)
    with pytest.raises(Exception) as raised:
        run(spark, data, again, "once")
    assert "t-0 was truncated: offset 50 was next, behind leader epoch 0, but epoch 0 ends at offset 40 and leader epoch 2" in str(
        raised.value
    )
    assert "Traceback" not in str(raised.value)
    once: Seen = []
    run(spark, data, once, "once", failOnDataLoss="false", maxOffsetsPerTrigger="5")
    assert [rows for _, rows in once] == [[(0, offset) for offset in range(40, 60)]], "one batch, whatever the limit"


def test_a_first_batch_whose_sink_failed_begins_where_it_began(spark: Any, tmp_path: Path) -> None:
    """Spark asks for the initial offsets again then, and the records that retention had deleted
    meanwhile were missing without a word."""
    data = tmp_path / "data"
    folder = write_segments(data / "t-0", (0, batches(4)), (20, batches(4, first=20)))
    write_log(data / "t-1", *batches(2))
    high_watermarks(data, 40, 10)
    seen: Seen = []
    with pytest.raises(Exception, match="the machine died"):
        run(spark, data, seen, "availableNow", dies_at=0, maxOffsetsPerTrigger="20")
    write_segments(folder, (40, batches(1, first=40)))
    high_watermarks(data, 45, 10)
    (folder / f"{0:020}.log").unlink()
    with pytest.raises(Exception) as raised:
        run(spark, data, [], "availableNow")
    assert "offsets 0 to 19 of t-0 were deleted before they were read: the log begins at offset 20" in str(raised.value)
    again: Seen = []
    run(spark, data, again, "availableNow", failOnDataLoss="false")
    assert again[0] == (0, [row for row in seen[0][1] if row[0] == 1 or row[1] >= 20])
    assert [row for _, rows in again for row in rows if row[0] == 0] == [(0, offset) for offset in range(20, 45)]


def test_a_stream_over_an_empty_folder_waits_for_its_first_log(spark: Any, tmp_path: Path) -> None:
    """It ended with an error."""
    data = tmp_path / "data"
    data.mkdir()
    stream = spark.readStream.format("kafka-log").options(startingOffsets="latest").load(str(data))
    query = stream.select("offset").writeStream.format("memory").queryName("waited").start()
    try:
        query.processAllAvailable()
        write_log(data / "t-0", *batches(2))
        high_watermarks(data, 10)
        query.processAllAvailable()
        assert [row.offset for row in spark.sql("select * from waited order by offset").collect()] == list(range(10))
    finally:
        query.stop()


def test_a_running_query_follows_the_log(spark: Any, tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = write_log(data / "t-0", *batches(2))
    high_watermarks(data, 10)
    options = {"kafkaCompatible": "true", "subscribe": "t", "includeHeaders": "true", "startingOffsets": "earliest", "kafka.group.id": "x"}
    stream = (
        spark.readStream.format("kafka-log").options(**options).load(str(data)).selectExpr("partition", "offset", "cast(value as string) v")
    )
    query = stream.writeStream.format("memory").queryName("followed").start()
    try:
        query.processAllAvailable()
        write_log(folder, *batches(4))
        write_segments(folder, (20, batches(1, first=20)))
        write_log(data / "t-1", *batches(1))
        high_watermarks(data, 25, 5)
        query.processAllAvailable()
        rows = spark.sql("select * from followed order by partition, offset").collect()
    finally:
        query.stop()
    expected = [(0, offset) for offset in range(25)] + [(1, offset) for offset in range(5)]
    assert [(row.partition, row.offset) for row in rows] == expected
    assert {row.v for row in rows} == {f"value-{offset}" for offset in range(25)}


def test_a_stream_that_is_written_is_told_of_foreach_batch_in_one_line(spark: Any, tmp_path: Path) -> None:
    """PySpark's traceback said that streamWriter is not implemented."""
    write_log(tmp_path / "data" / "t-0", *batches(1))
    high_watermarks(tmp_path / "data", 5)
    stream = spark.readStream.format("kafka-log").load(str(tmp_path / "data"))
    writer = stream.writeStream.format("kafka-log").options(path=str(tmp_path / "d"), checkpointLocation=str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"a stream cannot be written to a log.dir directly; .*foreachBatch\(") as raised:
        writer.trigger(once=True).start().awaitTermination(PROGRAM_S)
    assert "Traceback" not in str(raised.value) and not (tmp_path / "d").exists()


def test_a_query_waits_for_the_offsets_that_a_micro_batch_has_to_have(spark: Any, tmp_path: Path) -> None:
    data, seen = tmp_path / "data", []

    def add(count: int) -> None:
        write_log(data / "t-0", *batches(count))

    def take(frame: Any, number: int) -> None:
        seen.append(frame.count())

    add(1)
    options = {"startingOffsets": "earliest", "readUpTo": "logEndOffset", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1d"}
    stream = spark.readStream.format("kafka-log").options(**options).load(str(data))
    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        assert seen == [5]
        add(2)
        query.processAllAvailable()
        assert seen == [5], "five offsets are too few"
        add(3)
        query.processAllAvailable()
        assert seen == [5, 10]
    finally:
        query.stop()
