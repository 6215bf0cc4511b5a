"""Timestamps that clocks do not show: before 1970, after year 9999, and at the ends of 64 bits.
Records may have them, and so may filters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import write_segments

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.spark.filters import FarTime, Pushed

LAST = (1 << 63) - 1
MOST = LAST // 1000
"""The last ms whose microseconds fit 64 bits."""
YEAR_10000 = 253_402_300_800_000
TIMES = [-1, -2, -5_000_000_000, -62_135_596_800_001, -LAST - 1, 0, 1_750_000_000_000, YEAR_10000, MOST, MOST + 1, LAST]
FITTING = [time for time in TIMES if -MOST < time <= MOST]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A batch for each time."""
    parts = [build_batch([Record(offset, time, b"k", b"v", [])], base_offset=offset) for offset, time in enumerate(TIMES)]
    return write_segments(tmp_path_factory.mktemp("far") / "t-0", (0, [bytes(part) for part in parts])).parent


@pytest.mark.parametrize(
    "condition, wanted",
    [
        ("timestamp >= timestamp_micros(300000000000000000)", lambda time: time >= 300_000_000_000_000),
        ("timestamp > timestamp_micros(9223372036854774000)", lambda time: time > 9_223_372_036_854_774),
        ("timestamp = timestamp_micros(253402300800000000)", lambda time: time == YEAR_10000),
        ("timestamp in (timestamp_micros(253402300800000000), timestamp_micros(0))", lambda time: time in (YEAR_10000, 0)),
        ("timestamp < timestamp_micros(300000000000000000)", lambda time: time < 300_000_000_000_000),
        ("timestamp > timestamp_micros(-62135596800000001)", lambda time: time >= -62_135_596_800_000),
        ("timestamp > timestamp_micros(-9000000000000000000)", lambda time: time > -9_000_000_000_000_000),
        ("timestamp >= timestamp'9999-12-31 23:59:59.999999'", lambda time: time >= YEAR_10000),
    ],
)
def test_a_filter_may_have_a_time_that_python_does_not(spark: Any, log: Path, condition: str, wanted: Any) -> None:
    """Spark's planning worker failed on it, before it asked the source."""
    rows = spark.read.format("kafka-log").load(str(log)).where(condition).select("offset", "timestamp_type").collect()
    assert [TIMES[row.offset] for row in rows] == [time for time in FITTING if wanted(time)]
    assert spark.read.format("kafka-log").load(str(log)).where(condition).count() == len(rows)


def test_a_far_time_is_a_lower_bound_as_any_other() -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThan

    pushed = Pushed()
    assert pushed.push([GreaterThan(("timestamp",), FarTime(-300_000_000_000_000_001))]) == []
    assert pushed.time_low == -300_000_000_000_001
    assert pushed.push([EqualTo(("timestamp",), FarTime(300_000_000_000_000_999))]) == []
    assert pushed.time_low == 300_000_000_000_000


def test_another_source_is_not_told_of_far_times(spark: Any, log: Path) -> None:
    """The worker's own way of reading filters is back once ours are read."""
    from pyspark.sql.variant_utils import VariantUtils

    from kmirror.spark.data_source import PushingReader
    from kmirror.spark.options import ReadOptions

    before = VariantUtils.__dict__["_get_timestamp"]
    reader = PushingReader(ReadOptions.parse({"path": str(log)}), "0" * 32)
    assert VariantUtils.__dict__["_get_timestamp"] is not before
    list(reader.pushFilters([]))
    assert VariantUtils.__dict__["_get_timestamp"] is before


def test_times_at_the_ends_are_written_and_read(spark: Any, tmp_path: Path) -> None:
    times = [LAST, 0, YEAR_10000, LAST, -1, MOST + 1]
    frame = spark.createDataFrame([(time,) for time in times], "timestamp_ms bigint").coalesce(1)
    frame.selectExpr("'t' topic", "0 partition", "timestamp_ms", "'v' value").write.format("kafka-log").mode("append").save(str(tmp_path))
    read = spark.read.format("kafka-log").option("columns", "timestamp_ms,timestamp").load(str(tmp_path))
    rows = read.selectExpr("timestamp_ms", "unix_micros(timestamp) us").collect()
    assert [(row.timestamp_ms, row.us) for row in rows] == [(time, time * 1000 if time <= MOST else None) for time in times]
