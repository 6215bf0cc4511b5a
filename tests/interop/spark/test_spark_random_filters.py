"""Queries with random filters over random logs, in Spark: each gives the rows that Spark finds in a
copy of the same rows, which no source can leave out, and `count()` gives their number.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import TIME, write_segments

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import TimestampType
from kmirror.spark import spark_session

pytestmark = pytest.mark.interop

COLUMNS = "topic,partition,offset,timestamp,key,value,leader_epoch,is_control,position,segment,last_offset,base_offset"
KEY = ("topic", "partition", "offset")
OFFSETS = (-1, 0, 1, 3, 7, 2**31 - 3, 2**31, 2**33 + 2)
COMPARISONS = (">", ">=", "<", "<=", "=", "<>", "<=>")
QUERIES = 25


def random_batch(chance: random.Random, first: int) -> tuple[bytes, int]:
    """Returns a batch, some of whose records were compacted away, and its last offset."""
    last = first + chance.randrange(6)
    offsets = sorted(chance.sample(range(first, last + 1), chance.randrange(1, last - first + 2)))
    records = [
        Record(offset, chance.choice((-1, 0, TIME + chance.randrange(-20, 50))), chance.choice((None, b"", b"k")), b"v", [])
        for offset in offsets
    ]
    options: dict[str, Any] = {"compression": chance.choice(list(CompressionType)), "last_offset": last}
    if chance.random() < 0.3:
        options |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": TIME + chance.randrange(50)}
    return bytes(build_batch(records, base_offset=first, **options)), last


def random_logs(chance: random.Random, folder: Path) -> None:
    """Topics whose names are alike, with gaps, empty segments, and offsets around 2^31."""
    for topic in ("t", "tt", "T", "u.x"):
        for partition in range(chance.randrange(1, 4)):
            offset, segments = chance.choice((0, 0, 2**31 - 5, 2**33)), []
            for _ in range(chance.randrange(1, 4)):
                first, parts = offset, []
                for _ in range(chance.randrange(5)):
                    part, last = random_batch(chance, offset)
                    parts.append(part)
                    offset = last + chance.choice((1, 1, 6))
                segments.append((first, parts))
                offset = max(offset, first + 1)
            write_segments(folder / f"{topic}-{partition}", *segments)


def comparison(chance: random.Random) -> str:
    offset, time, sign = chance.choice(OFFSETS), TIME + chance.randrange(-30, 60), chance.choice(COMPARISONS)
    topic, partition = chance.choice(("t", "T", "u.x", "", "nope")), chance.randrange(-1, 3)
    return chance.choice(
        (
            *(f"offset {sign} {offset}", f"offset in ({offset}, {offset + 1}, null)", f"offset between {offset - 3} and {offset + 3}"),
            *(f"topic {sign} '{topic}'", f"topic in ('{topic}', null)", "topic like 't%'", "topic like '%x'", "upper(topic) = 'T'"),
            *(f"partition {sign} {partition}", "partition in (0, 2)", "partition = '1'", "partition > 0.5", "offset is null"),
            *(f"timestamp {sign} timestamp_millis({time})", f"unix_millis(timestamp) > {time}", "timestamp > date'2025-06-15'"),
            *(
                "key is null",
                f"last_offset >= {offset}",
                f"base_offset = {offset}",
                "segment like '%5.log'",
                "position = 0",
                "not is_control",
            ),
        )
    )


def condition(chance: random.Random, depth: int = 2) -> str:
    kind = "" if depth == 0 else chance.choice(("", "and", "or", "not"))
    if kind == "not":
        return f"not ({condition(chance, depth - 1)})"
    return f"({condition(chance, depth - 1)} {kind} {condition(chance, depth - 1)})" if kind else comparison(chance)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.round)])
def test_a_filter_leaves_the_rows_that_it_leaves_without_a_source(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    random_logs(chance, tmp_path)
    session = spark_session("random-filters", 2)
    try:
        session.conf.set("spark.sql.session.timeZone", chance.choice(("UTC", "Asia/Kathmandu", "America/New_York")))

        def load(**options: str) -> Any:
            return session.read.format("kafka-log").options(columns=COLUMNS, **options).load(str(tmp_path))

        shared, copy = load(), session.createDataFrame(load().toArrow()).cache()
        for _ in range(QUERIES):
            wanted = condition(chance)
            expected = sorted(copy.where(wanted).select(*KEY).collect())
            frame = chance.choice((load(), shared, load(splitBytes="200"))).where(wanted)
            assert (sorted(frame.select(*KEY).collect()), frame.count()) == (expected, len(expected)), wanted
    finally:
        session.stop()
