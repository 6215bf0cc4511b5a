"""The cleaner's task: jobs are driven to their end, and a cancelled one only lets go of its files
when the worker is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from kmirror.runtime.api import TaskScope
from kmirror.runtime.system_ports import SystemClock
from kmirror.server.log_cleaner_task import LogCleanerTasks, run_log_cleaner
from kmirror.storage.log_cleaner import CleanerConfig


class FakeRuntime:
    """`run_blocking` waits at the gate; sleeping ends the test."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.slept_ms: list[float] = []
        self.clock = SystemClock()
        self.failures: list[str] = []

    def report_failure(self, message: str, error: BaseException) -> None:
        self.failures.append(message)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        return asyncio.create_task(coroutine, name=name)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def run_blocking(self, function: Callable[[], None]) -> None:
        await self.gate.wait()
        function()

    async def sleep_ms(self, delay_ms: float) -> None:
        self.slept_ms.append(delay_ms)
        await asyncio.Event().wait()


class FakeJob:
    pause_ms = 0

    def __init__(self, steps: int, events: list[str]) -> None:
        self.steps = steps
        self.events = events

    def advance(self) -> bool:
        self.events.append("advance")
        self.steps -= 1
        return self.steps >= 0

    def work(self) -> None:
        self.events.append("work")

    def abort(self) -> None:
        self.events.append("abort")

    def cancel(self) -> None:
        self.events.append("cancel")


class FakeCleaner:
    config = CleanerConfig(backoff_ms=777)

    def __init__(self, *jobs: FakeJob) -> None:
        self.jobs = list(jobs)
        self.dead_threads: Callable[[], int] = lambda: 0

    def next_job(self) -> FakeJob | None:
        return self.jobs.pop(0) if self.jobs else None


async def turns() -> None:
    """Let every task go as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


def run(test: Callable[[FakeRuntime, list[str]], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(FakeRuntime(), [])

    asyncio.run(main())


def test_jobs_run_to_their_end_and_then_there_is_a_pause() -> None:
    async def test(runtime: FakeRuntime, events: list[str]) -> None:
        runtime.gate.set()
        task = asyncio.create_task(run_log_cleaner(runtime, FakeCleaner(FakeJob(2, events), FakeJob(1, events))))  # type: ignore[arg-type]
        await turns()
        assert events == ["advance", "work", "advance", "work", "advance", "advance", "work", "advance"]
        assert runtime.slept_ms == [777]
        task.cancel()

    run(test)


def test_a_job_that_ends_before_its_work_does_not_hold_up_the_loop() -> None:
    """Seed 216803: a disk failed each pass at once, and the next was begun at once; nothing else
    ran on the broker again.
    """

    async def test(runtime: FakeRuntime, events: list[str]) -> None:
        task = asyncio.create_task(run_log_cleaner(runtime, FakeCleaner(*(FakeJob(0, events) for _ in range(100)))))  # type: ignore[arg-type]
        await turns()
        assert events == ["advance"]
        assert runtime.slept_ms == [300]
        task.cancel()

    run(test)


def test_a_job_that_should_pause_is_left_alone_for_a_while_and_cancelled_without_work() -> None:
    async def test(runtime: FakeRuntime, events: list[str]) -> None:
        job = FakeJob(2, events)
        job.pause_ms = 5000
        task = asyncio.create_task(run_log_cleaner(runtime, FakeCleaner(job)))  # type: ignore[arg-type]
        await turns()
        assert runtime.slept_ms == [300]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events == ["advance", "abort", "cancel"]

    run(test)


def test_cleaners_come_and_go_as_the_setting_says() -> None:
    async def test(runtime: FakeRuntime, events: list[str]) -> None:
        cleaner = FakeCleaner(*(FakeJob(1, events) for _ in range(5)))
        cleaner.config = CleanerConfig(threads=2)
        scope = TaskScope(runtime, "test")  # type: ignore[arg-type]
        tasks = LogCleanerTasks(runtime, scope, cleaner)  # type: ignore[arg-type]
        tasks.resize()
        await turns()
        assert len(cleaner.jobs) == 3, "two logs are cleaned at a time"
        cleaner.config = CleanerConfig(threads=3)
        tasks.resize()
        await turns()
        assert len(cleaner.jobs) == 2 and len(scope) == 3
        cleaner.config = CleanerConfig(threads=1)
        tasks.resize()
        runtime.gate.set()
        await turns()
        assert len(scope) == 1 and not cleaner.jobs, "the others have ended, after their jobs"
        cleaner.config = CleanerConfig(threads=2)
        tasks.resize()
        await turns()
        assert len(scope) == 2
        await scope.cancel()

    run(test)


def test_a_cleaner_that_died_was_counted_as_none() -> None:
    async def test(runtime: FakeRuntime, events: list[str]) -> None:
        cleaner = FakeCleaner()
        cleaner.next_job = lambda: 1 // 0  # type: ignore[assignment, return-value]
        scope = TaskScope(runtime, "test")  # type: ignore[arg-type]
        LogCleanerTasks(runtime, scope, cleaner).resize()  # type: ignore[arg-type]
        await turns()
        assert cleaner.dead_threads() == 1
        assert runtime.failures == ["task log-cleaner-0 ended unexpectedly and begins again in 100 ms"]
        assert runtime.slept_ms == [100], "until it begins again"
        await scope.cancel()

    run(test)


def test_a_cancelled_job_waits_for_its_worker() -> None:
    async def test(runtime: FakeRuntime, events: list[str]) -> None:
        task = asyncio.create_task(run_log_cleaner(runtime, FakeCleaner(FakeJob(2, events))))  # type: ignore[arg-type]
        await turns()
        task.cancel()
        await turns()
        assert events == ["advance", "abort"]
        runtime.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events == ["advance", "abort", "work", "cancel"]

    run(test)
