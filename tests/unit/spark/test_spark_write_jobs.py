"""`df.write.format("kafka-log")` as Spark runs it: jobs of several tasks, save modes, shuffles,
failures.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batch, write_segments
from support.tools.spark_rows import read_rows

from kmirror.common.errors import KmirrorError
from kmirror.record.compression import CompressionType
from kmirror.spark import write_log

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "leader_epoch")


def source_log(path: Path) -> Path:
    """Two partitions in all codecs, with gaps and several leader epochs."""
    for partition in range(2):
        parts = [batch(100 * number, 20, epoch=number // 2, codec=codec) for number, codec in enumerate(CompressionType)]
        write_segments(path / f"t-{partition}", (0, parts[:3]), (300, parts[3:]))
    return path


def copied_rows(path: Path) -> list[dict[str, Any]]:
    return sorted(read_rows(path, columns=",".join(COLUMNS)), key=lambda row: (row["partition"], row["offset"]))


def test_a_log_that_is_read_and_written_is_the_same_records(spark, tmp_path) -> None:
    source = source_log(tmp_path / "source")
    frame = spark.read.format("kafka-log").option("splitBytes", "4000").load(str(source))
    assert frame.rdd.getNumPartitions() > 1
    frame.write.format("kafka-log").option("compression.type", "lz4").save(str(tmp_path / "copy"))
    assert copied_rows(tmp_path / "copy") == copied_rows(source)
    kafka = spark.read.format("kafka-log").options(kafkaCompatible="true", includeHeaders="true").load(str(source))
    kafka.write.format("kafka-log").options(leaderEpoch="3", **{"segment.bytes": "900"}).mode("overwrite").save(str(tmp_path / "copy"))
    assert copied_rows(tmp_path / "copy") == [{**row, "leader_epoch": 3} for row in copied_rows(source)]


def test_save_modes_are_sparks(spark, tmp_path) -> None:
    path = str(tmp_path / "d")
    frame = spark.range(6, numPartitions=2).selectExpr("cast(id as string) value", "'t' topic", "cast(id % 2 as int) partition")
    frame.write.format("kafka-log").save(path)
    with pytest.raises(Exception, match="has logs already; append to them with mode") as raised:
        frame.write.save(path, format="kafka-log", mode="errorifexists")
    assert "Traceback" not in str(raised.value)
    frame.write.format("kafka-log").mode("ignore").option("path", path).save()
    assert len(read_rows(path)) == 6
    frame.write.format("kafka-log").mode("append").save(path)
    assert [row["value"] for row in read_rows(path) if row["partition"] == 1] == [b"1", b"3", b"5"] * 2
    frame.limit(1).write.format("kafka-log").mode("overwrite").save(path)
    assert len(read_rows(path)) == 1


def test_jobs_in_threads_of_the_driver_write_too(spark, tmp_path) -> None:
    """Spark finds no Python source in a thread without an active session."""

    def append(partition: int) -> None:
        frame = spark.range(3, numPartitions=1).selectExpr("cast(id as string) value", "'t' topic", f"{partition} partition")
        frame.write.format("kafka-log").mode("append").save(str(tmp_path / f"d{partition}"))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(append, range(2)))
    assert [len(read_rows(tmp_path / f"d{partition}")) for partition in range(2)] == [3, 3]


def test_a_frame_in_no_order_is_refused_and_write_log_sorts_it(spark, tmp_path) -> None:
    frame = spark.range(200, numPartitions=1).selectExpr("id offset", "cast(id as string) value", "cast(id % 3 as int) partition")
    mixed = frame.repartition(4)
    with pytest.raises(Exception, match="kmirror.spark.write_log sorts"):
        mixed.write.format("kafka-log").option("topic", "t").save(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()
    write_log(mixed, str(tmp_path / "d"), topic="t", compression_type="zstd")
    rows = sorted(read_rows(tmp_path / "d", columns="offset,value,partition"), key=lambda row: row["offset"])
    assert [(row["offset"], int(row["value"]), row["partition"]) for row in rows] == [(n, n, n % 3) for n in range(200)]
    with pytest.raises(KmirrorError, match="write_log shuffles by column partition, which the frame does not have"):
        write_log(frame.drop("partition"), str(tmp_path / "e"), topic="t")


def test_a_job_that_fails_leaves_nothing(spark, tmp_path) -> None:
    frame = spark.range(100, numPartitions=1).selectExpr(
        "cast(if(id = 99, raise_error('no such order'), id) as string) value", "'t' topic", "0 partition"
    )
    with pytest.raises(Exception, match="no such order"):
        frame.write.format("kafka-log").save(str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()
    with pytest.raises(Exception, match="column value must be of type binary or string, not bigint") as raised:
        spark.range(1).selectExpr("id value").write.format("kafka-log").save(str(tmp_path / "d"))
    assert "Traceback" not in str(raised.value)
