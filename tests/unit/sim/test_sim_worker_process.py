"""A program in the simulator that is no broker: when it starts again."""

from __future__ import annotations

import asyncio

from kmirror.sim.events import History
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimRuntime, SimWorld
from kmirror.sim.worker_process import RESTART_MS, WorkerProcess


class ShortLife:
    """Ends by itself after 10 ms."""

    async def run(self) -> None:
        await asyncio.sleep(0.01)

    async def stop(self) -> None: ...


def test_a_program_that_ends_by_itself_starts_again_each_time() -> None:
    """The restart was asked for in the name of the life that had ended, so it never came."""
    world = SimWorld(SimLoop(1))
    begun: list[SimRuntime] = []

    def begin(runtime: SimRuntime) -> ShortLife:
        begun.append(runtime)
        return ShortLife()

    worker = WorkerProcess(world, "mm1", History(), begin)
    worker.start()
    world.loop.run_for_us(5 * RESTART_MS * 1000)
    assert worker.lives == len(begun) == 5
    world.close()
