"""Commits of `kafka-log` that are killed with SIGKILL before their n-th change of the log.dir.

The rows are staged in this process. A child commits them, and kills itself; what it leaves is what
a driver leaves whose process is killed, or whose container runs out of memory.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kmirror.spark.commit_journal import JOURNAL_FILE_NAME
from kmirror.spark.local_writes import WritableLocalFiles, WrittenFile
from support.tools.spark_writes import writer_for

CHANGES = {WritableLocalFiles: ("rename", "remove", "write_bytes"), WrittenFile: ("pwrite", "truncate")}


def staged(path: Path, tasks: Sequence[Sequence[pa.RecordBatch]], *, overwrite: bool = False, **options: Any) -> tuple[Any, list[Any]]:
    """Returns the writer and the messages of a job whose tasks have run."""
    writer = writer_for(path, tasks[0][0].schema, overwrite=overwrite, **options)
    return writer, [pickle.loads(pickle.dumps(writer)).write(iter(list(batches))) for batches in tasks]


def is_killed(path: Path, change: int, commit: Callable[[], object], *, moves_only: bool = False) -> bool:
    """Runs `commit` in a child that is killed before it makes the change of this number (from 0),
    counted from where it writes the log.dir's journal. False if it ended before."""
    child = os.fork()
    if not child:
        try:
            _die_before(path, change, moves_only=moves_only)
            commit()
        except BaseException:  # noqa: BLE001 - the child must not go on as a second pytest
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return True
    assert os.WEXITSTATUS(status) == 0, "the commit failed in the child"
    return False


def _die_before(path: Path, change: int, *, moves_only: bool) -> None:
    count, journal, has_begun = iter(range(change)), str(path / JOURNAL_FILE_NAME), [(path / JOURNAL_FILE_NAME).exists()]

    def dying(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            has_begun[0] |= not moves_only and any(str(one).startswith(journal) for one in arguments)
            is_move = any("-delete/" in str(one) for one in arguments)
            if has_begun[0] and (is_move or not moves_only) and next(count, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return method(*arguments)
            finally:
                has_begun[0] |= journal in arguments

        return call

    for kind, names in CHANGES.items():
        for name in names:
            setattr(kind, name, dying(getattr(kind, name)))


def killed_at_each_change(
    base: Path | None, folder: Path, tasks: Sequence[Sequence[pa.RecordBatch]], *, overwrite: bool = False, **options: Any
) -> Iterator[tuple[int, Path]]:
    """Yields (number, log.dir) for a job that is killed before each of its changes: a copy of
    `base` (None: nothing) to which it was written. The last one was not killed."""
    for change in range(10_000):
        path = folder / f"killed-{change}"
        if base is not None:
            shutil.copytree(base, path)
        writer, messages = staged(path, tasks, overwrite=overwrite, **options)
        if not is_killed(path, change, lambda: writer.commit(messages)):
            return
        yield change, path
        shutil.rmtree(path)
