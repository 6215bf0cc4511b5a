"""TaskScope on the simulated loop."""

from __future__ import annotations

import asyncio

import pytest

from kmirror.runtime.api import TaskScope, run_together
from kmirror.runtime.log_scheduler import RuntimeLogScheduler
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld


@pytest.fixture
def world():
    world = SimWorld(SimLoop(1))
    yield world
    world.close()


def test_cancel_ends_tasks_newest_first_and_awaits_each(world):
    runtime = world.node("a").boot()
    ended = []

    async def work(name: str, clean_up_ms: int) -> None:
        try:
            await runtime.sleep_ms(1_000_000)
        finally:
            await runtime.sleep_ms(clean_up_ms)
            ended.append(name)

    async def main() -> None:
        scope = TaskScope(runtime, "scope")
        for name, clean_up_ms in (("first", 1), ("second", 50), ("third", 9)):
            scope.spawn(work(name, clean_up_ms), name=name)
        await runtime.sleep_ms(1)
        await scope.cancel()
        assert len(scope) == 0
        with pytest.raises(RuntimeError):
            scope.spawn(work("late", 0), name="late")

    world.loop.run_until_complete(runtime.spawn(main(), name="main"))
    assert ended == ["third", "second", "first"]


def test_a_failing_task_is_reported_and_leaves_the_others_alone(world):
    runtime = world.node("a").boot()
    failures = []

    async def fail() -> None:
        raise ValueError("broken")

    async def main() -> str:
        scope = TaskScope(runtime, "scope", on_failure=lambda name, error: failures.append((name, str(error))))
        scope.spawn(fail(), name="bad")
        good = scope.spawn(asyncio.sleep(1, "good"), name="good")
        return await good

    assert world.loop.run_until_complete(runtime.spawn(main(), name="main")) == "good"
    assert failures == [("a/scope/bad", "broken")]


def test_what_runs_together_waits_together_and_ends_with_the_first_error(world):
    runtime = world.node("a").boot()
    ended = []

    async def work(name: str, delay_ms: int) -> str:
        try:
            await runtime.sleep_ms(delay_ms)
            if name == "bad":
                raise ValueError("broken")
            return name
        finally:
            ended.append(name)

    async def main() -> int:
        assert await run_together(runtime, "good", [work("slow", 100), work("quick", 1)]) == ["slow", "quick"]
        assert await run_together(runtime, "one", [work("one", 1)]) == ["one"]
        took_ms = runtime.clock.monotonic_ms()
        with pytest.raises(ValueError):
            await run_together(runtime, "bad", [work("bad", 1), work("never", 1_000_000)])
        return runtime.clock.monotonic_ms() - took_ms

    assert world.loop.run_until_complete(runtime.spawn(main(), name="main")) < 100
    assert ended == ["quick", "slow", "one", "bad", "never"]
    assert world.loop.failures == []


def test_without_a_handler_a_failure_reaches_the_runtime(world):
    runtime = world.node("a").boot()

    async def fail() -> None:
        raise ValueError("broken")

    TaskScope(runtime, "scope").spawn(fail(), name="bad")
    world.loop.run_for_us(10)
    assert [failure.message for failure in world.loop.failures] == ["task a/scope/bad failed"]


def test_a_task_may_cancel_its_own_scope(world):
    runtime = world.node("a").boot()
    scope = TaskScope(runtime, "scope")
    other = scope.spawn(runtime.sleep_ms(1_000_000), name="other")
    main = scope.spawn(scope.cancel(), name="main")
    world.loop.run_for_us(1_000)
    assert other.cancelled()
    assert main.done()
    assert not main.cancelled()


def test_scheduled_log_work_runs_late_and_not_after_close(world):
    runtime = world.node("a").boot()
    scheduler = RuntimeLogScheduler(runtime)
    ran = []
    scheduler.schedule_once("now", lambda: ran.append("now"), 0)
    assert ran == []
    scheduler.schedule_once("later", lambda: ran.append("later"), 10)
    scheduler.schedule_once("never", lambda: ran.append("never"), 20)
    world.loop.run_for_us(15_000)
    assert ran == ["now", "later"]
    scheduler.close()
    scheduler.schedule_once("closed", lambda: ran.append("closed"), 0)
    world.loop.run_for_us(50_000)
    assert ran == ["now", "later"]


def test_nothing_of_a_scope_lives_on_when_its_end_is_cut_short(world):
    """Whoever waited for the newest task was cancelled, and the older ones were never ended."""
    runtime = world.node("a").boot()
    ended = []

    async def work(name: str, clean_up_ms: int) -> None:
        try:
            await runtime.sleep_ms(1_000_000)
        finally:
            await runtime.sleep_ms(clean_up_ms)
            ended.append(name)

    async def main() -> None:
        scope = TaskScope(runtime, "scope")
        for name, clean_up_ms in (("first", 1), ("second", 2), ("third", 500)):
            scope.spawn(work(name, clean_up_ms), name=name)
        await runtime.sleep_ms(1)
        ending = runtime.spawn(scope.cancel(), name="end")
        await runtime.sleep_ms(10)
        ending.cancel()
        await runtime.sleep_ms(10)
        assert ended == ["first", "second"]
        await runtime.sleep_ms(1000)
        assert len(scope) == 0

    world.loop.run_until_complete(runtime.spawn(main(), name="main"))
    assert ended == ["first", "second", "third"]
