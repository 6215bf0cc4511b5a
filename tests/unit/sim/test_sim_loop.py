"""SimLoop: virtual time, seeded order, a trace that does not depend on the process."""

from __future__ import annotations

import asyncio
import gc
import os
import pathlib
import subprocess
import sys

import pytest

from kmirror.sim.loop import SimLoop
from kmirror.sim.loop_errors import NotModelledError, SimulationBudgetError, SimulationStuckError
from kmirror.sim.runtime import SimRuntime, SimWorld

ROOT = pathlib.Path(__file__).parents[3]

PROGRAM = """
import sys
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError
from kmirror.network.socket_server import SocketServer
from kmirror.wire.messages.metadata import MetadataRequest
from support.brokers.network_doubles import tiny_broker

loop = SimLoop(int(sys.argv[1]))
world = SimWorld(loop)
broker = world.node("broker")

async def serve(runtime):
    await SocketServer(runtime, "PLAINTEXT", "", 9092, tiny_broker()).start()

async def ask(runtime, client):
    while True:
        try:
            await client.send("broker", 9092, MetadataRequest(), timeout_ms=500)
            file = runtime.files.open("log", create=True)
            file.pwrite(runtime.random.token_bytes(600), file.size())
        except (DisconnectError, RequestTimeoutError):
            pass
        await runtime.sleep_ms(20)

for name in {"alpha", "beta", "gamma"} if sys.argv[2] == "sets" else ["alpha", "beta", "gamma"]:
    runtime = world.node(name).boot()
    client = NetworkClient(runtime, name)
    for index in range(3):
        runtime.spawn(ask(runtime, client), name=f"ask-{index}")
for power_loss in (False, True, False):
    runtime = broker.boot()
    runtime.spawn(serve(runtime), name="serve")
    loop.run_for_us(300_000)
    world.network.partition(["alpha"], ["broker"])
    loop.run_for_us(700_000)
    world.network.heal()
    broker.kill(power_loss=power_loss)
    world.node("beta").kill(power_loss=True)
    world.node("beta").boot()
    loop.run_for_us(300_000)
assert not loop.failures, loop.failures
world.close()
print(loop.trace_hash, loop.steps)
"""


def trace_of(seed: int, hash_seed: str, order: str = "lists") -> str:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    command = [sys.executable, "-c", PROGRAM, str(seed), order]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_one_seed_has_one_trace_in_every_process():
    traces = {trace_of(7, hash_seed) for hash_seed in ("0", "1", "424242")}
    assert len(traces) == 1
    assert int(next(iter(traces)).split()[1]) > 500


def test_another_seed_has_another_trace():
    assert trace_of(7, "0") != trace_of(8, "0")


def test_a_program_that_depends_on_set_order_is_noticed():
    assert len({trace_of(7, str(hash_seed), "sets") for hash_seed in range(4)}) > 1


def test_time_is_virtual():
    loop = SimLoop(1)

    async def main() -> list[float]:
        times = [loop.time()]
        await asyncio.sleep(3600)
        times.append(loop.time())
        return times

    assert loop.run_until_complete(main()) == [0, 3600]


def test_plain_callbacks_run_in_order_whatever_the_seed():
    for seed in range(20):
        loop = SimLoop(seed)
        ran: list[int] = []
        for index in range(20):
            loop.call_soon(ran.append, index)
            loop.call_later(0.001, ran.append, 100 + index)
        loop.run_forever()
        assert ran == [*range(20), *range(100, 120)]


def test_steps_of_different_tasks_are_reordered_by_the_seed():
    def order_of(seed: int, *, reorder: bool = True) -> tuple[int, ...]:
        loop = SimLoop(seed, reorder=reorder)
        ran: list[int] = []

        async def step(index: int) -> None:
            ran.append(index)

        for index in range(4):
            loop.create_task(step(index))
        loop.run_forever()
        return tuple(ran)

    orders = {order_of(seed) for seed in range(200)}
    assert len(orders) == 24
    assert {order_of(seed, reorder=False) for seed in range(20)} == {(0, 1, 2, 3)}


def test_what_never_happens_is_said():
    loop = SimLoop(1)

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(SimulationStuckError, match="waiting: waiter"):
        loop.run_until_complete(loop.create_task(wait(), name="waiter"))
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_forever()


def test_budgets_end_a_run():
    async def spin() -> None:
        for _ in range(1_000_000):
            await asyncio.sleep(1)

    for budget in ({"max_steps": 100}, {"max_time_us": 10_000_000}):
        loop = SimLoop(1, **budget)
        task = loop.create_task(spin())
        with pytest.raises(SimulationBudgetError):
            loop.run_until_complete(task)
        task._log_destroy_pending = False
        task.get_coro().close()


