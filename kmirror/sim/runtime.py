"""The entrance to the simulator: a `Runtime` for each simulated node, on one `SimLoop`, one
`SimNetwork`, and a `SimDisk` for each node.

    loop = SimLoop(seed)
    world = SimWorld(loop)
    node = world.node("broker-1")               # host, disk and clock; not running yet
    runtime = node.boot()                        # a life of the node: hand this Runtime to the program
    runtime.spawn(program(runtime), name="main")
    loop.run_for_us(5_000_000)
    node.kill(power_loss=True)                   # between two steps, or from inside one
    node.boot()                                  # again, on what the disk still has
    assert not loop.failures, loop.failures
    print(loop.trace_hash)

Faults: `world.network.partition/heal/reset`, `world.network.links.set`,
`node.disk.volumes`, `node.disk.corrupt`, `node.clock.offset_ms`, `node.pause(duration_us)` (like a
long garbage collection: nothing of the node runs, and the world goes on).

`kill` stops a node between two steps. What stands in the queue for it is dropped. Its tasks are
closed right away, with a disk and a network that raise `NodeKilledError` at every use, so that no
`finally` of a dead node leaves a trace. `run_blocking` runs the function after a seeded delay and
returns after another: the loop goes on meanwhile, as with a real worker. The function itself is one
step.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from kmirror.common.ports import Random
from kmirror.runtime.api import SYSTEM_BUFFERS, ConnectionProtocol, ConnectionProtocolT, SocketBuffers
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.connection import SimConnection
from kmirror.sim.disk import SimDisk
from kmirror.sim.hosts import SimListener
from kmirror.sim.loop import SimLoop
from kmirror.sim.network import SimNetwork
from kmirror.sim.owners import NodeKilledError, current_owner
from kmirror.sim.steps import SimHandle

T = TypeVar("T")
EPOCH_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MAX_BLOCKING_DELAY_US = 5_000
MAX_AWAITS_AT_DEATH = 100


class SimClock:
    """Virtual time. The wall clock may be off by `offset_ms`; the monotonic clock is the loop's."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.offset_ms = 0

    def time_ms(self) -> int:
        return EPOCH_MS + self._loop.now_us // 1000 + self.offset_ms

    def monotonic_ms(self) -> int:
        return self._loop.now_us // 1000

    def monotonic_ns(self) -> int:
        return self._loop.now_us * 1000


class SimWorld:
    """Owns the nodes of one simulation, and the network between them."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.network = SimNetwork(loop)
        self.nodes: dict[str, SimNode] = {}

    def node(self, name: str) -> SimNode:
        """Returns the node of that name, which is made if it is new."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = SimNode(self, name)
        return node

    def close(self) -> None:
        """Kills every node and closes the loop. Call it at the end, so that no task is left to the
        garbage collector.
        """
        for node in self.nodes.values():
            if node.runtime is not None:
                node.kill()
        self.loop.close()


