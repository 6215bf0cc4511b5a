"""`count()` reads headers: the same numbers as Spark's own count, of plans of every kind, and what
it does not read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import TIME, batch, batches, write_log

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")

from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.spark.counting import counting_frame

PLANS: dict[str, tuple[Callable[[Any], Any], list[str] | None]] = {
    "all": (lambda frame: frame, ["n"]),
    "facts of batches": (lambda frame: frame.where("topic = 't' and not is_control and leader_epoch = 0"), ["n"]),
    "chosen columns": (lambda frame: frame.select("topic", "value").where("topic = 'u'").select("value"), ["n"]),
    "nothing": (lambda frame: frame.where("topic = 'nope'"), ["n"]),
    "offsets": (lambda frame: frame.where("offset between 7 and 21"), ["offset", "position"]),
    "values": (lambda frame: frame.where("value like 'value-1%'"), ["position", "value"]),
    "made columns": (lambda frame: frame.selectExpr("offset % 2 as odd").where("odd = 1"), None),
    "chance": (lambda frame: frame.where("rand(1) >= 0"), None),
    "a subquery": (lambda frame: frame.where("partition in (select 1)"), None),
    "a group": (lambda frame: frame.groupBy("topic").count(), None),
    "a join": (lambda frame: frame.alias("a").join(frame.alias("b"), ["topic", "partition", "offset"]), None),
    "a limit": (lambda frame: frame.limit(3), None),
    "distinct": (lambda frame: frame.select("topic").distinct(), None),
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counted")
    sparse = bytes(build_batch([Record(offset, TIME, b"k", None, []) for offset in (50, 53, 59)], base_offset=50, last_offset=61))
    write_log(folder / "t-0", *batches(10), sparse)
    write_log(folder / "t-1", *batches(2))
    write_log(folder / "u-0", *batches(1))
    return folder


@pytest.mark.parametrize("name", PLANS)
def test_a_count_is_that_of_spark(spark: Any, data_dir: Path, name: str) -> None:
    plan, columns = PLANS[name]
    kinds: tuple[dict[str, str], ...] = ({}, {"rows": "batch"}) if name in ("all", "facts of batches", "nothing") else ({},)
    for options in kinds:
        frame = plan(spark.read.format("kafka-log").options(**options).load(str(data_dir)))
        counting = counting_frame(frame, "kafka-log")
        if not options:
            assert (None if counting is None else sorted(counting.columns)) == columns
        assert frame.count() == frame.selectExpr("count(1) as n").collect()[0].n


def test_a_count_reads_headers_alone(spark: Any, tmp_path: Path) -> None:
    """A CRC that is wrong and a body that cannot be decoded are no matter for a count; a length
    that hides the rest is.
    """
    torn = bytearray(batch(5))
    torn[70:] = bytes(len(torn) - 70)
    write_log(tmp_path / "t-0", batch(0), bytes(torn), batch(10))
    assert spark.read.format("kafka-log").load(str(tmp_path)).count() == 15
    assert spark.read.format("kafka-log").option("mode", "PERMISSIVE").load(str(tmp_path)).count() == 11
    assert spark.read.format("kafka-log").option("mode", "DROPMALFORMED").load(str(tmp_path)).count() == 10
    torn[8:12] = b"\x7f\0\0\0"
    write_log(tmp_path / "t-0", batch(0), bytes(torn), batch(10))
    with pytest.raises(Exception, match="a whole batch begins at byte"):
        spark.read.format("kafka-log").load(str(tmp_path)).count()


def test_counts_and_queries_of_one_frame_do_not_disturb_each_other(spark: Any, data_dir: Path) -> None:
    frame = spark.read.format("kafka-log").load(str(data_dir))
    assert (frame.where("topic = 'u'").count(), frame.count()) == (5, 68)
    assert len(frame.where("topic = 'u'").collect()) == 5 and len(frame.collect()) == 68
    assert frame.where("offset = 3").count() == 3 and frame.where("topic = 't'").count() == 63


def test_a_count_of_what_is_cached_fills_the_cache_and_is_that_of_its_rows(spark: Any, tmp_path: Path) -> None:
    """The log goes on; the rows of a cached frame, and so its count, do not."""
    write_log(tmp_path / "t-0", *batches(2))
    frame = spark.read.format("kafka-log").option("columns", "offset").load(str(tmp_path))
    assert frame.count() == 10, "its execution is older than its cache"
    frame.cache()
    try:
        assert frame.count() == 10
        assert [info.isCached() for info in spark.sparkContext._jsc.sc().getRDDStorageInfo()] == [True]
        write_log(tmp_path / "t-0", *batches(4))
        assert (frame.count(), frame.where("offset > 3").count(), len(frame.collect())) == (10, 6, 10)
    finally:
        frame.unpersist()
    assert frame.count() == 20 and counting_frame(frame, "kafka-log") is not None
