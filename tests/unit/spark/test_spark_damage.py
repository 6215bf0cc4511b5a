"""`kafka-log` on what a disk, a producer or a crash made of a log: errors and `_corrupt` rows,
never silence. Mostly without a JVM.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import TIME, batch, batches, write_log, write_segments
from support.waiting import PROGRAM_S

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

import pyarrow as pa
from support.tools.spark_rows import read_rows as read

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.spark.data_source import KafkaLogReader
from kmirror.spark.options import ReadOptions
from kmirror.spark.slice_reader import put_together

PARTS = batches(6)
START = sum(map(len, PARTS[:2]))
NAME = f"{0:020d}.log"


def frame(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("kafka-log").options(**options).load(str(path))


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + length.to_bytes(4, "big") + data[12:]


DAMAGES = {
    "a flipped byte in a value": flip(PARTS[2], len(PARTS[2]) - 9),
    "a length that is too large": with_length(PARTS[2], 0x7000000),
    "a length that is too small": with_length(PARTS[2], 100),
    "another magic": PARTS[2][:16] + b"\x03" + PARTS[2][17:],
    "a count that is wrong": (wrong := PARTS[2][:57] + b"\0\0\0\3" + PARTS[2][61:])[:17]
    + crc32c(wrong[21:]).to_bytes(4, "big")
    + wrong[21:],
    "a codec that there is not": (wrong := PARTS[2][:22] + b"\x06" + PARTS[2][23:])[:17]
    + crc32c(wrong[21:]).to_bytes(4, "big")
    + wrong[21:],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_fails_the_query_or_is_a_row(tmp_path: Path, name: str) -> None:
    folder = write_log(tmp_path / "t-0", *PARTS[:2], DAMAGES[name], *PARTS[3:])
    with pytest.raises(CorruptFileError, match=re.escape(f"t-0/{NAME}: at byte {START}: ")):
        read(folder)
    rows = read(folder, mode="permissive")
    assert [row["offset"] for row in rows if row["_corrupt"] is None] == [*range(10), *range(15, 30)]
    (bad,) = [row for row in rows if row["_corrupt"] is not None]
    assert bad["_corrupt"].startswith(f"{folder}/{NAME}: at byte {START}: ")
    assert (bad["topic"], bad["partition"], bad["position"], bad["offset"], bad["value"]) == ("t", 0, START, 10, None)
    sound = [{name: value for name, value in row.items() if name != "_corrupt"} for row in rows if row["_corrupt"] is None]
    assert read(folder, mode="DROPMALFORMED") == sound
    assert read(folder, mode="DROPMALFORMED", columns="value") == [{"value": row["value"]} for row in sound]


@pytest.mark.parametrize("columns", ["topic,position", "offset", "value"])
def test_what_hides_behind_a_length_is_missed_by_no_columns(tmp_path: Path, columns: str) -> None:
    folder = write_log(tmp_path / "t-0", *PARTS[:2], DAMAGES["a length that is too large"], *PARTS[3:])
    with pytest.raises(CorruptFileError, match=rf"at byte {START}: a batch claims 117440524 bytes"):
        read(folder, columns=columns)
    with pytest.raises(CorruptFileError, match=rf"at byte {START}: a batch claims 117440524 bytes"):
        read(folder, rows="batch")
    assert len(read(folder, columns=columns, mode="PERMISSIVE")) == 26


def test_a_torn_segment_is_damage_unless_it_is_the_last(tmp_path: Path) -> None:
    folder = write_segments(tmp_path / "t-0", (0, [*PARTS[:3], PARTS[3][:90]]))
    assert [row["offset"] for row in read(folder)] == list(range(15)), "an append under way"
    write_segments(folder, (20, PARTS[4:]))
    for options in ({}, {"columns": "topic"}, {"rows": "batch"}):
        with pytest.raises(CorruptFileError, match="90 bytes are left up to byte .*, and this is not the end of the log"):
            read(folder, **options)
    assert [row["offset"] for row in read(folder, mode="PERMISSIVE") if not row["_corrupt"]] == [*range(15), *range(20, 30)]


def test_a_replica_whose_end_is_damaged_is_the_last_to_be_read(tmp_path: Path) -> None:
    """PERMISSIVE used to fail, because the choice of the longest copy met the damage."""
    write_log(tmp_path / "n1" / "data" / "t-0", *batches(4), b"\xff" * 100)
    sound = write_log(tmp_path / "n2" / "data" / "t-0", *batches(3))
    with pytest.raises(KmirrorError, match="n1/data/t-0/0{20}.log: at byte"):
        read(tmp_path)
    assert [row["offset"] for row in read(tmp_path, mode="PERMISSIVE")] == list(range(15))
    shutil.rmtree(sound)
    assert sum(row["_corrupt"] is not None for row in read(tmp_path, mode="PERMISSIVE")) == 1


def test_a_text_file_is_no_log(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", b"hello world, this is no log at all. " * 50)
    for options in ({}, {"columns": "topic"}, {"rows": "batch"}):
        with pytest.raises(CorruptFileError, match=f"{NAME}: at byte 0: no batch: it would have offset"):
            read(folder, **options)
    (row,) = read(folder, mode="PERMISSIVE")
    assert (row["position"], row["offset"]) == (0, 0) and "no batch" in row["_corrupt"]


def test_a_mirrored_gap_and_a_compacted_batch_are_sound(tmp_path: Path) -> None:
    """Offsets without a record are in every compacted log.

    Headers do not say which, so those batches are unpacked.
    """
    sparse = bytes(build_batch([Record(offset, TIME, b"k", None, []) for offset in (20, 23, 29)], base_offset=20, last_offset=31))
    folder = write_log(tmp_path / "t-0", *PARTS[:2], sparse, batch(40))
    expected = [*range(10), 20, 23, 29, *range(40, 45)]
    for columns in ("offset", "offset,value", "position,offset"):
        assert [row["offset"] for row in read(folder, columns=columns)] == expected
    assert len(read(folder, columns="topic")) == len(expected)
    assert sum(row["record_count"] for row in read(folder, rows="batch")) == len(expected)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_columns_of_headers_are_those_of_the_records(tmp_path: Path, codec: CompressionType) -> None:
    folder = write_log(tmp_path / "t-0", *PARTS, batch(30, 40, codec=codec, producer_id=9), batch(80, 2, codec=codec))
    names = "topic,partition,segment,offset,base_offset,last_offset,leader_epoch,producer_id,producer_epoch,timestamp_type,crc,position,compression"
    with_values = read(folder, columns=f"{names},value")
    assert [{name: row[name] for name in names.split(",")} for row in with_values] == read(folder, columns=names)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1_750_000_000_000_000_000, None),
        (1 << 62, None),
        ((1 << 63) - 1, None),
        (1_750_000_000_000, datetime(2025, 6, 15, 15, 6, 40, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    ],
)
def test_a_time_that_is_too_large_for_spark_is_null_and_its_number_can_be_had(tmp_path: Path, time: int, expected: datetime | None) -> None:
    folder = write_log(tmp_path / "t-0", build_batch([Record(0, time, b"k", b"v", [])], base_offset=0))
    assert read(folder, columns="timestamp,timestamp_ms") == [{"timestamp": expected, "timestamp_ms": time}]
    (row,) = read(folder, rows="batch", columns="max_timestamp,max_timestamp_ms,base_timestamp")
    assert (row["max_timestamp"], row["max_timestamp_ms"]) == (expected, time)


def test_headers_of_every_kind(tmp_path: Path) -> None:
    records = [
        Record(0, TIME, b"k", b"v", [("a", b"1"), ("b", None), ("", b"")]),
        Record(1, TIME, None, None, []),
        Record(2, TIME, b"", b"", [("ü", b"x" * 300)]),
        Record(3, TIME, b"k", b"v", [("hh", b"2"), ("a", b"3")]),
    ]
    data = bytearray(build_batch(records, base_offset=0))
    data[data.rindex(b"hh")] = 0xFF
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    rows = read(write_log(tmp_path / "t-0", bytes(data)), columns="key,value,headers")
    assert [(row["key"], row["value"]) for row in rows] == [(b"k", b"v"), (None, None), (b"", b""), (b"k", b"v")]
    assert [[(one["key"], one["value"]) for one in row["headers"]] for row in rows] == [
        [("a", b"1"), ("b", None), ("", b"")],
        [],
        [("ü", b"x" * 300)],
        [("\ufffdh", b"2"), ("a", b"3")],
    ]


def test_a_damaged_checkpoint_fails_no_read_that_does_not_use_it(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *PARTS)
    for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        (tmp_path / name).write_text("9\nxx\n")
    assert len(read(tmp_path)) == 30


def test_many_small_partitions_share_tasks_and_a_filter_of_none_has_one(tmp_path: Path) -> None:
    for number in range(300):
        write_log(tmp_path / f"t-{number}", *batches(1))
    reader = KafkaLogReader(ReadOptions.parse({"path": str(tmp_path)}))
    assert len(reader.partitions()) == 1
    reader.pushed.topics = set()
    assert [task.pieces for task in reader.partitions()] == [[]]
    assert list(reader.read(reader.partitions()[0])) == []


def test_memory_does_not_follow_what_a_log_unpacks_to(tmp_path: Path) -> None:
    """Batches of some KB that unpack to a gigabyte; the peak is that of a program of its own."""
    values = [Record(row, TIME, None, bytes(1000), []) for row in range(3000)]
    packed = build_batch(values, compression=CompressionType.ZSTD)
    parts = []
    for number in range(350):
        packed[:8] = (number * 3000).to_bytes(8, "big")
        parts.append(bytes(packed))
    write_log(tmp_path / "t-0", *parts)
    program = (
        "import re, sys\n"
        "from kmirror.spark.data_source import KafkaLogReader\n"
        "from kmirror.spark.options import ReadOptions\n"
        "reader = KafkaLogReader(ReadOptions.parse({'path': sys.argv[1]}))\n"
        "rows = sum(table.num_rows for task in reader.partitions() for table in reader.read(task))\n"
        "print(rows, int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) >> 10)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    rows, peak_mb = map(int, done.stdout.split())
    assert rows == 1_050_000 and peak_mb < 400, done.stdout


# with Spark
def test_a_large_table_is_given_on_as_it_is(tmp_path: Path) -> None:
    """Joined with a small one it was copied; beyond 2 GB Arrow would have cut it in two, and the
    second part was left out.
    """
    small, large = (pa.RecordBatch.from_pydict({"value": [b"v" * size]}) for size in (10, 1 << 20))
    found = list(put_together([small, small, large, small]))
    assert [table.num_rows for table in found] == [2, 1, 1] and found[1] is large


def test_a_filter_that_matches_nothing_and_empty_segments(spark: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *PARTS)
    assert frame(spark, tmp_path).where("topic = 'nope'").count() == 0
    assert frame(spark, tmp_path).where("offset > 1000").collect() == []
    empty = write_log(tmp_path / "e" / "u-0")
    assert (frame(spark, empty).count(), frame(spark, empty, rows="batch").collect()) == (0, [])


def test_columns_do_not_switch_pruning_off(spark: Any, tmp_path: Path) -> None:
    for topic in ("t", "u"):
        for number in range(4):
            write_log(tmp_path / f"{topic}-{number}", *PARTS)
    for options in ({}, {"columns": "topic,value"}, {"columns": "topic,key,partition"}, {"columns": "topic,offset", "rows": "record"}):
        narrow = frame(spark, tmp_path, splitBytes="1", **options).where("topic = 't'")
        assert (narrow.rdd.getNumPartitions(), narrow.count()) == (4, 120), options


def test_errors_are_one_line_first(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    folder = write_log(tmp_path / "t-0", *PARTS[:2], DAMAGES["a flipped byte in a value"], *PARTS[3:])
    for query, words in (
        (lambda: frame(spark, folder).collect(), f"{folder}/{NAME}: at byte {START}: the CRC of the batch at offset 10 is"),
        (lambda: frame(spark, tmp_path / "none").count(), f"{tmp_path}/none is not a directory"),
        (lambda: frame(spark, folder, rows="both"), "kafka-log: option rows is 'record' or 'batch', not 'both'"),
    ):
        with pytest.raises(PySparkException) as raised:
            query()
        lines = [line for line in str(raised.value).splitlines() if line.strip()]
        assert words in " ".join(lines[:2]), lines
        assert "Traceback" not in str(raised.value) and 'File "' not in str(raised.value), lines


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", *PARTS)
    (folder / NAME).chmod(0)
    with pytest.raises(KmirrorError, match=f"{NAME}: Permission denied"):
        read(folder)
