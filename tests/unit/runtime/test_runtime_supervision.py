"""Supervised tasks on the simulated loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kmirror.runtime.api import TaskScope
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.supervision import LONGEST_PAUSE_MS, Supervised
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimRuntime, SimWorld


@pytest.fixture
def world() -> Iterator[SimWorld]:
    world = SimWorld(SimLoop(1))
    yield world
    world.close()


class Lives:
    """A task that notes when it begins, and then does `what`."""

    def __init__(self, runtime: SimRuntime, what: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.begun_ms: list[int] = []
        self._runtime = runtime
        self._what = what

    async def run(self) -> None:
        self.begun_ms.append(self._runtime.clock.monotonic_ms())
        await self._what()


async def fail() -> None:
    raise ValueError("broken")


def test_a_task_that_fails_is_reported_each_time_and_begins_again_ever_later(world: SimWorld) -> None:
    runtime = world.node("a").boot()
    lives = Lives(runtime, fail)
    ends: list[str] = []
    task = Supervised(runtime, lives.run, name="worker", on_end=lambda error: ends.append(str(error)))
    task.start()
    world.loop.run_for_us(30_000_000)
    assert lives.begun_ms == [0, 100, 300, 700, 1500, 3100, 6300, 12700, 22700]
    assert (task.unexpected_ends, task.is_down, ends) == (9, True, ["broken"] * 9)
    assert [failure.message for failure in world.loop.failures][:2] == [
        "task worker ended unexpectedly and begins again in 100 ms",
        "task worker ended unexpectedly and begins again in 200 ms",
    ]
    assert len(world.loop.failures) == 9
    world.loop.failures.clear()


async def test_the_log_says_in_one_line_which_task_ended_with_which_error_and_when_it_begins_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`str(KeyError(7))` is "7", which said nothing without the error's type."""
    runtime = AsyncioRuntime()
    ended = asyncio.Event()

    async def fail_without_words() -> None:
        raise KeyError(7)

    scope = TaskScope(runtime, "owner")
    scope.spawn(Supervised(runtime, fail_without_words, name="worker", on_end=lambda error: ended.set()).run(), name="worker")
    await ended.wait()
    await scope.cancel()
    runtime.close()
    assert [line.getMessage() for line in caplog.records] == ["task worker ended unexpectedly and begins again in 100 ms: KeyError: 7"]


def test_after_a_long_life_the_pause_is_short_again(world: SimWorld) -> None:
    runtime = world.node("a").boot()

    async def live_and_fail() -> None:
        await runtime.sleep_ms(LONGEST_PAUSE_MS + 1 if len(lives.begun_ms) == 4 else 0)
        raise ValueError("broken")

    lives = Lives(runtime, live_and_fail)
    Supervised(runtime, lives.run, name="worker").start()
    world.loop.run_for_us(11_000_000)
    assert lives.begun_ms == [0, 100, 300, 700, 700 + LONGEST_PAUSE_MS + 1 + 100]
    world.loop.failures.clear()


def test_a_return_is_an_end_that_nobody_meant_unless_the_work_has_one(world: SimWorld) -> None:
    runtime = world.node("a").boot()
    endless, finite = Lives(runtime, lambda: runtime.sleep_ms(10)), Lives(runtime, lambda: runtime.sleep_ms(10))
    first, second = Supervised(runtime, endless.run, name="endless"), Supervised(runtime, finite.run, name="finite", may_return=True)
    task = [each.start() for each in (first, second)][1]
    world.loop.run_for_us(115_000)
    assert (len(endless.begun_ms), len(finite.begun_ms)) == (2, 1)
    assert task.done() and not second.is_down and second.unexpected_ends == 0
    assert [str(failure.error) for failure in world.loop.failures] == ["it returned, though its work has no end"]
    world.loop.failures.clear()


def test_a_future_that_somebody_else_cancels_does_not_end_the_task_unseen(world: SimWorld) -> None:
    runtime = world.node("a").boot()
    waited_for: list[asyncio.Future[None]] = []

    async def wait() -> None:
        waited_for.append(runtime.create_future())
        await waited_for[-1]

    supervised = Supervised(runtime, wait, name="waiter")
    supervised.start()
    world.loop.run_for_us(1_000)
    waited_for[0].cancel()
    world.loop.run_for_us(200_000)
    assert len(waited_for) == 2 and supervised.unexpected_ends == 1
    assert [str(failure.error) for failure in world.loop.failures] == ["a future that it awaited was cancelled by another task"]
    world.loop.failures.clear()


def test_its_owner_ends_it_at_work_and_between_two_lives(world: SimWorld) -> None:
    runtime = world.node("a").boot()
    scope = TaskScope(runtime, "owner")
    working, failing = Lives(runtime, lambda: runtime.sleep_ms(1_000_000)), Lives(runtime, fail)
    for lives in (working, failing):
        scope.spawn(Supervised(runtime, lives.run, name="worker").run(), name="worker")
    world.loop.run_for_us(50_000)
    world.loop.run_until_complete(runtime.spawn(scope.cancel(), name="end"))
    world.loop.run_for_us(1_000_000)
    assert (working.begun_ms, failing.begun_ms, len(scope)) == ([0], [0], 0)
    assert len(world.loop.failures) == 1, "the one before the end"
    world.loop.failures.clear()


@pytest.mark.parametrize("how", ["raises", "returns"])
def test_a_task_that_makes_something_else_of_its_cancellation_does_not_begin_again(world: SimWorld, how: str) -> None:
    """It lived on, and the shutdown of its owner waited for it for ever."""
    runtime = world.node("a").boot()

    async def clean_up_badly() -> None:
        try:
            await runtime.sleep_ms(60_000)
        except asyncio.CancelledError:
            if how == "raises":
                raise ValueError("broken while it cleaned up") from None

    lives = Lives(runtime, clean_up_badly)
    scope = TaskScope(runtime, "owner")
    scope.spawn(Supervised(runtime, lives.run, name="worker").run(), name="worker")
    world.loop.run_for_us(1_000)
    closing = runtime.spawn(scope.cancel(), name="cancel")
    world.loop.run_for_us(1_000_000)
    assert closing.done() and len(lives.begun_ms) == 1
    assert [str(failure.error) for failure in world.loop.failures] == ["broken while it cleaned up"] * (how == "raises")
    world.loop.failures.clear()


def test_an_owner_that_cannot_put_in_order_what_was_left_does_not_end_the_task(world: SimWorld) -> None:
    """The task was gone for good then, as if nobody had watched over it."""
    runtime = world.node("a").boot()
    lives = Lives(runtime, fail)

    def fail_too(error: Exception) -> None:
        raise KeyError("nor this")

    Supervised(runtime, lives.run, name="worker", on_end=fail_too).start()
    world.loop.run_for_us(150_000)
    assert lives.begun_ms == [0, 100]
    assert {type(failure.error) for failure in world.loop.failures} == {ValueError, KeyError}
    world.loop.failures.clear()


def test_a_task_of_a_node_that_is_killed_is_no_failure(world: SimWorld) -> None:
    node = world.node("a")
    runtime = node.boot()
    lives = Lives(runtime, lambda: runtime.sleep_ms(1_000_000))
    Supervised(runtime, lives.run, name="worker").start()
    world.loop.run_for_us(1_000)
    node.kill()
    world.loop.run_for_us(1_000_000)
    assert (lives.begun_ms, world.loop.failures) == ([0], [])
