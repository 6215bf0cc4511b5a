"""Draws faults by the seed, lets them happen and mends them; what can go wrong is in
`sim.fault_kinds`.

`FaultInjector.run` draws a fault, lets it happen, waits, and draws the next, while `active`. Every
fault is mended: a stopped node starts again, a partition heals, a link gets fast again. A node
whose disk ever lied is looked after to the end of the story. `hold` takes a node out of reach of
faults (the story wants it dead). Two more kinds of disorder always happen: the loop reorders tasks
that are ready, and the network varies latency and splits packets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kmirror.sim.events import History
from kmirror.sim.fault_kinds import FAULTS, mend_disks
from kmirror.sim.fault_scene import Fault, FaultScene, Mending
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import SimServer

LOOK_MS, LOOKS = 1_000, 5
"""How often the operator looks at a node whose disk lied, and at how many looks in a row it must be
in trouble before the operator acts. This is longer than any other mending takes.
"""


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often each fault is drawn, by name and relative to the others, and the pause between two
    faults, in ms.
    """

    weights: Mapping[str, int]
    min_pause_ms: int = 150
    max_pause_ms: int = 900

    @classmethod
    def storm(cls, *, min_pause_ms: int = 150, max_pause_ms: int = 900, **told: int) -> FaultRates:
        """Returns the rates of all faults but those of disks. Each has its own weight, unless
        `told` gives another.
        """
        weights = {fault.name: fault.weight for fault in FAULTS if not fault.of_disks}
        return cls(weights | told, min_pause_ms, max_pause_ms)

    def with_disk_faults(self) -> FaultRates:
        return replace(self, weights={**self.weights, **{fault.name: fault.weight for fault in FAULTS if fault.of_disks}})

    @property
    def is_calm(self) -> bool:
        return not any(self.weights.values())

    def table(self) -> list[Fault]:
        """Returns a list with each fault as many times as its weight."""
        return [fault for fault in FAULTS for _ in range(self.weights.get(fault.name, 0))]


NO_FAULTS = FaultRates({})


class FaultInjector:
    """Owns the mending that is under way, and the nodes that are looked after. For `hosts`,
    `clusters`, `disks` and `way_to_die` see `FaultScene`.
    """

    def __init__(
        self,
        world: SimWorld,
        clusters: Sequence[SimServer],
        hosts: Sequence[str],
        rates: FaultRates,
        history: History,
        *,
        way_to_die: Callable[[SimServer, bool], bool | None] = lambda server, power_loss: power_loss,
        disks: Sequence[SimServer] = (),
    ) -> None:
        self.active = False
        self._scene = FaultScene(world, clusters, hosts, history, way_to_die=way_to_die, with_disks=disks)
        self._loop = world.loop
        self._rates = rates
        self._mending: dict[asyncio.Task[None], None] = {}
        self._looked_after: dict[str, asyncio.Task[None]] = {}

    def hold(self, server: SimServer) -> None:
        """Leaves this node's life to the story from now on."""
        self._scene.hold(server)

    def release(self, server: SimServer) -> None:
        self._scene.release(server)

    async def run(self) -> None:
        table = self._rates.table()
        while table:
            await asyncio.sleep(self._scene.between(self._rates.min_pause_ms, self._rates.max_pause_ms) / 1000)
            if self.active:
                self._inject(table[self._scene.random.randrange(len(table))])

    def _inject(self, fault: Fault) -> None:
        mending = fault.happen(self._scene)
        if mending is not None:
            self._later(mending)
            if mending.watched is not None and mending.watched.name not in self._looked_after:
                server = mending.watched
                self._looked_after[server.name] = self._loop.create_task(self._look_after(server), name=f"look-after-{server.name}")

    def _later(self, mending: Mending) -> None:
        async def mend() -> None:
            await asyncio.sleep(mending.delay_ms / 1000)
            mending.act()

        task = self._loop.create_task(mend(), name=f"mend-{mending.what}")
        self._mending[task] = None
        task.add_done_callback(lambda done: self._mending.pop(done, None))

    async def _look_after(self, server: SimServer) -> None:
        """Looks after the server for the rest of the story. A node may find what a lying disk has
        torn long after its restart, and after everything else has healed.
        """
        troubled = 0
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            troubled = troubled + 1 if server.needs_restart and not self._scene.is_held(server) else 0
            if troubled == LOOKS:
                mend_disks(self._scene, server)
                troubled = 0

    async def mend(self) -> None:
        """Ends all faults; everything runs, and every host reaches every other."""
        scene = self._scene
        self.active = False
        for task in list(self._mending):
            await task
        scene.heal_network()
        for server in scene.servers:
            mend_disks(scene, server)
            if not server.alive:
                server.start()
            server.node.clock.offset_ms = 0
        for server in scene.servers:
            await server.wait_started()
        scene.tell("everything has healed")
