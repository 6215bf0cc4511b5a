"""`spark.read.format("kafka-log")`: rows, options, filters pushed down and what makes that safe,
errors.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from support.logs.golden_vectors import golden_dir, unpacked_stage
from support.logs.log_folders import TIME, batch, batches, write_log, write_segments
from support.logs.replay_stories import Story

from kmirror.cli.log_diff import main
from kmirror.common.errors import KmirrorError
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.record.record_batch import iter_batches

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """`t-0`: 50 offsets in three segments, the third lz4; `t-1`: 10 offsets and a PID reset; `u-0`:
    5 offsets.
    """
    parts = batches(10)
    packed = [batch(35, 10, codec=CompressionType.LZ4), batch(45, 5, codec=CompressionType.ZSTD, producer_id=7)]
    write_segments(tmp_path / "t-0", (0, parts[:4]), (20, parts[4:7]), (35, packed))
    reset = build_mirror_pid_reset("c" * 22, timestamp=TIME, base_offset=10, partition_leader_epoch=1)
    write_log(tmp_path / "t-1", *batches(2), bytes(reset))
    write_log(tmp_path / "u-0", *batches(1))
    return tmp_path


def load(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def test_a_row_a_record_with_every_column(spark: Any, data_dir: Path) -> None:
    rows = load(spark, data_dir).orderBy("topic", "partition", "offset").collect()
    assert [(row.topic, row.partition, row.offset) for row in rows] == [
        *(("t", 0, offset) for offset in range(50)),
        *(("t", 1, offset) for offset in range(11)),
        *(("u", 0, offset) for offset in range(5)),
    ]
    row = rows[47]
    assert (bytes(row.key), bytes(row.value)) == (b"k47", b"value-47")
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("h", b"1")]
    assert row.timestamp.astimezone(UTC).timestamp() * 1000 == pytest.approx(TIME + 47)
    assert (row.base_offset, row.last_offset, row.producer_id, row.sequence, row.compression) == (45, 49, 7, 47, "zstd")
    assert (row.segment, row.position) == (f"{35:020d}.log", len(batch(35, 10, codec=CompressionType.LZ4)))
    assert (rows[3].timestamp_type, rows[3].is_control, rows[3].control_type) == ("CreateTime", False, None)
    assert (rows[60].is_control, rows[60].control_type, rows[60].leader_epoch) == (True, "MIRROR_PID_RESET", 1)


def test_a_row_a_batch(spark: Any, data_dir: Path) -> None:
    rows = load(spark, data_dir, rows="batch").filter("topic = 't' and partition = 0").orderBy("base_offset").collect()
    assert [(row.base_offset, row.record_count) for row in rows] == [*((first, 5) for first in range(0, 35, 5)), (35, 10), (45, 5)]
    assert all(row.crc_valid and row.magic == 2 for row in rows)
    assert (rows[-1].last_sequence, rows[-1].compression, rows[-1].size_bytes) == (
        49,
        "zstd",
        len(batch(45, codec=CompressionType.ZSTD, producer_id=7)),
    )


def test_only_the_columns_that_were_asked_for(spark: Any, data_dir: Path) -> None:
    frame = load(spark, data_dir, columns="offset, value")
    assert frame.columns == ["offset", "value"]
    rows = {(row.offset, bytes(row.value)) for row in frame.collect()}
    assert rows >= {(offset, b"value-%d" % offset) for offset in range(50)} and len(rows) == 51, "and the control record at offset 10"


def test_filters_choose_tasks(spark: Any, data_dir: Path) -> None:
    narrow = load(spark, data_dir).filter("topic = 't' and partition = 0 and offset >= 22 and offset < 33")
    assert (narrow.rdd.getNumPartitions(), [row.offset for row in narrow.orderBy("offset").collect()]) == (1, list(range(22, 33)))
    assert load(spark, data_dir).filter("topic in ('u', 'v')").rdd.getNumPartitions() == 1
    assert load(spark, data_dir).filter("topic like 't%' and partition > 0").rdd.getNumPartitions() == 1


def test_the_least_time_chooses_segments_and_batches(spark: Any, tmp_path: Path) -> None:
    """Damage in what is older is not seen: neither a segment whose time index ends before, nor
    batches by their headers.
    """
    told = Story(tmp_path, 5, others=("roll",))
    told.tell(80)
    told.end()
    frame = load(spark, tmp_path)
    times = sorted(row.timestamp_ms for row in load(spark, tmp_path, columns="timestamp_ms").collect())
    for time in (times[0], times[len(times) // 2], times[-1], times[-1] + 1):
        expected = sum(one >= time for one in times)
        assert len(load(spark, tmp_path).where(f"timestamp >= timestamp_millis({time})").collect()) == expected
        assert frame.where(f"timestamp >= timestamp_millis({time})").count() == expected
    first = min((tmp_path / "t-0").glob("*.log"))
    first.write_bytes(b"\xff" * first.stat().st_size)
    assert len(load(spark, tmp_path).where(f"timestamp >= timestamp_millis({times[-1]})").collect()) == sum(
        one == times[-1] for one in times
    )


def test_what_is_filtered_out_is_not_read(spark: Any, data_dir: Path) -> None:
    write_log(data_dir / "t-1", batch(0), b"\xff" * 80)
    assert load(spark, data_dir).filter("topic = 't' and partition = 0").count() == 50
    with pytest.raises(pyspark.errors.PySparkException, match=r"t-1/0{20}.log: at byte \d+: "):
        load(spark, data_dir).collect()


def test_queries_on_one_frame_do_not_see_each_others_filters(spark: Any, data_dir: Path) -> None:
    """Spark keeps what a Python source planned once a load, and would give the rows of the filter
    before.
    """
    frame = load(spark, data_dir)
    assert (frame.filter("topic = 'u'").count(), frame.count()) == (5, 66)
    again = load(spark, data_dir)
    assert again.filter("offset = 3 and topic = 'u'").union(again.filter("offset = 10 and partition = 1")).count() == 2
    joined = again.filter("partition = 1").alias("a").join(again.filter("topic = 'u'").alias("b"), "offset")
    assert joined.count() == 5


def test_a_view_made_in_sql_is_right_too(spark: Any, data_dir: Path) -> None:
    spark.sql(f"create or replace temporary view sql_log using `kafka-log` options (path '{data_dir}')")
    assert spark.sql("select count(*) n from sql_log where topic = 'u'").collect()[0].n == 5
    assert spark.sql("select count(*) n from sql_log").collect()[0].n == 66
    with pytest.raises(pyspark.errors.PySparkException, match="catalog does not pass a table's options on.* CREATE TEMPORARY VIEW"):
        spark.sql(f"create table log_table using `kafka-log` options (path '{data_dir}')")


def test_large_segments_are_split_at_indexed_batches(spark: Any, tmp_path: Path) -> None:
    case = golden_dir() / "06-leader-epochs-data" / "log"
    whole = load(spark, case)
    split = load(spark, case, splitBytes="1")
    assert split.rdd.getNumPartitions() >= whole.rdd.getNumPartitions()
    key = ["offset", "position", "crc"]
    assert split.select(key).orderBy("offset").collect() == whole.select(key).orderBy("offset").collect()


def test_golden_logs_have_the_rows_that_the_strict_reader_gives(spark: Any) -> None:
    for case in ("01-plain-java-snappy", "03-txn-java", "10-timestamps-log-append-time-lz4"):
        folder = golden_dir() / case / "log"
        if not folder.is_dir():
            continue
        expected = [
            (
                record.offset,
                None if record.key is None else bytes(record.key),
                None if record.value is None else bytes(record.value),
                record.sequence,
            )
            for path in sorted(folder.glob("*.log"))
            for one in iter_batches(path.read_bytes())
            for record in one.records()
        ]
        rows = load(spark, folder, columns="offset,key,value,sequence").orderBy("offset").collect()
        found = [(row.offset, row.key and bytes(row.key), row.value and bytes(row.value), row.sequence) for row in rows]
        assert [row[0] for row in found] == [row[0] for row in expected], case
        assert [tuple(value or None for value in row[1:3]) for row in found] == [
            tuple(value or None for value in row[1:3]) for row in expected
        ]
        assert [row[3] for row in found] == [row[3] for row in expected]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row": "batch"}, "there is no option row; the options are path, paths, rows, columns, splitBytes"),
        ({"rows": "both"}, "option rows is 'record' or 'batch', not 'both'"),
        ({"columns": "offset,valeu"}, "a record has no column valeu"),
        ({"splitBytes": "-1"}, "option splitBytes is a number of bytes"),
    ],
)
def test_bad_options_are_told_in_one_line(spark: Any, data_dir: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(pyspark.errors.PySparkException, match=words):
        load(spark, data_dir, **options)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("offset bigint, value string", "column value is of type binary, not string; use cast"),
        ("headers array<struct<key:string,value:string>>", "column headers is of type array<struct<key:string,value:binary>>, not array"),
        ("offset bigint not null", "column offset cannot be NOT NULL"),
        ("nope int", "a record has no column nope"),
    ],
)
def test_a_schema_of_the_users_chooses_columns_and_not_their_types(spark: Any, data_dir: Path, schema: str, words: str) -> None:
    """Spark tells of another type only in the task, by a page of traceback."""
    reader = spark.read.format("kafka-log").schema(schema)
    with pytest.raises(pyspark.errors.PySparkException, match=words) as raised:
        reader.load(str(data_dir)).collect()
    assert "Traceback" not in str(raised.value)


def test_bad_paths_are_told(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(pyspark.errors.PySparkException, match="/nowhere is not a directory"):
        load(spark, tmp_path / "nowhere").count()
    with pytest.raises(pyspark.errors.PySparkException, match="holds no partition"):
        load(spark, tmp_path).count()
    with pytest.raises(pyspark.errors.PySparkException, match="no path"):
        spark.read.format("kafka-log").load().count()


def test_log_diff_gives_the_same_report_on_both_engines(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stage = unpacked_stage("c6_restart_resume")
    reports = []
    for engine in ("local", "spark"):
        assert main([str(stage / "C"), str(stage / "D"), "--engine", engine, "--json", "--include-internal"]) == 1
        reports.append(capsys.readouterr().out.replace(f'"engine":"{engine}"', '"engine":""'))
    assert reports[0] == reports[1] and '"first_offset":50' in reports[1]


def test_spark_does_not_compare_live_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    from kmirror.cli import log_diff_run

    class Live:
        name = "bootstrap:x:1"

    with pytest.raises(KmirrorError, match="--engine spark compares folders"):
        log_diff_run._engine(log_diff_run.argparse.Namespace(engine="spark", master=None), Live(), Live(), 0)  # type: ignore[arg-type]
