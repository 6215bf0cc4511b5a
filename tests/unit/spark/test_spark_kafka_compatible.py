"""`kafkaCompatible=true` and the options of Spark's Kafka source: which records, in which columns.

Mostly without a JVM.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import TIME, batches, write_log, write_segments
from support.logs.replay_stories import Story

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.tools.spark_rows import PlannedRead, read_rows
from support.tools.stream_runs import StreamRun

from kmirror.common.errors import KmirrorError
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import TimestampType, iter_batches
from kmirror.spark.options import ReadOptions


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """`t-0` offsets 10 to 49 in two segments, `t-1` offsets 0 to 9 and a reset, `u-0` offsets 0 to
    4, an internal topic.
    """
    write_segments(tmp_path / "t-0", (10, batches(4, first=10)), (30, batches(4, first=30)))
    reset = build_mirror_pid_reset("c" * 22, timestamp=TIME, base_offset=10, partition_leader_epoch=1)
    write_log(tmp_path / "t-1", *batches(2), bytes(reset))
    write_log(tmp_path / "u-0", *batches(1))
    write_log(tmp_path / "__consumer_offsets-0", *batches(1))
    return tmp_path


def names(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def span(topic: str, partition: int, first: int, end: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for offset in range(first, end)]


def kafka(path: Path, **options: str) -> list[dict[str, Any]]:
    return read_rows(path, kafkaCompatible="true", **options)


def test_columns_and_values_of_sparks_own_source(tmp_path: Path) -> None:
    append_time = build_batch(
        [Record(1, TIME, b"", None, [])], base_offset=1, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=TIME + 9
    )
    write_log(tmp_path / "t-3", bytes(build_batch([Record(0, TIME, None, b"v", [("h", None)])], base_offset=0)), bytes(append_time))
    first, second = kafka(tmp_path, subscribe="t", includeHeaders="true")
    at = datetime.fromtimestamp(TIME / 1000, UTC)
    assert list(first) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert list(first.values()) == [None, b"v", "t", 3, 0, at, 0, [{"key": "h", "value": None}]]
    assert list(second.values())[:5] == [b"", None, "t", 3, 1]
    assert (second["timestampType"], second["timestamp"].microsecond, second["headers"]) == (1, at.microsecond + 9000, None)
    assert list(kafka(tmp_path)[0]) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_partitions_are_chosen_as_consumers_choose_them(data_dir: Path) -> None:
    t, t1, u = span("t", 0, 10, 50), span("t", 1, 0, 10), span("u", 0, 0, 5)
    assert names(kafka(data_dir, subscribe="t, u")) == t + t1 + u, "no control record"
    assert names(kafka(data_dir, subscribePattern="[tu_].*")) == t + t1 + u, "no internal topic"
    assert names(kafka(data_dir, assign='{"t":[1],"u":[0]}')) == t1 + u
    assert names(read_rows(data_dir, subscribe="t")) == t + t1 + [("t", 1, 10)], "the control record is a row here"
    assert sum(row["record_count"] for row in read_rows(data_dir, subscribe="u", rows="batch")) == 5


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("olle", ["rolled"]),
        ("c-l", ["c-last", "c-lost"]),
        ("^c-", ["c-last", "c-lost"]),
        ("st$", ["c-last", "c-lost"]),
        (" rolled ", ["rolled"]),
        (r"\p{Alpha}olled", ["rolled"]),
        (r"\Qc-l\E[a&&[^o]]", ["c-last"]),
        ("(?i)ROLLED", ["rolled"]),
        ("[a-z&&[^r]]-l", ["c-last", "c-lost"]),
        ("x|la(?=st)", ["c-last"]),
        ("offsets|rolled", ["rolled"]),
        ("nothing", []),
    ],
)
def test_a_pattern_finds_as_javas_does(tmp_path: Path, pattern: str, topics: list[str]) -> None:
    """It was Python's, and had to match the whole name. The lines are Spark's own source's."""
    for name in ("rolled", "c-last", "c-lost", "__consumer_offsets"):
        write_log(tmp_path / f"{name}-0", *batches(1))
    assert sorted({row["topic"] for row in kafka(tmp_path, subscribePattern=pattern)}) == topics
    assert sorted({row["topic"] for row in StreamRun(tmp_path, subscribePattern=pattern).batch()}) == topics


