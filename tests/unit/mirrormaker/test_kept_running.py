"""Work that is kept running until its owner ends it (`kmirror.mirrormaker.kept_running`)."""

from __future__ import annotations

import asyncio

import pytest

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.kept_running import KeptRunning, Status
from kmirror.mirrormaker.state_times import State
from kmirror.runtime.asyncio_runtime import AsyncioRuntime


class Task:
    """A task that stores its offsets when it ends, which takes as long as the test says."""

    def __init__(self) -> None:
        self.may_store = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.is_ending = asyncio.Event()
        self.has_stored = False
        self.kept = KeptRunning(AsyncioRuntime(), "task", self._work)
        self.kept.start()

    async def _work(self, status: Status) -> None:
        status.heard()
        self.has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ending.set()
            await self.may_store.wait()
            self.has_stored = True


async def test_stop_waits_for_what_the_work_does_at_its_end() -> None:
    task = Task()
    await task.has_begun.wait()
    assert task.kept.status.state is State.RUNNING
    stopping = asyncio.ensure_future(task.kept.stop())
    await task.is_ending.wait()
    assert not stopping.done()
    task.may_store.set()
    await stopping
    assert task.has_stored and task.kept.status.state is State.STOPPED


async def test_who_stops_again_waits_for_the_same_end() -> None:
    """A worker ends while its group is stopping the work: the second stop must not cut off the end."""
    task = Task()
    await task.has_begun.wait()
    of_the_group = asyncio.ensure_future(task.kept.stop())
    await task.is_ending.wait()
    of_the_group.cancel()
    with pytest.raises(asyncio.CancelledError):
        await of_the_group
    of_the_worker = asyncio.ensure_future(task.kept.stop())
    await asyncio.sleep(0)
    assert not of_the_worker.done()
    task.may_store.set()
    await of_the_worker
    assert task.has_stored and task.kept.status.state is State.STOPPED


async def test_stop_of_work_that_has_ended_by_itself() -> None:
    async def work(status: Status) -> None:
        status.heard()

    kept = KeptRunning(AsyncioRuntime(), "task", work)
    kept.start()
    await asyncio.sleep(0.01)
    await kept.stop()
    await kept.stop()
    assert kept.status.state is State.STOPPED


async def test_work_that_fails_is_failed_until_it_begins_again() -> None:
    async def work(status: Status) -> None:
        raise KmirrorError("the target is away")

    kept = KeptRunning(AsyncioRuntime(), "task", work)
    kept.start()
    await asyncio.sleep(0.01)
    assert (kept.status.state, kept.status.error, kept.status.failures) == (State.FAILED, "the target is away", 1)
    await kept.stop()
    assert kept.status.state is State.STOPPED
