"""A run that never comes to the end of a step is a violation that says where it was; a campaign of
such runs goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import replace
from typing import Any

import pytest

from kmirror.sim.campaign import run_seed, run_seed_in_child
from kmirror.sim.cpu_limit import CpuLimitError, cpu_limit
from kmirror.sim.histories import registry
from kmirror.sim.histories.registry import HISTORIES
from kmirror.sim.run import run_history

CALM, SETTING = HISTORIES["writes_to_the_mirror"]
LIMITED = replace(SETTING, max_cpu_s=0.2)


def search_without_end() -> None:
    while True:
        with contextlib.suppress(Exception):
            sum(range(100))


async def in_the_story(stage: Any) -> None:
    await asyncio.sleep(1)
    search_without_end()


async def in_a_task_beside_it(stage: Any) -> None:
    async def beside() -> None:
        await asyncio.sleep(1)
        search_without_end()

    task = asyncio.get_running_loop().create_task(beside())
    await asyncio.sleep(60)
    await task


async def in_a_callback(stage: Any) -> None:
    asyncio.get_running_loop().call_later(1, search_without_end)
    await asyncio.sleep(60)


@pytest.mark.parametrize("play", [in_the_story, in_a_task_beside_it, in_a_callback])
def test_a_step_without_end_is_a_violation_that_says_where(play):
    result = run_history("endless", 1, play, LIMITED)
    (violation,) = result.violations
    assert violation.rule == "progress"
    assert violation.text.startswith("no end after 0.2 s of CPU time; it was in ")
    assert "search_without_end (tests/unit/sim/test_sim_cpu_limit.py:" in violation.text
    assert violation.now_us >= 1_000_000


def test_a_run_that_ends_is_not_touched():
    assert run_history("calm", 1, CALM, replace(SETTING, max_cpu_s=300.0)).ok
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL


def test_an_interrupt_that_is_swallowed_comes_again(monkeypatch):
    monkeypatch.setattr("kmirror.sim.cpu_limit.AGAIN_S", 0.1)
    swallowed = 0
    with pytest.raises(CpuLimitError), cpu_limit(0.1):
        while swallowed < 2:
            try:
                search_without_end()
            except CpuLimitError:
                swallowed += 1
        search_without_end()
    assert swallowed == 2


@pytest.mark.parametrize("run", [run_seed, run_seed_in_child])
def test_a_campaign_tells_the_seed_and_goes_on(monkeypatch, run):
    monkeypatch.setitem(registry.HISTORIES, "endless", (in_the_story, LIMITED))
    result = run("endless", 7, ())
    assert result.rules == ("progress",)
    assert "search_without_end" in result.violations[0]
    assert run("writes_to_the_mirror", 3, ()).ok
