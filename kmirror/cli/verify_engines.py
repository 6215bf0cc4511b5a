"""Where `kmirror verify-logs` runs its tasks: locally or on Spark.

Locally it uses this process, or one process per core if there is much to read.
"""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kmirror.cli.large_inputs import POOL_THRESHOLD_BYTES, process_pool, progress_when_large, result_of
from kmirror.common.ports import FileSystem
from kmirror.verify.replay.compaction import KeyCounts, KeyLog, count_keys
from kmirror.verify.replay.folder import Engine, ReplaySettings, close_all
from kmirror.verify.replay.plan import Part, ReplayPlan, run_task
from kmirror.verify.replay.tables import ReplayTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LocalEngine:
    """Works on this machine."""

    def replay(self, files: FileSystem, plan: ReplayPlan, settings: ReplaySettings) -> Iterable[ReplayTables]:
        return close_all(files, plan, self._parts(files, plan, settings), settings)

    def _parts(self, files: FileSystem, plan: ReplayPlan, settings: ReplaySettings) -> Iterator[Part]:
        size = plan.size_bytes
        with progress_when_large(size, "verifying") as progress:
            if len(plan.tasks) > 1 and size > POOL_THRESHOLD_BYTES and (os.cpu_count() or 1) > 1:
                yield from _on_pool(files, plan, settings, progress)
                return
            for task in plan.tasks:
                yield from run_task(files, task, plan.cuts, check_crc=settings.check_crc, unpack=settings.unpack, progress=progress)

    def count_keys(self, files: FileSystem, logs: Sequence[KeyLog]) -> Iterable[KeyCounts]:
        size = sum(map(_size_of, logs))
        with progress_when_large(size, "reading keys") as progress:
            if len(logs) > 1 and size > POOL_THRESHOLD_BYTES and (os.cpu_count() or 1) > 1:
                yield from _count_keys_on_pool(files, logs, progress)
                return
            for log in logs:
                yield count_keys(files, log, tempfile.TemporaryFile, progress)


def _on_pool(files: FileSystem, plan: ReplayPlan, settings: ReplaySettings, progress: Callable[[int], None]) -> Iterator[Part]:
    from concurrent.futures import as_completed

    with process_pool(len(plan.tasks)) as pool:
        waiting = {}
        for task in plan.tasks:
            own = {folder: plan.cuts[folder] for folder in {posixpath.dirname(piece.path) for piece in task}}
            done = pool.submit(run_task, files, task, own, check_crc=settings.check_crc, unpack=settings.unpack)
            waiting[done] = sum(piece.size for piece in task)
        for done in as_completed(waiting):
            progress(waiting[done])
            yield from result_of(done, "read logs")


def _count_keys_on_pool(files: FileSystem, logs: Sequence[KeyLog], progress: Callable[[int], None]) -> Iterator[KeyCounts]:
    """Count the keys of the biggest logs first, so that no big one is left over at the end."""
    with process_pool(len(logs)) as pool:
        waiting = {
            number: pool.submit(count_keys, files, log, tempfile.TemporaryFile)
            for number, log in sorted(enumerate(logs), key=lambda each: -_size_of(each[1]))
        }
        for number, log in enumerate(logs):
            yield result_of(waiting.pop(number), "read keys")
            progress(_size_of(log))


def _size_of(log: KeyLog) -> int:
    return sum(piece.size for piece in log.slices)


class SparkEngine:
    """Works on Spark's executors; the driver sees only rows.

    What needs no reading is finished here, without a session.
    """

    def __init__(self, master: str | None) -> None:
        self._master = master

    def _session(self) -> SparkSession:
        from kmirror.spark.session import spark_session

        return spark_session("kmirror verify-logs", master=self._master)

    def replay(self, files: FileSystem, plan: ReplayPlan, settings: ReplaySettings) -> Iterable[ReplayTables]:
        from kmirror.spark.replay import SparkReplay

        if not plan.size_bytes:
            return LocalEngine().replay(files, plan, settings)
        with progress_when_large(plan.size_bytes, "verifying") as progress:
            return SparkReplay(self._session, progress).replay(files, plan, settings)

    def count_keys(self, files: FileSystem, logs: Sequence[KeyLog]) -> Iterable[KeyCounts]:
        from kmirror.spark.replay import SparkReplay

        if not logs:
            return []
        with progress_when_large(sum(map(_size_of, logs)), "reading keys") as progress:
            return SparkReplay(self._session, progress).count_keys(files, logs)


def engine_named(name: str, master: str | None) -> Engine:
    return SparkEngine(master) if name == "spark" else LocalEngine()