def test_errors_nobody_awaits_are_collected():
    loop = SimLoop(1)
    loop.call_soon(lambda: 1 / 0)
    loop.run_forever()
    assert [type(failure.error) for failure in loop.failures] == [ZeroDivisionError]


def test_a_dead_node_s_last_error_is_nobody_s_but_an_earlier_one_is_told():
    """Who awaits a task that failed in the moment in which the node died had no turn to look at it."""

    async def fail() -> None:
        raise ValueError("nobody looked")

    async def fail_and_wait(runtime: SimRuntime, *, wait_ms: int, kept: list[asyncio.Task[None]]) -> None:
        kept.append(runtime.spawn(fail(), name="fails"))
        await asyncio.wait(kept)
        await runtime.sleep_ms(wait_ms)

    def failures_of(lived_on_us: int) -> list[type[BaseException] | None]:
        world = SimWorld(SimLoop(1))
        node = world.node("node")
        runtime = node.boot()
        kept: list[asyncio.Task[None]] = []
        runtime.spawn(fail_and_wait(runtime, wait_ms=1_000, kept=kept), name="main")
        world.loop.run_for_us(lived_on_us)
        node.kill()
        kept.clear()
        gc.collect()
        found = [type(failure.error) for failure in world.loop.failures]
        world.close()
        return found

    assert failures_of(0) == []
    assert failures_of(10) == [ValueError]


def test_a_task_that_is_done_costs_no_further_step():
    def steps_of(tasks: int) -> int:
        world = SimWorld(SimLoop(1))
        runtime = world.node("node").boot()
        for index in range(tasks):
            runtime.spawn(asyncio.sleep(0), name=str(index))
        world.loop.run_forever()
        assert not runtime.tasks
        world.close()
        return world.loop.steps

    assert steps_of(10) == 20


def test_what_is_cancelled_does_not_run():
    loop = SimLoop(1)
    ran: list[int] = []
    handles = [loop.call_soon(ran.append, 1), loop.call_later(1, ran.append, 2), loop.call_at(2, ran.append, 3)]
    assert not any(handle.cancelled() for handle in handles)
    handles[0].cancel()
    handles[2].cancel()
    assert [handle.cancelled() for handle in handles] == [True, False, True]
    loop.run_forever()
    assert ran == [2]
    assert loop.steps == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.call_soon_threadsafe(print),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.create_server(print),
        lambda loop: loop.getaddrinfo("localhost", 1),
        lambda loop: loop.sock_connect(None, None),
        lambda loop: loop.subprocess_exec(print),
        lambda loop: loop.add_signal_handler(1, print),
    ],
)
def test_what_is_not_modelled_raises(ask):
    with pytest.raises(NotModelledError, match="the simulator does not model loop"):
        ask(SimLoop(1))


def test_asyncio_primitives_run_on_it():
    loop = SimLoop(4)

    async def main() -> str:
        lock, event, queue = asyncio.Lock(), asyncio.Event(), asyncio.Queue()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(event.wait(), 5)
        loop.call_later(1, event.set)
        await asyncio.wait_for(event.wait(), 5)
        async with lock, asyncio.timeout(1):
            await queue.put("done")
            return await queue.get()

    assert loop.run_until_complete(main()) == "done"
    assert loop.time() == 6


@pytest.mark.parametrize(("looks", "lives_on_ms", "seen"), [(False, 2_000, 1), (True, 2_000, 0), (False, 500, 0)])
def test_a_task_that_fails_unseen_is_told_though_its_owner_holds_it(looks, lives_on_ms, seen):
    """One that has just failed may still be looked at."""
    world = SimWorld(SimLoop(1))
    runtime = world.node("a").boot()

    async def fail() -> None:
        raise ValueError("nobody hears this")

    held = runtime.spawn(fail(), name="held")
    world.loop.run_for_us(lives_on_ms * 1_000)
    if looks:
        assert isinstance(held.exception(), ValueError)
    world.loop.add_unseen_failures()
    assert [failure.message for failure in world.loop.failures] == ["a/held ended unseen"] * seen
    if not seen and not looks:
        held.exception()
    world.close()


def test_a_task_that_has_not_begun_when_the_run_ends_leaves_no_coroutine_behind(recwarn: pytest.WarningsRecorder) -> None:
    """Python warned that a coroutine was never awaited: a fault had just begun to mend itself."""
    loop = SimLoop(1)

    async def mend() -> None:
        raise AssertionError("the run is over")

    async def story() -> None:
        loop.create_task(mend(), name="mend")

    loop.run_until_complete(story())
    loop.close()
    gc.collect()
    # Other warnings are of what tests before this one have left to the garbage collector.
    assert [text for warning in recwarn if "never awaited" in (text := str(warning.message))] == []