class SimNode:
    """A machine. It owns a disk and a clock, which outlive each of its lives."""

    def __init__(self, world: SimWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.clock = SimClock(world.loop)
        self.host = world.network.add_host(name)
        self.disk = SimDisk(self.clock, SeededRandom(f"{world.loop.seed}/{name}/disk"), note=lambda text: world.loop.note(f"{name} {text}"))
        self.lives = 0
        self.runtime: SimRuntime | None = None

    @property
    def alive(self) -> bool:
        return self.runtime is not None

    def boot(self) -> SimRuntime:
        """Starts a new life; the node must not be running."""
        assert self.runtime is None, f"node {self.name} is running already"
        self.lives += 1
        self.disk.attach()
        self.runtime = SimRuntime(self)
        self.world.network.boot(self.host, self.runtime.context)
        self.world.loop.note(f"node {self.name} boot {self.lives}")
        return self.runtime

    def kill(self, *, power_loss: bool = False) -> None:
        """Crashes the process, or cuts the power."""
        runtime = self.runtime
        assert runtime is not None, f"node {self.name} is not running"
        self.world.loop.note(f"node {self.name} kill power_loss={power_loss}")
        self.runtime = None
        runtime.alive = False
        runtime.died_us = self.world.loop.now_us
        self.world.loop.forget_owner(runtime)
        self.disk.detach(power_loss=power_loss)
        self.world.network.crash(self.host, silently=power_loss)
        runtime.close_tasks()

    def pause(self, duration_us: int) -> None:
        """Stops this node for `duration_us`; afterwards everything that was due runs late."""
        if self.runtime is not None:
            self.world.loop.pause_owner(self.runtime, duration_us)


class SimRuntime:
    """`Runtime` of one life of a node."""

    def __init__(self, node: SimNode) -> None:
        self.name = node.name
        self.alive = True
        self.died_us = -1
        self.failure_count = 0
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.clock = node.clock
        self.files = node.disk
        self.environment: Mapping[str, str] = {}
        self.random: Random = SeededRandom(f"{node.world.loop.seed}/{node.name}/{node.lives}")
        self._worker_random = SeededRandom(f"{node.world.loop.seed}/{node.name}/{node.lives}/workers")
        self._node = node
        self._loop = node.world.loop
        self._network = node.world.network
        self.context = contextvars.Context()
        self.context.run(current_owner.set, self)

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        if not self.alive:
            coroutine.close()
            raise NodeKilledError(f"spawn of {name}")
        return self._loop.create_task(coroutine, name=f"{self.name}/{name}", context=self.context.copy())

    async def sleep_ms(self, delay_ms: float) -> None:
        self._ensure_alive("sleep")
        await asyncio.sleep(delay_ms / 1000)

    def call_soon(self, function: Callable[[], object]) -> SimHandle:
        self._ensure_alive("call_soon")
        return self._loop.call_soon(function, context=self.context)

    def call_later_ms(self, delay_ms: float, function: Callable[[], object]) -> SimHandle:
        self._ensure_alive("call_later")
        return self._loop.call_later(delay_ms / 1000, function, context=self.context)

    async def run_blocking(self, function: Callable[[], T]) -> T:
        await asyncio.sleep(self._worker_random.randrange(MAX_BLOCKING_DELAY_US) / 1_000_000)
        result = function()
        await asyncio.sleep(self._worker_random.randrange(MAX_BLOCKING_DELAY_US) / 1_000_000)
        return result

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def report_failure(self, message: str, error: BaseException) -> None:
        if self.alive:  # nobody is told what a dead node's code raises while its tasks are closed
            self.failure_count += 1
            self._loop.add_failure(message, error)

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], ConnectionProtocol], *, buffers: SocketBuffers = SYSTEM_BUFFERS
    ) -> SimListener:
        self._ensure_alive("listen")
        return self._node.host.listen(host, port, protocol_factory)

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], ConnectionProtocolT], *, buffers: SocketBuffers = SYSTEM_BUFFERS
    ) -> tuple[SimConnection, ConnectionProtocolT]:
        self._ensure_alive("connect")
        return await self._network.connect(self._node.host, host, port, protocol_factory)

    def close_tasks(self) -> None:
        """Unwinds every task of this dead node now rather than when it is collected."""
        current = asyncio.current_task(self._loop) if self._loop.is_running() else None
        for task in list(self.tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if task is current:
                self._loop.call_soon(self._close_one, task, context=contextvars.Context())
            else:
                self._close_one(task)
        self.tasks.clear()

    def _close_one(self, task: asyncio.Task[Any]) -> None:
        if task.done():
            if not task.cancelled():
                task.exception()  # marks it as seen: nobody is left to be told
            return
        coroutine = task.get_coro()
        assert coroutine is not None, "tasks of the simulated loop always have a coroutine"
        context = self.context.copy()
        for _ in range(MAX_AWAITS_AT_DEATH):  # a `finally` may await something, which gets the same answer
            try:
                context.run(coroutine.throw, NodeKilledError("the node is dead"))
            except BaseException:  # noqa: BLE001 - nobody is told what a dead node raises
                return

    def _ensure_alive(self, operation: str) -> None:
        if not self.alive:
            raise NodeKilledError(operation)
