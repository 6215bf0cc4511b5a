"""Drives the log cleaner: one job after the other, its long parts on a worker (Kafka's `CleanerThread`).

When the task is cancelled while a worker is at it, the job is told so, and the worker is waited for before its files are
removed: a file must not be closed under a thread that writes to it.
"""

from __future__ import annotations

import asyncio

from kmirror.runtime.api import Runtime
from kmirror.storage.log_cleaner import CleaningJob, LogCleaner


async def run_log_cleaner(runtime: Runtime, cleaner: LogCleaner) -> None:
    """Clean for ever; log.cleaner.backoff.ms between looks when nothing is to be done."""
    while True:
        job = cleaner.next_job()
        if job is None:
            await runtime.sleep_ms(cleaner.config.backoff_ms)
        else:
            await _run_job(runtime, job)


async def _run_job(runtime: Runtime, job: CleaningJob) -> None:
    while job.advance():
        work = runtime.spawn(runtime.run_blocking(job.work), name="log-cleaner-work")
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            job.abort()
            await work
            job.cancel()
            raise
