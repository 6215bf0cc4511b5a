"""One run: a history played on a stage of a new world from a seed, and judged.

`run_history` is the same for every kind of stage. The `Setting` holds what differs: how to make the
stage from a world, and how to judge its history. An error that the program reports itself (a task
that died, a node that does not start) is a violation, and so is a wait or a step that does not end.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.sim.ablations import Ablations
from kmirror.sim.checkers import Violation
from kmirror.sim.cpu_limit import CpuLimitError, cpu_limit
from kmirror.sim.events import History
from kmirror.sim.faults import NO_FAULTS, FaultRates
from kmirror.sim.loop import new_loop
from kmirror.sim.runtime import SimWorld

HistoryFunction = Callable[[Any], Awaitable[None]]
MAX_STEPS = 600_000
MAX_TIME_US = 600_000_000
MAX_CPU_S = 600.0


@dataclass(slots=True)
class RunResult:
    """The outcome of one seed. `history` is the whole story; `trace_hash` identifies the run."""

    name: str
    seed: int
    violations: list[Violation]
    trace_hash: str
    steps: int
    now_us: int
    history: History

    @property
    def ok(self) -> bool:
        return not self.violations


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a history.

    `stage(world, history, rates, ablations)` makes its stage, and `judge(history)` returns its
    violations. A run that takes more loop steps, simulated time or CPU time than allowed is a
    violation of "progress".
    """

    stage: Callable[[SimWorld, History, FaultRates, Ablations], Any]
    judge: Callable[[History], list[Violation]]
    rates: FaultRates = NO_FAULTS
    without: tuple[str, ...] = ()
    on_trace: Callable[[str], None] | None = field(default=None, compare=False)
    max_steps: int = MAX_STEPS
    max_time_us: int = MAX_TIME_US
    max_cpu_s: float = MAX_CPU_S


def run_history(name: str, seed: int, play: HistoryFunction, setting: Setting) -> RunResult:
    """Plays the history on a new stage and judges it.

    The collections of garbage that the loop makes look at the new world alone: what was there before
    may be the large heap of a process of tests. It must be left alone from before the world is made,
    since parts of a dead world that were left alone would never be freed.
    """
    gc.freeze()
    try:
        return _played(name, seed, play, setting)
    finally:
        gc.unfreeze()


def _played(name: str, seed: int, play: HistoryFunction, setting: Setting) -> RunResult:
    loop = new_loop(f"{name}/{seed}", max_steps=setting.max_steps, max_time_us=setting.max_time_us, on_trace=setting.on_trace)
    world = SimWorld(loop)
    history = History()
    ablations = Ablations.without(setting.without)
    found: list[Violation] = []
    with ablations.applied():
        try:
            with cpu_limit(setting.max_cpu_s):
                stage = setting.stage(world, history, setting.rates, ablations)
                loop.run_until_complete(loop.create_task(_play(stage, play), name="story"))
        except (KmirrorError, CpuLimitError) as error:
            found.append(Violation("progress", loop.now_us, str(error)))
        loop.add_unseen_failures()
        found += [Violation("failure", failure.now_us, repr(failure)) for failure in loop.failures]
        trace_hash, steps, now_us = loop.trace_hash, loop.steps, loop.now_us
        world.close()
    found += setting.judge(history)
    return RunResult(name, seed, sorted(found, key=lambda violation: violation.now_us), trace_hash, steps, now_us, history)


async def _play(stage: Any, play: HistoryFunction) -> None:
    await play(stage)
