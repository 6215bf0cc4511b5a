"""Appends of micro-batches that are run again: what the log.dir has already is not written twice,
wherever the first run ended.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.logs.log_folders import batches, write_log, write_segments
from support.logs.storage_doubles import StorageWorld
from support.tools.killed_writes import killed_at_each_change
from support.tools.spark_rows import read_rows
from support.tools.spark_writes import table, write_tasks
from support.waiting import PROGRAM_S

from kmirror.common.errors import KmirrorError
from kmirror.spark import append_batches
from kmirror.spark.commit_journal import JOURNAL_FILE_NAME
from kmirror.spark.written_batches import BATCHES_FILE_NAME
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig

TIME = 1_750_000_000_000
SMALL: dict[str, Any] = {"segment_bytes": 500, "batch_size": 200}


def rows_of(values: range, *, partition: int = 0, offset: int | None = None) -> Any:
    count = len(values)
    columns: dict[str, list[Any]] = {"topic": ["t"] * count, "partition": [partition] * count}
    if offset is not None:
        columns["offset"] = list(range(offset, offset + count))
    return table(**columns, value=[b"%d" % value for value in values], timestamp_ms=[TIME] * count)


OLD = [[rows_of(range(10)), rows_of(range(100, 101), partition=1)]]
NEW = [[rows_of(range(10, 40)), rows_of(range(200, 201), partition=2)], [rows_of(range(40, 60))]]
WHOLE = {0: list(range(60)), 1: [100], 2: [200]}


def values(path: Path) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in read_rows(path):
        found.setdefault(row["partition"], []).append(int(row["value"]))
    return found


def broker_in(path: Path) -> None:
    """A broker starts on a log.dir, and ends cleanly."""
    world = StorageWorld()
    manager = LogManager(
        LogManagerConfig((str(path),)),
        files=world.files,
        clock=world.clock,
        random=world.random,
        scheduler=world.scheduler,
        default_log_config=LogConfig(),
        topic_config=lambda topic: {},
        on_log_dir_failure=lambda log_dir, error: None,
    )
    manager.startup(lambda log: False)
    manager.shutdown()


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize("broker_comes", [False, True])
def test_a_batch_whose_driver_was_killed_anywhere_is_written_once(tmp_path: Path, broker_comes: bool) -> None:
    base, outcomes = tmp_path / "base", Counter[str]()
    write_tasks(base, OLD, topic="t", numPartitions=3, txnAppId="q", txnVersion=0)
    for change, path in killed_at_each_change(base, tmp_path, NEW, txnAppId="q", txnVersion=1, **SMALL):
        if broker_comes:
            broker_in(path)
        try:
            write_tasks(path, NEW, txnAppId="q", txnVersion=1, **SMALL)
        except KmirrorError as error:
            assert broker_comes and "a broker has used the log.dir since" in str(error)
            outcomes["a part was read"] += 1
            continue
        assert values(path) == WHOLE, change
        outcomes["written once"] += 1
        write_tasks(path, [[rows_of(range(60, 61))]], txnAppId="q", txnVersion=2)
        assert values(path)[0] == list(range(61))
    assert outcomes["written once"] > (5 if broker_comes else 20)


def test_names_are_apart_and_overwrite_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "d"
    write_tasks(path, OLD, txnAppId="q", txnVersion=4)
    write_tasks(path, OLD, txnAppId="other", txnVersion=4)
    write_tasks(path, OLD)
    assert len(values(path)[0]) == 30
    for number in (4, 3, 0):
        write_tasks(path, OLD, txnAppId="q", txnVersion=number)
    assert len(values(path)[0]) == 30
    assert sum("has NamedBatch(name='q'" in record.getMessage() for record in caplog.records) == 3
    write_tasks(path, OLD, overwrite=True, txnAppId="q", txnVersion=5)
    write_tasks(path, OLD, txnAppId="other", txnVersion=0)
    assert len(values(path)[0]) == 20
    write_tasks(path, OLD, overwrite=True)
    assert len(values(path)[0]) == 10 and not (path / BATCHES_FILE_NAME).exists()


def test_records_with_offsets_do_not_stick_at_the_logs_end(tmp_path: Path) -> None:
    path = tmp_path / "d"
    for _ in range(2):
        write_tasks(path, [[rows_of(range(10), offset=0)]], txnAppId="q", txnVersion=0)
    write_tasks(path, [[rows_of(range(10, 20), offset=10)]], txnAppId="q", txnVersion=1)
    assert values(path) == {0: list(range(20))}


def test_what_cannot_be_understood_is_told(tmp_path: Path) -> None:
    path = tmp_path / "d"
    for options in ({"txnAppId": "q"}, {"txnVersion": 3}, {"txnAppId": "", "txnVersion": 3}):
        with pytest.raises(KmirrorError, match="txnAppId .* and txnVersion .* can only be given together"):
            write_tasks(path, OLD, **options)
    write_tasks(path, OLD, txnAppId="q", txnVersion=0)
    (path / BATCHES_FILE_NAME).write_text("[1")
    with pytest.raises(KmirrorError, match=f"{BATCHES_FILE_NAME}: .*no list of micro-batches"):
        write_tasks(path, OLD, txnAppId="q", txnVersion=1)
    assert not (path / JOURNAL_FILE_NAME).exists()


@pytest.mark.parametrize("keeps_offsets", [True, False])
def test_a_query_that_fails_behind_the_append_doubles_nothing(spark: Any, tmp_path: Path, keeps_offsets: bool) -> None:
    """A restart wrote the batch a second time, or stuck at "the log ends at" with a column offset."""
    source, target = tmp_path / "source", tmp_path / "target"
    write_segments(source / "t-0", *((first, batches(2, first=first)) for first in (0, 10, 20)))
    write_log(source / "t-1", *batches(3))
    (source / "replication-offset-checkpoint").write_text("0\n2\nt 0 30\nt 1 15\n")
    append, fails = append_batches(str(target), compression_type="lz4"), {0, 2}

    def take(frame: Any, number: int) -> None:
        append(frame if keeps_offsets else frame.drop("offset"), number)
        if number in fails:
            fails.remove(number)
            raise RuntimeError("the machine died")

    def run() -> None:
        stream = spark.readStream.format("kafka-log").options(startingOffsets="earliest", maxOffsetsPerTrigger="20").load(str(source))
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(PROGRAM_S)

    for _ in range(2):
        with pytest.raises(Exception, match="the machine died"):
            run()
    run()
    written = [(row["partition"], row["offset"], row["value"]) for row in read_rows(target)]
    assert sorted(written) == sorted((row["partition"], row["offset"], row["value"]) for row in read_rows(source))
    assert not fails


def test_outside_of_a_query_a_name_is_asked_for(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("t", 0, b"v")], "topic string, partition int, value binary")
    with pytest.raises(KmirrorError, match="give append_batches"):
        append_batches(str(tmp_path / "d"))(frame, 0)
    for _ in range(2):
        append_batches(str(tmp_path / "d"), txnAppId="mine")(frame, 0)
    assert len(read_rows(tmp_path / "d")) == 1
