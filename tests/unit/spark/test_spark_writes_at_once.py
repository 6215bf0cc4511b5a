"""Two write jobs into one log.dir at the same time, and a disk that fills up under one."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.tools.killed_writes import staged
from support.tools.spark_rows import read_rows
from support.tools.spark_writes import table, write_tasks

from kmirror.common.errors import KmirrorError
from kmirror.spark.local_writes import WritableLocalFiles, WrittenFile


def rows_of(values: range) -> Any:
    count = len(values)
    return table(topic=["t"] * count, partition=[0] * count, value=[b"%d" % value for value in values])


def values(path: Path) -> list[int]:
    return [int(row["value"]) for row in read_rows(path)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_two_jobs_that_stage_at_once_are_written_one_after_the_other(tmp_path: Path, overwrite: bool) -> None:
    """An overwrite took the staging folder of the other job for an old log."""
    write_tasks(tmp_path, [[rows_of(range(3))]])
    first, its_messages = staged(tmp_path, [[rows_of(range(10, 12))]], overwrite=overwrite)
    second, more_messages = staged(tmp_path, [[rows_of(range(20, 22))]])
    first.commit(its_messages)
    second.commit(more_messages)
    assert values(tmp_path) == [*([] if overwrite else range(3)), 10, 11, 20, 21]
    assert not list(tmp_path.glob("*-delete"))


def test_a_commit_waits_for_that_of_another_job(tmp_path: Path) -> None:
    """It failed, with an error that spoke of a Kafka instance, after all its tasks had run."""
    write_tasks(tmp_path, [[rows_of(range(3))]])
    writer, messages = staged(tmp_path, [[rows_of(range(3, 6))]])
    lock = WritableLocalFiles().lock(f"{tmp_path}/.lock")
    threading.Timer(0.3, lock.close).start()
    writer.commit(messages)
    assert values(tmp_path) == list(range(6))


def test_a_job_finds_out_at_its_start_that_a_broker_has_the_log_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kmirror.spark.local_writes.LOCK_WAIT_S", 0.0)
    write_tasks(tmp_path, [[rows_of(range(3))]])
    lock = WritableLocalFiles().lock(f"{tmp_path}/.lock")
    with pytest.raises(KmirrorError, match="is using this directory"):
        staged(tmp_path, [[rows_of(range(3, 6))]])
    lock.close()
    assert not list(tmp_path.glob("*-delete"))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("room", [0, 1, 3, 8, 16, 20])
def test_a_disk_that_is_full_leaves_the_log_dir_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool, room: int
) -> None:
    """While tasks stage, while pieces are put together, while checkpoints and the journal are
    written: there is room for so many writes."""
    write_tasks(tmp_path, [[rows_of(range(3))]])
    before = {str(one): one.read_bytes() for one in tmp_path.rglob("*") if one.is_file() and one.name != ".lock"}
    left, pwrite = iter(range(room)), WrittenFile.pwrite

    def full(self: WrittenFile, data: Any, position: int) -> int:
        if next(left, None) is None and not is_undoing[0]:
            is_undoing[0] = True  # what is put back has its room: the files were there before
            raise OSError(28, os.strerror(28), self.path)
        return pwrite(self, data, position)

    is_undoing = [False]
    with monkeypatch.context() as patch:
        patch.setattr(WrittenFile, "pwrite", full)
        try:
            write_tasks(tmp_path, [[rows_of(range(3, 9))], [rows_of(range(9, 12))]], overwrite=overwrite, batch_size=1, segment_bytes=90)
        except (KmirrorError, OSError) as error:
            assert "No space left on device" in str(error)
    assert is_undoing[0]
    assert {str(one): one.read_bytes() for one in tmp_path.rglob("*") if one.is_file() and one.name != ".lock"} == before
