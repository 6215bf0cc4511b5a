"""Drivers that are killed while they move segments into the logs: the next write undoes what they
have done, so a job that runs again writes nothing twice.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.logs.storage_doubles import StorageWorld
from support.tools.killed_writes import is_killed, killed_at_each_change, staged
from support.tools.spark_rows import read_rows
from support.tools.spark_writes import table, write_tasks

from kmirror.cli import kmirror
from kmirror.common.errors import KmirrorError
from kmirror.spark.commit_journal import JOURNAL_FILE_NAME, TEMPORARY_FILE_NAME, CommitJournal
from kmirror.spark.local_writes import WritableLocalFiles
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig

TIME = 1_750_000_000_000


def rows_of(values: range | list[int], *, partition: int = 0) -> Any:
    count = len(values)
    return table(topic=["t"] * count, partition=[partition] * count, value=[b"%d" % value for value in values], timestamp_ms=[TIME] * count)


OLD = [[rows_of(range(10)), rows_of([100], partition=1)]]
NEW = [[rows_of(range(10, 40)), rows_of([200], partition=2)], [rows_of(range(40, 60)), rows_of([500], partition=5)]]
SMALL: dict[str, Any] = {"segment_bytes": 500, "batch_size": 200}
APPENDED = {0: list(range(60)), 1: [100], 2: [200], 5: [500]}
NEW_ALONE = {0: list(range(10, 60)), 2: [200], 5: [500]}


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A log.dir whose partition 2 is empty: a new segment replaces its active one."""
    write_tasks(tmp_path / "base", OLD, topic="t", numPartitions=3, leaderEpoch=1)
    return tmp_path / "base"


def values(path: Path) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in read_rows(path):
        found.setdefault(row["partition"], []).append(int(row["value"]))
    return found


def tree(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_file() and one.name not in (".lock", TEMPORARY_FILE_NAME) and "-delete/" not in str(one)
    }


def journal_of(path: Path) -> Path:
    return path / JOURNAL_FILE_NAME


def assert_sound(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kmirror.main(["verify-logs", str(path)]) == 0, capsys.readouterr().out
    assert not journal_of(path).exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_that_was_killed_anywhere_and_runs_again_writes_nothing_twice(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], overwrite: bool
) -> None:
    before, wanted, outcomes = tree(base), NEW_ALONE if overwrite else APPENDED, Counter[str]()
    for change, path in killed_at_each_change(base, tmp_path, NEW, overwrite=overwrite, **SMALL):
        has_journal, is_whole = journal_of(path).exists(), (path / ".kafka_cleanshutdown").exists() and values(path) == wanted
        if is_whole:
            outcomes["whole"] += 1
            assert_sound_after_another_job(path, wanted, capsys)
            continue
        outcomes["to be undone" if has_journal else "nothing done"] += 1
        if not has_journal:
            assert tree(path) == before, change
        write_tasks(path, NEW, overwrite=overwrite, **SMALL)
        assert values(path) == wanted, change
        assert not has_journal or not list(path.glob("*-delete"))
        assert_sound(path, capsys)
    assert outcomes["to be undone"] > 15 and outcomes["nothing done"] and 0 < outcomes["whole"] < 5, outcomes


def assert_sound_after_another_job(path: Path, wanted: dict[int, list[int]], capsys: pytest.CaptureFixture[str]) -> None:
    """A job that was killed behind its last step has written everything: nothing is undone."""
    write_tasks(path, [[rows_of([7], partition=9)]])
    assert values(path) == wanted | {9: [7]}
    assert_sound(path, capsys)


def test_a_first_write_that_was_killed_runs_again_in_its_own_mode(tmp_path: Path) -> None:
    """Save mode `error`, Spark's default, does not take a half of the logs for logs."""
    seen = 0
    for _, path in killed_at_each_change(None, tmp_path, NEW, kmirror_savemode="error", **SMALL):
        seen += journal_of(path).exists()
        if values_or_none(path) != NEW_ALONE:
            write_tasks(path, NEW, kmirror_savemode="error", **SMALL)
        assert values(path) == NEW_ALONE
    assert seen > 10


def values_or_none(path: Path) -> dict[int, list[int]] | None:
    return values(path) if (path / ".kafka_cleanshutdown").exists() else None


def killed_in_the_middle(base: Path, path: Path, *, moves: int, overwrite: bool = False) -> Path:
    """A job that was killed when it had made the journal and so many moves."""
    shutil.copytree(base, path)
    writer, messages = staged(path, NEW, overwrite=overwrite, **SMALL)
    assert is_killed(path, moves, lambda: writer.commit(messages), moves_only=True)
    assert journal_of(path).exists()
    return path


