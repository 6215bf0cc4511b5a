"""The limit of a connector's jobs."""

from __future__ import annotations

import asyncio

import pytest

from kmirror.mirrormaker.scheduler import Job, Step, execute


async def test_a_job_that_gets_on_is_not_cut_short() -> None:
    done: list[int] = []
    heard: list[int] = []

    async def work(step: Step) -> None:
        for number in range(5):
            await asyncio.sleep(0.1)
            done.append(number)
            step()

    await execute("A->B", Job(work, 1, "working"), 300, lambda: heard.append(1))
    assert len(done) == len(heard) == 5


async def test_a_job_that_gets_on_no_more_is_ended_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async def hang(step: Step) -> None:
        step()
        await asyncio.Event().wait()

    await execute("A->B", Job(hang, 1, "hanging"), 50, lambda: None)
    assert "timed out running task: hanging" in caplog.text
