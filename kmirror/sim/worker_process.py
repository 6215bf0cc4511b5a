"""WorkerProcess: a program that is no broker, on a simulated machine of its own, that is killed,
stands still, is restarted, and starts again if it ends by itself.

A life is what the program is from its start to its end. Nothing of it outlives a kill but what it
has written to clusters. After a kill its connections are reset; after a loss of power its peers
hear nothing, and find out by themselves.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Protocol

from kmirror.sim.events import History, Told
from kmirror.sim.runtime import SimRuntime, SimWorld

LOOK_MS = 50
RESTART_MS = 1_000
"""So long a program that has ended waits until its service manager starts it again."""


class Life(Protocol):
    """`run` returns if the program ends by itself; `stop` ends it in good order."""

    async def run(self) -> None: ...

    async def stop(self) -> None: ...


class WorkerProcess:
    """One process, named like its host. `begin` makes its next life."""

    def __init__(self, world: SimWorld, name: str, history: History, begin: Callable[[SimRuntime], Life]) -> None:
        self.name = name
        self.node = world.node(name)
        self.lives = 0
        self._loop = world.loop
        self._history = history
        self._begin = begin
        self._life: Life | None = None
        self._is_stopping = False
        self._service_manager = contextvars.copy_context()
        """Of who made this: what a life asks for is not done any more once that life has ended."""

    @property
    def alive(self) -> bool:
        return self.node.alive

    def start(self) -> None:
        """Does nothing if it runs."""
        if not self.alive:
            runtime = self.node.boot()
            self.lives += 1
            self._is_stopping = False
            self._life = self._begin(runtime)
            self.tell(f"starts, for the {self.lives}. time")
            runtime.spawn(self._run(runtime, self._life), name="worker")

    async def _run(self, runtime: SimRuntime, life: Life) -> None:
        await life.run()
        if self._is_stopping:
            return
        self.tell("ends by itself")
        self._loop.call_soon(self._end_and_start_again, runtime)

    def _end_and_start_again(self, runtime: SimRuntime) -> None:
        if self.node.runtime is runtime:
            self.kill()
            self._loop.call_later(RESTART_MS / 1000, self.start, context=self._service_manager)

    def kill(self, *, power_loss: bool = False) -> None:
        """Does nothing if it does not run."""
        if self.alive:
            self.node.kill(power_loss=power_loss)
            self._life = None
            self.tell("loses its power" if power_loss else "is killed")

    def stall(self, duration_ms: int) -> None:
        """Nothing of it runs for that long, and then everything that was due, late."""
        self.node.pause(duration_ms * 1000)
        self.tell(f"stands still for {duration_ms} ms")

    def set_clock(self, offset_ms: int) -> None:
        """Its wall clock is that far off from now on."""
        self.node.clock.offset_ms = offset_ms
        self.tell(f"has a wall clock that is {offset_ms} ms off")

    async def stop(self, timeout_ms: int) -> bool:
        """Ends it in good order, or by a kill if that takes longer; returns whether it was in good
        order.
        """
        runtime, life = self.node.runtime, self._life
        if runtime is None or life is None:
            return False
        self.tell("is asked to end")
        self._is_stopping = True
        stopping = runtime.spawn(life.stop(), name="stop")
        deadline_us = self._loop.now_us + timeout_ms * 1000
        while not stopping.done():
            if self.node.runtime is not runtime or self._loop.now_us >= deadline_us:
                break
            await asyncio.sleep(LOOK_MS / 1000)
        if self.node.runtime is not runtime:
            return False
        self.kill()
        return stopping.done()

    def tell(self, what: str) -> None:
        self._history.add(Told(self._loop.now_us, self.name, what))