@pytest.mark.parametrize("overwrite", [False, True])
def test_undoing_that_is_killed_itself_is_done_by_the_next_write(base: Path, tmp_path: Path, overwrite: bool) -> None:
    before, killed = tree(base), 0
    for change in range(0, 1_000, 3):
        path = killed_in_the_middle(base, tmp_path / f"undone-{change}", moves=4, overwrite=overwrite)
        if not is_killed(path, change, lambda path=path: staged(path, NEW, overwrite=overwrite)):  # type: ignore[misc]
            assert tree(path) == before
            break
        killed += 1
        write_tasks(path, NEW, overwrite=overwrite, **SMALL)
        assert values(path) == (NEW_ALONE if overwrite else APPENDED), change
        shutil.rmtree(path)
    assert killed > 5


def broker_in(path: Path, work: Callable[[LogManager], None] = lambda manager: None) -> None:
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
    work(manager)
    manager.shutdown()


def test_what_a_broker_has_recovered_is_not_undone_and_an_append_says_what_is_there(base: Path, tmp_path: Path) -> None:
    path = killed_in_the_middle(base, tmp_path / "d", moves=4)
    broker_in(path)
    before = tree(path)
    with pytest.raises(KmirrorError) as raised:
        write_tasks(path, NEW, **SMALL)
    text = str(raised.value)
    assert "\n" not in text and "a write was killed at " in text and "a broker has used the log.dir since" in text
    assert "place: t-0 offsets 10 to 33 are in the log, t-0 offsets 34 to 39, t-0 offsets 40 to 59, t-2 offsets 0 to 0" in text
    assert f"remove {path}/{JOURNAL_FILE_NAME} first" in text
    assert tree(path) == before
    with pytest.raises(KmirrorError, match="a broker has used the log.dir since"):
        write_tasks(path, NEW, kmirror_savemode="ignore")
    journal_of(path).unlink()
    write_tasks(path, [[rows_of([1], partition=5)]])
    assert values(path)[0] == list(range(34))


def test_a_write_that_overwrites_what_a_broker_has_recovered_takes_the_journal_away(base: Path, tmp_path: Path, monkeypatch) -> None:
    path = killed_in_the_middle(base, tmp_path / "d", moves=4)
    broker_in(path)
    before, remove = tree(path), WritableLocalFiles.rename

    def failing(self: WritableLocalFiles, source: str, destination: str) -> None:
        if destination == f"{path}/t-5":
            raise OSError(28, "No space left on device", destination)
        remove(self, source, destination)

    with monkeypatch.context() as patch:
        patch.setattr(WritableLocalFiles, "rename", failing)
        with pytest.raises(KmirrorError, match="No space left on device"):
            write_tasks(path, NEW, overwrite=True)
    assert tree(path) == before, "with the first write's journal"
    write_tasks(path, NEW, overwrite=True)
    assert values(path) == NEW_ALONE and not journal_of(path).exists()


def test_a_write_that_was_whole_when_a_broker_came_is_no_problem(base: Path, tmp_path: Path) -> None:
    """It was killed before it could restore the marker: the broker recovers the logs, and all
    records are there."""
    shutil.copytree(base, tmp_path / "d")
    path = tmp_path / "d"
    writer, messages = staged(path, NEW, **SMALL)
    keep = CommitJournal.remove
    try:
        CommitJournal.remove = lambda self, files, path: None  # type: ignore[method-assign]
        writer.commit(messages)
    finally:
        CommitJournal.remove = keep  # type: ignore[method-assign]
    (path / ".kafka_cleanshutdown").unlink()
    broker_in(path)
    assert journal_of(path).exists()
    write_tasks(path, [[rows_of([7], partition=9)]])
    assert values(path) == APPENDED | {9: [7]} and not journal_of(path).exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_that_cannot_even_be_undone_keeps_what_it_replaced(base: Path, tmp_path: Path, monkeypatch, overwrite: bool) -> None:
    """The abort removed the staging folder, and with `overwrite` the old logs in it."""
    path = tmp_path / "d"
    shutil.copytree(base, path)
    before, rename, moved = tree(path), WritableLocalFiles.rename, []

    def failing(self: WritableLocalFiles, source: str, destination: str) -> None:
        if journal_of(path).exists():
            if len(moved) == 4:
                raise OSError(5, "Input/output error", destination)
            moved.extend([destination] if "-delete/" in source + destination else [])
        rename(self, source, destination)

    with monkeypatch.context() as patch:
        patch.setattr(WritableLocalFiles, "rename", failing)
        with pytest.raises((OSError, KmirrorError), match="Input/output error"):
            write_tasks(path, NEW, overwrite=overwrite, **SMALL)
    assert journal_of(path).exists() and list(path.glob("*-delete"))
    writer, messages = staged(path, NEW, overwrite=overwrite, **SMALL)
    assert tree(path) == before
    writer.commit(messages)
    assert values(path) == (NEW_ALONE if overwrite else APPENDED)


def test_a_damaged_journal_is_told_in_one_line(base: Path) -> None:
    journal_of(base).write_text('{"staging": ')
    with pytest.raises(KmirrorError, match=rf"{JOURNAL_FILE_NAME}.*no journal of a write") as raised:
        write_tasks(base, NEW)
    assert "\n" not in str(raised.value)
