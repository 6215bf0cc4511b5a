"""Runs the log cleaner (Kafka's `CleanerThread`): each task runs one job after the other, with the
long parts of a job on a worker.

When a task is cancelled while a worker runs, it tells the job and waits for the worker before the
job's files are removed: a file must not be closed under a thread that writes to it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised
from kmirror.storage.log_cleaner import CleaningJob, LogCleaner

LONGEST_PAUSE_MS: Final = 300
"""After such a pause the task looks whether the job was aborted, or whether
log.cleaner.io.max.bytes.per.second has changed.
"""


class LogCleanerTasks:
    """Owns the `log.cleaner.threads` tasks, each with a job of its own; the setting can change."""

    def __init__(self, runtime: Runtime, scope: TaskScope, cleaner: LogCleaner) -> None:
        self._runtime = runtime
        self._scope = scope
        self._cleaner = cleaner
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._lives: dict[int, Supervised] = {}
        cleaner.dead_threads = lambda: sum(life.is_down for life in self._lives.values())

    def resize(self) -> None:
        """Starts missing tasks; surplus tasks end themselves after their jobs."""
        for number in range(self._cleaner.config.threads):
            task = self._tasks.get(number)
            if task is None or task.done():
                run = partial(run_log_cleaner, self._runtime, self._cleaner, number)
                name = f"log-cleaner-{number}"
                life = self._lives[number] = Supervised(self._runtime, run, name=name, may_return=True)
                self._tasks[number] = self._scope.spawn(life.run(), name=name)


async def run_log_cleaner(runtime: Runtime, cleaner: LogCleaner, number: int = 0) -> None:
    """Cleans as long as there are more cleaners than `number`.

    Waits for log.cleaner.backoff.ms when there is nothing to do. A job that ends before it has done
    any work is followed by a pause: if the next job ended as soon, it would starve everything else
    on the node.
    """
    while number < cleaner.config.threads:
        job = cleaner.next_job()
        if job is None:
            await runtime.sleep_ms(cleaner.config.backoff_ms)
        elif not await _run_job(runtime, job):
            await runtime.sleep_ms(min(cleaner.config.backoff_ms, LONGEST_PAUSE_MS))


async def _run_job(runtime: Runtime, job: CleaningJob) -> bool:
    """Runs a job; returns whether it did anything, or waited for anything."""
    has_begun = False
    while job.advance():
        has_begun = True
        work: asyncio.Task[None] | None = None
        try:
            if (pause_ms := job.pause_ms) > 0:
                await runtime.sleep_ms(min(pause_ms, LONGEST_PAUSE_MS))
                continue
            work = runtime.spawn(runtime.run_blocking(job.work), name="log-cleaner-work")
            await asyncio.shield(work)
        except asyncio.CancelledError:
            job.abort()
            if work is not None:
                await work
            job.cancel()
            raise
    return has_begun