def test_internal_topics_are_not_read_even_if_they_are_named(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As by Spark's source, which says nothing; the log itself has them without kafkaCompatible."""
    named = {"subscribe": "u,__consumer_offsets"}, {"assign": '{"u":[0],"__consumer_offsets":[0]}'}
    for options in named:
        assert names(kafka(data_dir, **options)) == span("u", 0, 0, 5)
        assert {topic for topic, _, _ in names(read_rows(data_dir, **options))} == {"u", "__consumer_offsets"}
    assert ["internal topics are not read" in record.getMessage() for record in caplog.records] == [True, True]


def test_what_is_lost_without_failing_is_a_warning(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    careless = {"assign": '{"t":[0]}', "failOnDataLoss": "false"}
    assert kafka(data_dir, **careless, startingOffsets='{"t":{"0":51}}') == []
    assert kafka(data_dir, **careless, endingOffsets='{"t":{"0":5}}') == []
    assert len(kafka(data_dir, **careless, endingOffsets='{"t":{"0":60}}')) == 40
    words = ["before the starting offset 51", "behind its ending offset 5", "before the ending offset 60"]
    assert [word in record.getMessage() for word, record in zip(words, caplog.records, strict=True)] == [True] * 3


def test_a_stream_reads_no_partition_that_its_offsets_name_alone(data_dir: Path) -> None:
    for options, words in (
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":10,"1":1,"2":1}}'}, "option startingOffsets names t-2, which is not read"),
        ({"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":51}}'}, "and 51 is its starting offset"),
    ):
        with pytest.raises(KmirrorError, match=words):
            StreamRun(data_dir, kafkaCompatible="true", **options).plan()


def test_offsets_are_those_of_the_options(data_dir: Path) -> None:
    starting = json.dumps({"t": {"0": 12, "1": -2}})
    ending = json.dumps({"t": {"0": 33, "1": -1}})
    assert names(kafka(data_dir, subscribe="t", startingOffsets=starting, endingOffsets=ending)) == span("t", 0, 12, 33) + span(
        "t", 1, 0, 10
    )
    assert names(kafka(data_dir, subscribe="t", startingOffsets="earliest", endingOffsets="latest")) == span("t", 0, 10, 50) + span(
        "t", 1, 0, 10
    )
    assert names(kafka(data_dir, assign='{"t":[0]}', startingOffsets='{"t":{"0":50}}')) == [], "the end itself is no loss"
    assert names(kafka(data_dir, assign='{"t":[0]}', startingOffsets='{"t":{"0":100}}', failOnDataLoss="false")) == []
    assert names(kafka(data_dir, assign='{"t":[0]}', endingOffsets='{"t":{"0":60}}', failOnDataLoss="false")) == span("t", 0, 10, 50)
    assert names(read_rows(data_dir, assign='{"t":[0]}', startingOffsets='{"t":{"0":48}}', columns="topic,partition,offset")) == span(
        "t", 0, 48, 50
    )


def test_options_of_sparks_source_that_change_no_row_are_ignored(data_dir: Path) -> None:
    others = {"kafkaConsumer_pollTimeoutMs": "1", "fetchOffset_numRetries": "2", "fetchOffset_retryIntervalMs": "3"}
    assert len(kafka(data_dir, subscribe="u", minPartitions="9", maxRecordsPerPartition="1", groupIdPrefix="g", **others)) == 5
    with pytest.raises(KmirrorError, match="there is no option minpartitions"):
        read_rows(data_dir, minPartitions="9")


def test_times_are_those_of_the_options(data_dir: Path) -> None:
    assert names(kafka(data_dir, assign='{"t":[0]}', startingTimestamp=str(TIME + 33), endingTimestamp=str(TIME + 36))) == span(
        "t", 0, 33, 36
    )
    by_partition = json.dumps({"t": {"0": TIME + 47, "1": TIME + 4}})
    assert names(kafka(data_dir, subscribe="t", startingOffsetsByTimestamp=by_partition)) == span("t", 0, 47, 50) + span("t", 1, 4, 10)
    with pytest.raises(KmirrorError, match=f"t-1 has no record at or after {TIME + 20}; with startingOffsetsByTimestampStrategy=latest"):
        kafka(data_dir, subscribe="t", startingTimestamp=str(TIME + 20))
    late = kafka(data_dir, subscribe="t", startingTimestamp=str(TIME + 20), startingOffsetsByTimestampStrategy="latest")
    assert names(late) == span("t", 0, 20, 50)


def test_times_that_are_none_to_a_broker(data_dir: Path) -> None:
    """To Kafka -1 asks for the end and -2 for the start. Spark's source passes them on."""
    whole = span("t", 0, 10, 50) + span("t", 1, 0, 10)
    assert names(kafka(data_dir, subscribe="t", startingTimestamp="-2", endingTimestamp="-1")) == whole
    assert names(kafka(data_dir, subscribe="t", startingTimestamp="-1")) == []
    assert names(kafka(data_dir, subscribe="t", endingTimestamp="-2")) == []
    mixed = json.dumps({"t": {"0": -1, "1": TIME + 4}})
    assert names(kafka(data_dir, subscribe="t", startingOffsetsByTimestamp=mixed)) == span("t", 1, 4, 10)
    assert StreamRun(data_dir, subscribe="t", kafkaCompatible="true", startingTimestamp="-1").batch() == []
    assert names(StreamRun(data_dir, subscribe="t", kafkaCompatible="true", startingTimestamp="-2").batch()) == whole
    for options in ({"startingTimestamp": "-3"}, {"endingOffsetsByTimestamp": '{"t":{"0":-3,"1":5}}', "subscribe": "t"}):
        with pytest.raises(KmirrorError, match=r"no time; below 0 there are -1 \(latest\) and -2 \(earliest\)"):
            kafka(data_dir, **options)


def test_what_delete_records_removed_is_not_there(data_dir: Path) -> None:
    (data_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 17\n")
    assert names(kafka(data_dir, assign='{"t":[0]}')) == span("t", 0, 17, 50)
    with pytest.raises(KmirrorError, match="t-0 begins at offset 17, after the starting offset 12"):
        kafka(data_dir, assign='{"t":[0]}', startingOffsets='{"t":{"0":12}}')
    assert names(kafka(data_dir, assign='{"t":[0]}', startingOffsets='{"t":{"0":12}}', failOnDataLoss="false")) == span("t", 0, 17, 50)
    assert len(read_rows(data_dir / "t-0")) == 40, "the log as it lies there"


def test_a_time_is_looked_for_behind_what_delete_records_removed(tmp_path: Path) -> None:
    """As a broker looks: a record that is gone is no start and no end, though it lies on disk."""
    times = (100, 50, 120, 60)
    write_log(
        tmp_path / "t-0",
        *(bytes(build_batch([Record(offset, TIME + time, None, b"v", [])], base_offset=offset)) for offset, time in enumerate(times)),
    )
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    assert names(kafka(tmp_path, startingTimestamp=str(TIME + 90))) == span("t", 0, 2, 4)
    assert names(kafka(tmp_path, endingTimestamp=str(TIME + 90))) == span("t", 0, 1, 2)
    rows = StreamRun(tmp_path, kafkaCompatible="true", startingTimestamp=str(TIME + 90)).batch()
    assert names(rows) == span("t", 0, 2, 4)


@pytest.mark.parametrize("seed", range(8))
def test_read_committed_is_what_was_committed(tmp_path: Path, seed: int) -> None:
    told = Story(tmp_path, seed, others=("roll", "restart", "reset"))
    told.tell(80)
    stable = told.log.last_stable_offset
    told.end()
    open_offsets: dict[int, list[int]] = {}
    visible: set[int] = set()
    for path in sorted((tmp_path / "t-0").glob("*.log")):
        for one in iter_batches(path.read_bytes()):
            offsets = [record.offset for record in one.records()]
            if not one.is_control:
                visible.update(offsets)
                if one.is_transactional:
                    open_offsets.setdefault(one.producer_id, []).extend(offsets)
                continue
            kind = ControlRecordType.parse(next(iter(one.records())).key)
            if kind is ControlRecordType.MIRROR_PID_RESET:
                open_offsets.clear()
            ended = open_offsets.pop(one.producer_id, [])
            if kind is ControlRecordType.ABORT:
                visible.difference_update(ended)
    expected = sorted(offset for offset in visible if offset < stable)
    for options in ({"isolation_level": "read_committed"}, {"kafka_isolation_level": "read_committed", "splitBytes": "300"}):
        assert sorted(row["offset"] for row in kafka(tmp_path, **options)) == expected
        assert sorted(row["offset"] for row in kafka(tmp_path, columns="offset", **options)) == expected


def test_replicas_are_read_once(tmp_path: Path) -> None:
    for node, count, epoch in (("node-1", 4, 3), ("node-2", 6, 2), ("node-3", 5, 3)):
        folder = write_log(tmp_path / node / "data" / "t-0", *batches(count))
        (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    write_log(tmp_path / "node-2" / "data" / "u-0", *batches(1))
    for path in (f"{tmp_path}/node-*/data", str(tmp_path)):
        assert names(read_rows(path)) == span("t", 0, 0, 25) + span("u", 0, 0, 5), "the latest epoch, then the longest"
        assert names(read_rows(path, replica="first")) == span("t", 0, 0, 20) + span("u", 0, 0, 5)
    both = read_rows(f"{tmp_path}/node-1/data", paths=f"{tmp_path}/node-2/data", replica="first")
    assert names(both) == span("t", 0, 0, 20) + span("u", 0, 0, 5)
    with pytest.raises(KmirrorError, match=r"nodes-\*: there is no such folder"):
        read_rows(f"{tmp_path}/nodes-*")


def test_a_relative_path_is_the_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor works in a folder of its own, and found nothing there."""
    write_log(tmp_path / "data" / "t-0", *batches(1))
    monkeypatch.chdir(tmp_path)
    query, globbed = PlannedRead("data"), PlannedRead("d*")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert len(query.read(query.tasks)) == len(globbed.read(globbed.tasks)) == 5
    with pytest.raises(KmirrorError, match=f"{tmp_path}/work/data is not a directory"):
        read_rows("data")


def test_a_folder_whose_name_looks_like_a_glob_is_itself(tmp_path: Path) -> None:
    write_log(tmp_path / "a [x]* b" / "t-0", *batches(1))
    assert len(read_rows(tmp_path / "a [x]* b")) == 5
    given = ReadOptions.parse({"paths": "[ab]*/data, /c"}).locations, ReadOptions.parse({"paths": '["[ab]*/data", "/c,d"]'}).locations
    assert given == (("[ab]*/data", "/c"), ("[ab]*/data", "/c,d")), "JSON is what Spark makes of load([...])"


def test_globs_and_file_uris_are_those_of_sparks_paths(tmp_path: Path) -> None:
    """`?` of a file URI began parameters that nobody reads, and what stands before it was read; a name
    with `%` was decoded twice behind a glob; `{a,b}` was no glob.
    """
    for name, count in {"north": 1, "south": 2, "n%6Frth": 3, "a#b": 4, "a": 5}.items():
        write_log(tmp_path / name / f"t{count}-0", *batches(count))
    uri = f"file://{tmp_path}"
    sizes = {
        f"{uri}/nort?": 5,
        f"{uri}/a#b": 20,
        f"{uri}/a%23b": 20,
        f"{uri}/n*r*": 20,
        f"file:{tmp_path}/n%25*": 15,
        f"{tmp_path}/{{sou,nor}}th": 15,
        f"{tmp_path}/{{x,y}}": None,
        f"{tmp_path}/{{south,nope}}": 10,
        f"{tmp_path}/{{s{{ou,x}}th,nope}}/t2-0": 10,
        f"{tmp_path}/[^n]outh": 10,
    }
    for location, expected in sizes.items():
        if expected is None:
            with pytest.raises(KmirrorError, match="there is no such folder"):
                read_rows(location)
        else:
            assert len(read_rows(location)) == expected, location
    assert ReadOptions.parse({"paths": "/a/{b,c}/d, /e"}).locations == ("/a/{b,c}/d", "/e")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"subscribe": "t", "assign": "{}"},
            "only one of the options subscribe, subscribePattern and assign can be given, not subscribe and assign",
        ),
        ({"subscribe": "t,nope"}, "nope is not in the input; it has __consumer_offsets, t, u"),
        ({"assign": '{"t":[7]}'}, "t-7 is not in the input"),
        ({"assign": "t"}, 'option assign is like {"topic":[0,1]}, not t'),
        ({"subscribePattern": "("}, "option subscribePattern: '(' is not a regular expression"),
        (
            {"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":51}}'},
            "t-0 ends at offset 50, before the starting offset 51 (failOnDataLoss",
        ),
        (
            {"assign": '{"t":[0]}', "endingOffsets": '{"t":{"0":5}}'},
            "t-0 would begin at offset 10, behind its ending offset 5 (failOnDataLoss",
        ),
        (
            {"assign": '{"t":[0]}', "startingTimestamp": str(TIME + 36), "endingTimestamp": str(TIME + 33)},
            "t-0 would begin at offset 36, behind its ending offset 33 (failOnDataLoss",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":30,"1":3}}', "endingOffsets": '{"t":{"0":20,"1":3}}'},
            "t-0 would begin at 30 (startingOffsets), behind its end 20 (endingOffsets)",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":30}}', "endingOffsets": '{"t":{"0":40,"1":3}}'},
            "options startingOffsets and endingOffsets must name the same partitions; one of them alone has t-1",
        ),
        (
            {
                "subscribe": "t",
                "startingOffsetsByTimestamp": '{"t":{"0":30,"1":3}}',
                "endingOffsetsByTimestamp": '{"t":{"0":20,"1":3}}',
            },
            "t-0 would begin at 30 (startingOffsetsByTimestamp), behind its end 20 (endingOffsetsByTimestamp)",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":10,"1":1,"2":1}}'},
            "option startingOffsets names t-2, which is not read",
        ),
        ({"assign": '{"t":[0]}', "endingOffsets": '{"t":{"0":20,"1":3}}'}, "option endingOffsets names t-1, which is not read"),
        (
            {"subscribe": "u", "startingOffsetsByTimestamp": '{"u":{"0":1},"t":{"0":1}}'},
            "option startingOffsetsByTimestamp names t-0, which",
        ),
        ({"startingTimestamp": "9223372036854775808"}, "option startingTimestamp: 9223372036854775808 does not fit 64 bits"),
        ({"startingOffsets": '{"t":{"0":9223372036854775808,"1":0}}', "subscribe": "t"}, "option startingOffsets is like"),
        ({"subscribePattern": " "}, "option subscribePattern selects nothing: ' '"),
        ({"subscribePattern": r"\p{Nope}"}, "is not a regular expression of Java: Unknown character property"),
        ({"kafka.auto.offset.reset": "earliest"}, "option kafka.auto.offset.reset is not supported, as in Spark's Kafka source"),
        ({"kafka.enable.auto.commit": "true"}, "option kafka.enable.auto.commit is not supported"),
        ({"minPartitions": "0"}, "option minPartitions is a number from 1 on, not '0'"),
        ({"startingOffsets": "latest"}, "option startingOffsets cannot be 'latest' in a batch query"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "option endingOffsets: offset -2 of t-0; only -1 (latest)"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":10}}'}, "option startingOffsets has no offset for t-1"),
        ({"startingOffsets": '{"t":{"0":10.5,"1":0}}', "subscribe": "t"}, 'option startingOffsets is like {"topic":{"0":23,"1":-2}}, not'),
        ({"assign": '{"t":[true]}'}, 'option assign is like {"topic":[0,1]}, not'),
        ({"assign": '{"t":[0]}', "endingOffsets": '{"t":{"0":51}}'}, "t-0 ends at offset 50, before the ending offset 51 (failOnDataLoss"),
        ({"subscribe": " , "}, "option subscribe selects nothing: ' , '; without it all partitions are read"),
        ({"subscribePattern": ""}, "option subscribePattern selects nothing: ''"),
        ({"assign": "{}"}, "option assign selects nothing: '{}'"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp must be a time in ms since 1970, not 'yesterday'"),
        ({"rows": "batch"}, "kafkaCompatible=true can only be used with rows of records"),
        ({"columns": "leader_epoch"}, "a record has no column leader_epoch; the columns are key, value, topic"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'true' or 'false', not 'no'"),
        ({"isolation_level": "committed"}, "option isolation.level is 'read_uncommitted' or 'read_committed', not 'committed'"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(data_dir: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(KmirrorError) as raised:
        kafka(data_dir, **options)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_a_query_of_sparks_source_moves(spark: Any, data_dir: Path) -> None:
    reader = spark.read.format("kafka-log").option("kafkaCompatible", "true").option("kafka.bootstrap.servers", "ignored:9092")
    frame = reader.option("subscribe", "t").option("includeHeaders", "true").load(str(data_dir))
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    values = frame.selectExpr("cast(value as string) v", "partition").where("partition = 1").orderBy("v").collect()
    assert [row.v for row in values] == [f"value-{number}" for number in range(10)]
    assert frame.count() == 50 and frame.where("offset >= 30").count() == 20
    several = spark.read.format("kafka-log").load([str(data_dir / "t-0"), str(data_dir / "u-0")])
    assert several.count() == 45 and several.where("topic = 'u'").count() == 5
