"""Records of Arrow columns: their bytes, their batches, their partitions."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from support.tools.spark_rows import read_rows
from support.tools.spark_writes import table, write_rows, write_tasks

from kmirror.common.errors import KmirrorError
from kmirror.record.builder import RecordBatchBuilder
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import TimestampType, iter_batches
from kmirror.spark import staged_log
from kmirror.spark.partitioner import Partitioner, murmur2

TIME = 1_750_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def some_bytes(chance: random.Random, *sizes: int) -> bytes | None:
    size = chance.choice([None, 0, *sizes])
    return None if size is None else chance.randbytes(size)


def some_records(count: int, seed: int = 1) -> dict[str, list]:
    """Nulls, empty values, headers, values with lengths of one to three varint bytes, timestamps
    that go back.
    """
    chance = random.Random(seed)
    return {
        "key": [some_bytes(chance, 1, 63, 64, 200) for _ in range(count)],
        "value": [some_bytes(chance, 5, 64, 9_000) for _ in range(count)],
        "headers": [
            chance.choice([None, [], [("h", b"1")], [("ä" * 70, None), ("", b""), ("k", chance.randbytes(100))]]) for _ in range(count)
        ],
        "timestamp_ms": [TIME + chance.choice([0, -1, 63, -10_000_000, 2**33]) for _ in range(count)],
        "offset": list(np.cumsum([chance.choice([1, 2, 70, 9_000]) for _ in range(count)])),
    }


def place(count: int) -> dict[str, list]:
    return {"topic": ["t"] * count, "partition": [0] * count}


def log_batches(folder) -> list:
    return [batch for path in sorted(folder.glob("*.log")) for batch in iter_batches(path.read_bytes())]


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_written_is_read_back(tmp_path, codec: str) -> None:
    count = 400
    records = some_records(count)
    records["value"][7] = random.Random(2).randbytes(3_000_000)  # more than a batch's, and than a segment's
    write_rows(
        tmp_path / "d", **place(count), **records, options={"compression_type": codec, "batch_size": 20_000, "segment_bytes": 200_000}
    )
    rows = read_rows(tmp_path / "d", columns="offset,timestamp_ms,key,value,headers,compression")
    assert len(rows) == count and {row["compression"] for row in rows} == {codec}
    for name in ("offset", "timestamp_ms", "key", "value"):
        assert [row[name] for row in rows] == records[name], name
    assert [[(one["key"], one["value"]) for one in row["headers"]] for row in rows] == [headers or [] for headers in records["headers"]]


def test_the_bytes_are_those_of_the_record_by_record_builder(tmp_path) -> None:
    count = 600
    records = some_records(count, seed=3)
    write_rows(tmp_path / "d", **place(count), **records, options={"batch_size": 30_000, "leaderEpoch": 4})
    found = log_batches(tmp_path / "d" / "t-0")
    row = 0
    for batch in found:
        builder = RecordBatchBuilder(base_offset=int(records["offset"][row]), partition_leader_epoch=4)
        for _ in range(batch.record_count):
            key, value, headers = records["key"][row], records["value"][row], records["headers"][row]
            builder.append(int(records["offset"][row]), records["timestamp_ms"][row], key, value, headers or [])
            row += 1
        assert bytes(batch.memory) == bytes(builder.build())
    assert row == count and len(found) > 20
    assert all(batch.size_in_bytes <= 30_000 for batch in found)


@pytest.mark.parametrize("codec, level, smaller", [("gzip", (1, 9), True), ("lz4", (1, 12), True), ("zstd", (-50, 19), True)])
def test_a_level_is_the_codecs(tmp_path, codec: str, level: tuple[int, int], smaller: bool) -> None:
    values = [f"a line of a log, number {number % 97} of {number * 7919 % 1009}".encode() for number in range(2_000)]
    sizes = []
    for one in level:
        options = {"compression_type": codec, f"compression_{codec}_level": one}
        write_rows(tmp_path / str(one), **place(len(values)), value=values, options=options)
        sizes.append((tmp_path / str(one) / "t-0" / f"{0:020d}.log").stat().st_size)
    assert sizes[1] < sizes[0]


def test_pieces_of_any_size_make_the_same_log(tmp_path, monkeypatch) -> None:
    count = 900
    records = some_records(count, seed=5)
    columns = {"topic": ["t"] * count, "partition": [row % 3 for row in range(count)], **records, "offset": [None] * count}
    whole = table(**columns)
    write_tasks(tmp_path / "a", [[whole]], batch_size=5_000)
    monkeypatch.setattr(staged_log, "PIECE_BYTES", 12_000)
    write_tasks(tmp_path / "b", [[whole.slice(start, 50) for start in range(0, count, 50)]], batch_size=5_000)
    for partition in range(3):
        name = f"t-{partition}/{0:020d}.log"
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_little_memory_makes_smaller_batches_of_the_same_records(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(staged_log, "PENDING_BYTES", 10_000)
    monkeypatch.setattr(staged_log, "JOINED_BYTES", 4_000)
    count = 300
    columns = {"topic": ["t"] * count, "partition": [row % 7 for row in range(count)], "value": [b"%d" % row * 30 for row in range(count)]}
    whole = table(**columns)
    write_tasks(tmp_path / "d", [[whole.slice(start, 20) for start in range(0, count, 20)]])
    for partition in range(7):
        rows = [row for row in read_rows(tmp_path / "d") if row["partition"] == partition]
        assert [row["value"] for row in rows] == columns["value"][partition::7]
        assert [row["offset"] for row in rows] == list(range(len(rows)))


def test_keys_go_to_kafkas_partitions() -> None:
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    keys = pa.array([None, *known], type=pa.binary()).slice(1)
    assert murmur2(keys).view(np.int32).tolist() == list(known.values())
    sizes = np.full(len(known), 100)
    chosen = Partitioner(11, batch_bytes=1000, first=0).partitions(keys, sizes).tolist()
    assert chosen == [(hashed & 0x7FFFFFFF) % 11 for hashed in known.values()]


def test_records_without_a_key_fill_a_batch_before_they_go_to_the_next_partition() -> None:
    partitioner = Partitioner(3, batch_bytes=1000, first=4)
    keys = pa.nulls(10, pa.binary())
    first = partitioner.partitions(keys, np.full(10, 200)).tolist()
    again = partitioner.partitions(keys, np.full(10, 200)).tolist()
    assert first + again == [1] * 5 + [2] * 5 + [0] * 5 + [1] * 5


def test_records_without_a_partition_get_one_and_the_others_keep_theirs(tmp_path) -> None:
    columns = {
        "topic": ["t"] * 4,
        "partition": [5, None, None, 0],
        "key": [b"21", b"21", b"abc", b"abc"],
        "value": [b"1", b"2", b"3", b"4"],
    }
    write_rows(tmp_path / "d", **columns, options={"numPartitions": 3})
    found = {row["value"]: row["partition"] for row in read_rows(tmp_path / "d")}
    assert found == {b"1": 5, b"2": (-973932308 & 0x7FFFFFFF) % 3, b"3": 479470107 % 3, b"4": 0}
    assert sorted(path.name for path in (tmp_path / "d").glob("t-*")) == ["t-0", "t-1", "t-2", "t-5"]
    with pytest.raises(KmirrorError, match="name no partition; give a column partition, or option numPartitions"):
        write_rows(tmp_path / "e", **columns)


def test_append_times_are_kept_and_those_of_a_batch_are_one(tmp_path) -> None:
    count = 6
    columns = {
        **place(count),
        "value": [b"v"] * count,
        "timestamp_ms": [TIME, TIME, TIME + 5, TIME + 5, TIME + 7, TIME + 8],
        "timestamp_type": ["LogAppendTime"] * 3 + ["CreateTime"] * 3,
    }
    write_rows(tmp_path / "d", **columns)
    rows = read_rows(tmp_path / "d", columns="timestamp_ms,timestamp_type,base_offset")
    assert [row["timestamp_ms"] for row in rows] == columns["timestamp_ms"]
    assert [row["timestamp_type"] for row in rows] == columns["timestamp_type"]
    assert [row["base_offset"] for row in rows] == [0, 0, 2, 3, 3, 3]
    write_rows(tmp_path / "e", **columns, options={"message_timestamp_type": "LogAppendTime"})
    (batch,) = log_batches(tmp_path / "e" / "t-0")
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME and batch.max_timestamp > TIME + 1_000_000
    assert batch.compression is CompressionType.NONE


def test_sparks_timestamps_are_rounded_down_and_none_is_now(tmp_path) -> None:
    micros = pa.array([1_500_999, None], type=pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    write_rows(tmp_path / "d", **place(2), value=[b"a", b"b"], timestamp=micros)
    first, second = (row["timestamp_ms"] for row in read_rows(tmp_path / "d", columns="timestamp_ms"))
    assert first == 1_500 and second > TIME
    with pytest.raises(KmirrorError, match="timestamp -2 ms; Kafka has none before 1970"):
        write_rows(tmp_path / "e", **place(1), value=[b"a"], timestamp_ms=[-2])


def test_a_header_without_a_key_is_refused(tmp_path) -> None:
    with pytest.raises(KmirrorError, match="a header has no key"):
        write_rows(tmp_path / "d", **place(1), value=[b"a"], headers=[[(None, b"1")]])
