"""The log.dir that a write leaves: pieces of tasks put together, save modes, failures in the
middle, what is refused.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from support.tools.spark_rows import read_rows
from support.tools.spark_writes import table, write_rows, write_tasks, writer_for

from kmirror.cli import kmirror
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.os_files import OsFileSystem
from kmirror.spark.local_writes import WritableLocalFiles
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.log_dirs import LogDir
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile

TIME = 1_750_000_000_000


def rows_of(values, *, partition: int = 0, **more):
    """A batch of one partition of topic t."""
    count = len(values)
    values = [b"%d" % value for value in values]
    return table(topic=["t"] * count, partition=[partition] * count, value=values, timestamp_ms=[TIME] * count, **more)


def given(first: int, count: int, **more):
    """A batch with offsets, whose values are those."""
    numbers = list(range(first, first + count))
    return rows_of(numbers, offset=numbers, **more)


def values_of(path: Path, partition: int = 0) -> list[int]:
    return [int(row["value"]) for row in read_rows(path) if row["partition"] == partition]


def checkpoint(path: Path, name: str) -> dict[TopicPartition, int]:
    return OffsetCheckpointFile(OsFileSystem(), f"{path}/{name}").read()


def epochs(folder: Path) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in LeaderEpochCheckpointFile(OsFileSystem(), str(folder)).read()]


def tree(path: Path) -> dict[str, bytes]:
    """Every file's bytes, but the lock's."""
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file() and one.name != ".lock"}


def assert_sound(path: Path, capsys) -> None:
    assert kmirror.main(["verify-logs", str(path)]) == 0, capsys.readouterr().out
    assert "all sound" in capsys.readouterr().out


def segments(folder: Path) -> list[int]:
    return [int(path.stem) for path in sorted(folder.glob("*.log"))]


def test_a_log_dir_has_what_a_broker_leaves_there(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[rows_of(range(100)), rows_of(range(7), partition=2)]], topic="u", numPartitions=3, batch_size=300)
    assert sorted(os.listdir(path)) == [
        ".kafka_cleanshutdown", ".lock", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
        "u-0", "u-1", "u-2",
    ]  # fmt: skip
    assert sorted(os.listdir(path / "u-0")) == [
        f"{0:020d}.index", f"{0:020d}.log", f"{0:020d}.timeindex", f"{100:020d}.snapshot", "leader-epoch-checkpoint", "partition.metadata",
    ]  # fmt: skip
    ends = {TopicPartition("u", 0): 100, TopicPartition("u", 1): 0, TopicPartition("u", 2): 7}
    assert checkpoint(path, "recovery-point-offset-checkpoint") == checkpoint(path, "replication-offset-checkpoint") == ends
    assert len({(path / f"u-{number}" / "partition.metadata").read_bytes() for number in range(3)}) == 1
    assert epochs(path / "u-0") == [(0, 0)] and epochs(path / "u-1") == []
    assert_sound(path, capsys)


def test_segments_end_at_segment_bytes_and_their_indexes_are_sound(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[rows_of(range(5_000))]], batch_size=1_000, segment_bytes=20_000, index_interval_bytes=2_000)
    sizes = [file.stat().st_size for file in sorted((path / "t-0").glob("*.log"))]
    assert len(sizes) > 3 and max(sizes) <= 20_000 and min(sizes[:-1]) > 19_000
    assert all(file.stat().st_size >= 40 for file in sorted((path / "t-0").glob("*.index"))[:-1])
    assert values_of(path) == list(range(5_000))
    assert_sound(path, capsys)


def test_pieces_of_tasks_follow_each_other_and_small_ones_share_a_segment(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    tasks = [[rows_of(range(start, start + 250)), rows_of([start], partition=1)] for start in range(0, 3_000, 250)]
    write_tasks(path, tasks, batch_size=1_000, segment_bytes=20_000, index_interval_bytes=500, leaderEpoch=3)
    assert values_of(path) == list(range(3_000))
    assert values_of(path, 1) == list(range(0, 3_000, 250))
    assert [row["offset"] for row in read_rows(path, columns="offset,partition") if row["partition"] == 0] == list(range(3_000))
    assert 1 < len(segments(path / "t-0")) < len(tasks) and len(segments(path / "t-1")) == 1
    for file in (path / "t-0").glob("*.log"):
        assert file.stat().st_size <= 20_000
        assert all(batch.is_valid() and batch.partition_leader_epoch == 3 for batch in iter_batches(file.read_bytes()))
    assert epochs(path / "t-0") == [(3, 0)]
    assert_sound(path, capsys)


def test_offsets_are_kept_and_order_the_pieces(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[given(900, 50)], [given(100, 50), given(160, 5)], [given(2**33, 2)]])
    wanted = [*range(100, 150), *range(160, 165), *range(900, 950), 2**33, 2**33 + 1]
    assert values_of(path) == wanted == [row["offset"] for row in read_rows(path)]
    assert segments(path / "t-0") == [100, 2**33]
    assert checkpoint(path, "recovery-point-offset-checkpoint") == {TopicPartition("t", 0): 2**33 + 2}
    assert_sound(path, capsys)


@pytest.mark.parametrize(
    "tasks, problem",
    [
        ([[given(5, 2), given(6, 2)]], "t-0: offset 6 after 6: offsets must ascend within a partition; kmirror.spark.write_log sorts"),
        ([[rows_of([1, 2], offset=[4, -1])]], "t-0: offset -1: offsets are from 0 to 9223372036854775806"),
        ([[rows_of([1], offset=[(1 << 63) - 1])]], "t-0: offset 9223372036854775807: offsets are from 0 to 9223372036854775806"),
        ([[given(0, 9)], [given(4, 9)]], "t-0: offset 4 cannot be written, another task has offsets up to 8; kmirror.spark.write_log"),
        ([[rows_of([1, 2], offset=[1, None])]], "t-0: some records have a value in column offset and some have none"),
        ([[given(0, 2)], [rows_of([1], offset=[None])]], "t-0: some records have a value in column offset and some have none"),
        ([[given(0, 1, leader_epoch=[3]), given(1, 1, leader_epoch=[2])]], "t-0: leader epoch 2 at offset 1 after epoch 3"),
        ([[given(0, 1, leader_epoch=[3])], [given(1, 1, leader_epoch=[2])]], "t-0: leader epoch 2 at offset 1, after epoch 3"),
        ([[rows_of([1], is_control=[True])]], "t-0: a record is a control record, which only a transaction coordinator writes"),
        ([[given(7, 1, is_transactional=[True])]], r"t-0: a record \(offset 7\) belongs to a transaction, which is not written"),
        ([[given(7, 1, _corrupt=["wrong CRC"])]], r"t-0: a record \(offset 7\) is damaged: wrong CRC"),
        ([[table(topic=[None], partition=[0], value=[b"v"])]], "a record has no topic"),
        ([[table(topic=["a/b"], partition=[0], value=[b"v"])]], "'a/b' is not a valid topic name"),
        ([[table(topic=["t"], partition=[-1], value=[b"v"])]], "-1 is not a partition number"),
        ([[table(topic=["t"], partition=[0], value=[b"v"], timestampType=[2])]], "column timestampType is 0 or 1"),
    ],
)
def test_records_that_cannot_be_written_are_refused_in_one_line_and_nothing_is_left(tmp_path, tasks, problem: str) -> None:
    with pytest.raises(KmirrorError, match=problem) as raised:
        write_tasks(tmp_path / "d", tasks)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "d").exists()


def test_leader_epochs_of_records_begin_where_they_begin(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[given(10, 4, leader_epoch=[2, 2, 5, 5])], [given(20, 2, leader_epoch=[5, 7])]])
    assert epochs(path / "t-0") == [(2, 10), (5, 12), (7, 21)]
    assert [row["leader_epoch"] for row in read_rows(path)] == [2, 2, 5, 5, 5, 7]
    assert_sound(path, capsys)


def test_appending_goes_on_with_offsets_epochs_and_topic_id(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[rows_of(range(10))]], leaderEpoch=6, topicId="AAAAAAAAAAEAAAAAAAAAAQ")
    first = {name: data for name, data in tree(path).items() if name.endswith(".log")}
    write_tasks(path, [[rows_of(range(10, 15))], [rows_of(range(15, 20)), rows_of([7], partition=1)]])
    assert values_of(path) == list(range(20)) and values_of(path, 1) == [7]
    assert segments(path / "t-0") == [0, 10] and first.items() <= tree(path).items()
    assert [row["leader_epoch"] for row in read_rows(path)] == [6] * 20 + [0]
    assert epochs(path / "t-0") == [(6, 0)] and epochs(path / "t-1") == [(0, 0)]
    assert b"AAAAAAAAAAEAAAAAAAAAAQ" in (path / "t-1" / "partition.metadata").read_bytes()
    write_tasks(path, [[given(30, 2, leader_epoch=[8, 8])]])
    assert epochs(path / "t-0") == [(6, 0), (8, 30)]
    assert checkpoint(path, "replication-offset-checkpoint") == {TopicPartition("t", 0): 32, TopicPartition("t", 1): 1}
    assert_sound(path, capsys)
    for tasks, options, problem in [
        ([[given(31, 2)]], {}, "t-0: offset 31 cannot be written, the log ends at 32"),
        ([[rows_of([1])]], {"leaderEpoch": 7}, "t-0: leader epoch 7 at offset 32, after epoch 8"),
        ([[rows_of([1])]], {"topicId": str(Uuid(bytes(15) + b"\x07"))}, "has topic id AAAAAAAAAAEAAAAAAAAAAQ, not AAAAAAAAAAAAAAAAAAAABw"),
    ]:
        before = tree(path)
        with pytest.raises(KmirrorError, match=problem):
            write_tasks(path, tasks, **options)
        assert tree(path) == before


def test_appending_to_an_empty_partition_begins_its_log(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[rows_of([1])]], topic="t", numPartitions=2)
    write_tasks(path, [[rows_of([5, 6], partition=1)]])
    assert values_of(path, 1) == [5, 6] and segments(path / "t-1") == [0]
    assert_sound(path, capsys)


def test_overwriting_leaves_nothing_of_what_was_there(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    write_tasks(path, [[given(100, 5), given(3, 4, partition=1)]])
    (path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    write_tasks(path, [[rows_of([1, 2])]], overwrite=True)
    assert [row["offset"] for row in read_rows(path)] == [0, 1]
    assert checkpoint(path, "recovery-point-offset-checkpoint") == {TopicPartition("t", 0): 2}
    assert sorted(one.name for one in path.iterdir() if one.is_dir()) == ["t-0"] and (path / "meta.properties").exists()
    assert_sound(path, capsys)


@pytest.mark.parametrize(
    "name, problem",
    [
        ("__cluster_metadata-0/x", "it belongs to a node"),
        ("thesis.doc", "thesis.doc is not part of a log.dir"),
        ("photos-2024/cat.jpg", "photos-2024 is not part of a log.dir"),
    ],
)
def test_overwriting_refuses_what_is_no_log(tmp_path, name: str, problem: str) -> None:
    write_tasks(tmp_path, [[rows_of([1])]])
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(KmirrorError, match=problem):
        write_tasks(tmp_path, [[rows_of([2])]], overwrite=True)
    assert tree(tmp_path) == before


def test_error_mode_looks_again_at_the_commit(tmp_path) -> None:
    batch = rows_of([1])
    writer = writer_for(tmp_path / "d", batch.schema, kmirror_savemode="error")
    message = writer.write(iter([batch]))
    write_tasks(tmp_path / "d", [[rows_of([2])]])
    before = {name: data for name, data in tree(tmp_path / "d").items() if "-delete/" not in name}
    with pytest.raises(KmirrorError, match="has logs already; append to them with mode"):
        writer.commit([message])
    writer.abort([message])
    assert tree(tmp_path / "d") == before
    with pytest.raises(KmirrorError, match="has logs already"):
        writer_for(tmp_path / "d", batch.schema, kmirror_savemode="error")


def test_a_commit_that_fails_behind_another_removes_nothing_of_it(tmp_path, monkeypatch) -> None:
    """The second job listed the log.dir before it had the lock, and took the checkpoints that the
    first one wrote meanwhile for its own.
    """
    path, batch = tmp_path / "d", rows_of([1])
    writer = writer_for(path, batch.schema, kmirror_savemode="error")
    message = writer.write(iter([batch]))

    class LateLogDir(LogDir):
        def __init__(self, *arguments, **options) -> None:
            with monkeypatch.context() as patch:
                patch.setattr("kmirror.spark.local_writes.LogDir", LogDir)
                write_tasks(path, [[rows_of([2])]])
            super().__init__(*arguments, **options)

    monkeypatch.setattr("kmirror.spark.local_writes.LogDir", LateLogDir)
    with pytest.raises(KmirrorError, match="has logs already"):
        writer.commit([message])
    writer.abort([message])
    assert checkpoint(path, "replication-offset-checkpoint") == {TopicPartition("t", 0): 1}
    assert values_of(path) == [2]


def test_fewer_partitions_than_the_topic_has_are_refused(tmp_path) -> None:
    """Keys would be spread over three of five partitions, where no consumer looks for them."""
    path = tmp_path / "d"
    keyed = table(topic=["t"] * 9, key=[b"%d" % number for number in range(9)], value=[b"1"] * 9, timestamp_ms=[TIME] * 9)
    write_tasks(path, [[keyed]], numPartitions=5)
    before = tree(path)
    with pytest.raises(KmirrorError, match="has t-3, so topic t has more than numPartitions=3 partitions"):
        write_tasks(path, [[keyed]], numPartitions=3)
    assert tree(path) == before
    write_tasks(path, [[keyed]], numPartitions=5)
    write_tasks(path, [[keyed]], overwrite=True, numPartitions=3)
    assert len(read_rows(path)) == 9


def test_an_abort_waits_for_tasks_that_still_write(tmp_path, monkeypatch) -> None:
    """rmtree fails where a killed task adds a file meanwhile; the staging folder stayed."""
    batch, tries = rows_of([1]), []
    writer = writer_for(tmp_path / "d", batch.schema)
    message = writer.write(iter([batch]))

    def remove_tree(files: WritableLocalFiles, path: str) -> None:
        tries.append(path)
        if len(tries) < 3:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        shutil.rmtree(path)

    monkeypatch.setattr(WritableLocalFiles, "remove_tree", remove_tree)
    writer.abort([message])
    assert not (tmp_path / "d").exists() and len(tries) == 4
    with pytest.raises(KmirrorError, match="the job ended"):
        writer.write(iter([batch]))


def test_a_commit_does_not_fail_because_an_attempt_that_was_given_up_still_writes(tmp_path, monkeypatch) -> None:
    """The records were in the log, and the job was reported as failed: it ran again."""
    monkeypatch.setattr("kmirror.spark.local_writes._REMOVE_PAUSE_S", 0.0)
    batch, tries = rows_of([1]), []

    def remove_tree(files: WritableLocalFiles, path: str) -> None:
        tries.append(path)
        raise OSError(errno.ENOTEMPTY, "Directory not empty", path)

    monkeypatch.setattr(WritableLocalFiles, "remove_tree", remove_tree)
    write_tasks(tmp_path / "d", [[batch]])
    assert values_of(tmp_path / "d") == [1] and len(tries) > 1
    tries.clear()
    write_tasks(tmp_path / "d", [[batch]])
    assert values_of(tmp_path / "d") == [1, 1]


def test_what_a_killed_driver_left_is_no_log_to_a_reader(tmp_path, capsys) -> None:
    path = tmp_path / "d"
    batch = rows_of([1])
    writer_for(path, batch.schema).write(iter([batch]))
    assert list(path.glob("*-delete/*/t-0/*.log"))
    with pytest.raises(KmirrorError, match="holds no partition"):
        read_rows(path)
    write_tasks(path, [[rows_of([2])]])
    assert values_of(path) == [2]
    assert_sound(path, capsys)


def test_a_task_that_failed_and_was_repeated_writes_nothing_twice(tmp_path, capsys) -> None:
    batch = rows_of(range(50))
    writer = writer_for(tmp_path / "d", batch.schema)

    def torn():
        yield batch
        raise OSError("the executor is lost")

    with pytest.raises(KmirrorError, match="the executor is lost"):
        writer.write(torn())
    writer.write(iter([batch]))  # whose result is lost
    writer.commit([writer.write(iter([batch])), None])
    assert values_of(tmp_path / "d") == list(range(50))
    assert not list((tmp_path / "d").glob("*-delete"))
    with pytest.raises(KmirrorError, match="is not there: the job ended, or"):
        writer.write(iter([batch]))
    assert_sound(tmp_path / "d", capsys)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_that_fails_in_the_middle_leaves_the_log_dir_as_it_was(tmp_path, monkeypatch, overwrite: bool) -> None:
    path = tmp_path / "d"
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    write_tasks(path, [[given(5, 5), rows_of([1], partition=1)]], topic="t", numPartitions=3, leaderEpoch=1)
    before = tree(path)
    rename, tasks = WritableLocalFiles.rename, [[rows_of([7]), rows_of([8], partition=2), rows_of([9], partition=5)]]
    done = []
    for allowed in range(100):
        count = iter(range(1_000))

        def failing(self: WritableLocalFiles, source: str, destination: str, count=count, allowed=allowed) -> None:
            if "-delete/" not in destination and next(count) == allowed:
                raise OSError(28, "No space left on device", destination)
            rename(self, source, destination)

        with monkeypatch.context() as patch:
            patch.setattr(WritableLocalFiles, "rename", failing)
            try:
                write_tasks(path, tasks, overwrite=overwrite, leaderEpoch=2)
            except (OSError, KmirrorError):
                assert tree(path) == before, allowed
                done.append(allowed)
            else:
                break
    assert len(done) > 5
    assert values_of(path, 5) == [9] and values_of(path) == ([7] if overwrite else [5, 6, 7, 8, 9, 7])


def test_a_log_dir_in_use_or_not_shut_down_cleanly_is_left_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("kmirror.spark.local_writes.LOCK_WAIT_S", 0.0)
    path = tmp_path / "d"
    write_tasks(path, [[rows_of([1])]])
    before = tree(path)
    lock = OsFileSystem().lock(f"{path}/.lock")
    with pytest.raises(KmirrorError, match="A Kafka instance in another process or thread is using this directory"):
        write_tasks(path, [[rows_of([2])]])
    lock.close()
    assert tree(path) == before
    (path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(KmirrorError, match="it was not shut down cleanly, or copied without its hidden files"):
        write_tasks(path, [[rows_of([2])]])
    write_tasks(path, [[rows_of([2])]], overwrite=True)
    assert values_of(path) == [2]


def test_a_job_without_rows_makes_an_empty_log_dir(tmp_path) -> None:
    batch = rows_of([1])
    writer = writer_for(tmp_path / "d", batch.schema, topic="t", numPartitions=2)
    writer.commit([])
    assert sorted(path.name for path in (tmp_path / "d").glob("t-*")) == ["t-0", "t-1"]
    assert read_rows(tmp_path / "d") == []


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"compression_type": "brotli"}, "option compression.type is none, gzip, snappy, lz4 or zstd, not 'brotli'"),
        ({"compression_gzip_level": 0, "compression_type": "gzip"}, "option compression.gzip.level is -1 or a number from 1 to 9, not '0'"),
        ({"batch_size": "16k"}, "option batch.size is a number from 1 to 1073741824, not '16k'"),
        ({"message_timestamp_type": "now"}, "option message.timestamp.type is 'CreateTime' or 'LogAppendTime', not 'now'"),
        ({"topicId": "x"}, "option topicId is a topic's id, or JSON of ids by topic, not 'x'"),
        ({"topic": ".."}, "'..' is not a valid topic name"),
        ({"subscribe": "t"}, "writing has no option subscribe; the options are path, topic"),
        ({"path": "s3://bucket/logs"}, "a log must be written to a disk that the driver and all executors have"),
        ({"path": ""}, "no path; use df.write.format"),
    ],
)
def test_wrong_options_are_told_in_one_line(tmp_path, options, problem: str) -> None:
    with pytest.raises(KmirrorError) as raised:
        writer_for(options.pop("path", tmp_path), rows_of([1]).schema, **options)
    assert problem in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "columns, problem",
    [
        ({"topic": ["t"], "partition": [0]}, "there is no column value"),
        ({"value": [b"v"]}, "no topic; give a column topic, or option topic"),
        ({"topic": ["t"], "value": [b"v"], "timestamp_type": ["CreateTime"], "timestampType": [0]}, "timestamp_type and timestampType"),
    ],
)
def test_missing_columns_are_told_before_a_task_runs(tmp_path, columns, problem: str) -> None:
    with pytest.raises(KmirrorError, match=problem):
        writer_for(tmp_path / "d", table(**columns).schema)
    assert not (tmp_path / "d").exists()


def test_a_column_of_another_type_or_name_is_refused(tmp_path) -> None:
    import pyarrow as pa

    for name, kind, problem in [
        ("value", pa.int64(), "column value must be of type binary or string, not bigint"),
        ("price", pa.int64(), "a column 'price' cannot be written; the columns are key, value"),
    ]:
        fields = {one.name: one.type for one in rows_of([1]).schema} | {name: kind}
        with pytest.raises(KmirrorError, match=problem):
            writer_for(tmp_path / "d", pa.schema(list(fields.items())))


def test_one_task_with_one_column_set_is_enough(tmp_path) -> None:
    write_rows(tmp_path / "d", options={"topic": "only", "numPartitions": 1}, value=[b"a", None])
    assert [(row["topic"], row["partition"], row["value"]) for row in read_rows(tmp_path / "d")] == [("only", 0, b"a"), ("only", 0, None)]
