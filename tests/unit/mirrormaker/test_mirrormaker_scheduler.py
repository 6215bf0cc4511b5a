"""The limit of a connector's jobs."""

from __future__ import annotations

import asyncio
import re

import pytest

from kmirror.mirrormaker import scheduler
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


async def test_a_job_that_gets_on_no_more_is_ended_and_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(step: Step) -> None:
        step()
        await asyncio.Event().wait()

    monkeypatch.setattr(scheduler, "STANDS_STILL_MS", 100)
    await execute("A->B", Job(hang, 1, "hanging"), 50, lambda: None)
    assert "timed out running task: hanging" in caplog.text


@pytest.mark.parametrize("timeout_ms", [-1, 0, 10])
async def test_a_job_is_done_and_told_however_short_its_limit_is(timeout_ms: int, caplog: pytest.LogCaptureFixture) -> None:
    """With admin.timeout.ms=0 no new topic was ever found; Kafka only tells that it took long."""
    done: list[int] = []

    async def work(step: Step) -> None:
        await asyncio.sleep(0.05)
        step()
        done.append(1)

    await execute("A->B", Job(work, 1, "working"), timeout_ms, lambda: None)
    assert done == [1]
    assert re.search(r"took too long \(\d+ ms\) running task: working", caplog.text)
