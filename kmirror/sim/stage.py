"""SimStage: what every stage has: a world, a story drawn from the seed, a machine for the clients,
faults, and waits with a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.ablations import Ablations
from kmirror.sim.events import History, Told
from kmirror.sim.faults import NO_FAULTS, FaultInjector, FaultRates
from kmirror.sim.log_watch import KnownChains
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import SimServer

CLIENTS = "clients"
TOPIC = "orders"
ORDERS = TopicPartition(TOPIC, 0)
"""The topic of every stage, and its first partition, which each history has."""
MIRROR = "m"
"""The mirror of the stages with two clusters."""
WAIT_MS = 60_000
IMPATIENT_MS = 8_000
"""With a safeguard off, nobody waits long for what will not come."""
POLL_MS = 20


class SimStage:
    """The base of all stages.

    A stage says which `servers` there are, and calls `log_changed` when a log changes.
    """

    def __init__(self, world: SimWorld, history: History, rates: FaultRates, ablations: Ablations) -> None:
        self.world = world
        self.history = history
        self.random: Random = SeededRandom(f"{world.loop.seed}/story")
        self.clients = world.node(CLIENTS).boot()
        self.faults = FaultInjector(world, (), (), NO_FAULTS, history)
        self.ablations = ablations
        self.known = KnownChains()
        self.patience_ms = WAIT_MS if ablations.is_whole else IMPATIENT_MS
        self.rates = rates
        self._waiters: list[asyncio.Future[None]] = []

    def servers(self) -> Sequence[SimServer]:
        """Returns every node of the stage."""
        raise NotImplementedError

    def servers_with_disks(self) -> Sequence[SimServer]:
        """Returns the nodes whose disks may break."""
        return ()

    def hosts(self) -> Sequence[str]:
        """Returns every machine that faults of the network may hit."""
        return [CLIENTS, *(server.name for server in self.servers())]

    async def start_servers(self, way_to_die: Callable[[SimServer, bool], bool | None] = lambda server, power_loss: power_loss) -> None:
        """Starts all servers and prepares the faults (`faults.active` lets them happen)."""
        for server in self.servers():
            server.watch.changed = self.log_changed
            server.start()
        for server in self.servers():
            await server.wait_started()
        self.faults = FaultInjector(
            self.world, self.servers(), self.hosts(), self.rates, self.history, way_to_die=way_to_die, disks=self.servers_with_disks()
        )
        self.world.loop.create_task(self.faults.run(), name="faults")

    def between(self, low: int, high: int) -> int:
        """Draws a number of the story, both bounds included."""
        return low + self.random.randrange(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def tell(self, what: str) -> None:
        self.history.add(Told(self.world.loop.now_us, "story", what))

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits for the condition; KmirrorError if it does not come true, since nothing may hang."""
        deadline_us = self.world.loop.now_us + self.patience_ms * 1000
        while not condition():
            failed = next((server.start_failed for server in self.servers() if server.start_failed), None)
            if failed is not None:
                raise KmirrorError(failed)
            if self.world.loop.now_us > deadline_us:
                raise KmirrorError(f"still not true after {self.patience_ms} ms: {what}")
            await self._something()

    async def _something(self) -> None:
        """Waits until a log changes, but not longer than a moment."""
        waiter = self.world.loop.create_future()
        self._waiters.append(waiter)
        timer = self.world.loop.call_later(POLL_MS / 1000, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def log_changed(self) -> None:
        """Makes everyone who waits look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _wake(waiter)


def expect(condition: bool, what: str) -> None:
    """Raises KmirrorError (a violation of "progress") unless the condition holds. Histories use it
    for what no checker can see.
    """
    if not condition:
        raise KmirrorError(f"expected: {what}")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
