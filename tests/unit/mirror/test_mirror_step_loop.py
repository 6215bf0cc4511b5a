"""The steps of one mirrored partition: what is left when a step is interrupted or ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kmirror.mirror.partition.step_loop import StepLoop
from kmirror.runtime.api import TaskScope
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld


@pytest.fixture
def world() -> Iterator[SimWorld]:
    world = SimWorld(SimLoop(1))
    yield world
    world.close()


@pytest.mark.parametrize("how", ["interrupted", "ended", "killed"])
def test_work_that_has_not_begun_when_its_step_ends_leaves_no_coroutine_behind(
    world: SimWorld, recwarn: pytest.WarningsRecorder, how: str
) -> None:
    """Python warned that a coroutine was never awaited: the work was made before its task began."""
    node = world.node("a")
    runtime = node.boot()
    begun: list[str] = []

    async def work() -> int:
        begun.append("work")
        return 1

    async def step() -> None:
        world.loop.call_soon({"interrupted": loop.interrupt, "ended": loop.end, "killed": node.kill}[how])
        found = await loop.interruptible(work)
        begun.append(f"went on with {found}")

    loop = StepLoop(runtime, TaskScope(runtime, "owner"), step, name="t-0")
    loop.wake()
    world.loop.run_for_us(1_000)
    gc.collect()
    assert begun == (["went on with None"] if how == "interrupted" else [])
    # Other warnings are of what tests before this one have left to the garbage collector.
    assert [text for warning in recwarn if "never awaited" in (text := str(warning.message))] == []
