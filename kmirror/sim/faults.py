"""What goes wrong, by the seed: crashes, power cuts, partitions, resets, slow links, long pauses, clocks that jump, disks (`disk_faults`).

`FaultInjector.run` draws a fault, lets it happen, waits, draws the next, while `active`. What it breaks it mends: a node that it
stopped starts again, a partition heals, a link gets fast again; a node whose disk ever lied is looked after to the end of the story.
`hold` takes a node out of its hands (the story wants it dead).
Reordering of tasks that are ready is the loop's; latency and splitting of packets are the network's; both always happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kmirror.common.ports import Random
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim import disk_faults
from kmirror.sim.disk_faults import DiskFaults
from kmirror.sim.events import History, Told
from kmirror.sim.hosts import Link
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import SimServer

SLOW = Link(20_000, 250_000, 2_000_000)


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often each fault is drawn, relative to the others; and the pause between two, in ms."""

    crash: int = 3
    power_loss: int = 3
    partition: int = 3
    reset: int = 3
    slow_link: int = 2
    node_pause: int = 1
    clock_jump: int = 1
    disk_fails: int = 0
    disk_fills: int = 0
    disk_lies: int = 0
    disk_lost: int = 0
    min_pause_ms: int = 150
    max_pause_ms: int = 900

    def table(self) -> list[str]:
        kinds = ("crash", "power_loss", "partition", "reset", "slow_link", "node_pause", "clock_jump", *disk_faults.KINDS)
        return [kind for kind in kinds for _ in range(getattr(self, kind))]


NO_FAULTS = FaultRates(0, 0, 0, 0, 0, 0, 0)
MIN_DISK_MS, MAX_DISK_MS = 300, 2_500
LOOK_MS, LOOKS = 1_000, 5
"""How often the operator looks at a node whose disk lied, and at how many looks in a row it must be in trouble: longer than any other mending takes."""


class FaultInjector:
    """`hosts` are all that talk to each other; `clusters` those that can die, `disks` those whose disks can break. `way_to_die(server,
    power_loss)` says whether the one that was drawn loses its power then: True, or False for a crash, or None: not now."""

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
        self._way_to_die = way_to_die
        self._world = world
        self._clusters = list(clusters)
        self._hosts = list(hosts)
        self._rates = rates
        self._history = history
        self._random: Random = SeededRandom(f"{world.loop.seed}/faults")
        self._with_disks = list(disks)
        self._disks = DiskFaults(world.loop, self._random, history, lambda server: server.name in self._held)
        self._held: dict[str, None] = {}
        self._mending: dict[asyncio.Task[None], None] = {}
        self._looked_after: dict[str, asyncio.Task[None]] = {}

    def hold(self, cluster: SimServer) -> None:
        """The story owns this node's life from now on."""
        self._held[cluster.name] = None

    def release(self, cluster: SimServer) -> None:
        self._held.pop(cluster.name, None)

    async def run(self) -> None:
        table = self._rates.table()
        while table:
            await asyncio.sleep(self._between(self._rates.min_pause_ms, self._rates.max_pause_ms) / 1000)
            if self.active:
                self._inject(table[self._random.randrange(len(table))])

    async def mend(self) -> None:
        """No more faults; everything runs and everyone reaches everyone."""
        self.active = False
        for task in list(self._mending):
            await task
        self._heal()
        for cluster in self._clusters:
            self._disks.mend(cluster)
            if not cluster.alive:
                cluster.start()
            cluster.node.clock.offset_ms = 0
        for cluster in self._clusters:
            await cluster.wait_started()
        self._tell("everything has healed")

    def _between(self, low: int, high: int) -> int:
        return low + self._random.randrange(high - low + 1)

    def _later(self, delay_ms: int, action: str, act: Callable[[], object]) -> None:
        async def mend() -> None:
            await asyncio.sleep(delay_ms / 1000)
            act()

        task = self._world.loop.create_task(mend(), name=f"mend-{action}")
        self._mending[task] = None
        task.add_done_callback(lambda done: self._mending.pop(done, None))

    def _inject(self, kind: str) -> None:
        if kind in ("crash", "power_loss"):
            self._kill(power_loss=kind == "power_loss")
        elif kind in disk_faults.KINDS:
            self._break_disk(kind)
        elif kind in ("partition", "reset", "slow_link"):
            first, second = self._two_hosts()
            getattr(self, f"_{kind}")(first, second)
        else:
            cluster = self._clusters[self._random.randrange(len(self._clusters))]
            getattr(self, f"_{kind}")(cluster)

    def _one_that_may_die(self, clusters: Sequence[SimServer]) -> SimServer | None:
        candidates = [cluster for cluster in clusters if cluster.is_serving and cluster.alive and cluster.name not in self._held]
        return candidates[self._random.randrange(len(candidates))] if candidates else None

    def _break_disk(self, kind: str) -> None:
        """One at a time of a server; to its fleet it is as if the power were lost, at the most."""
        server = self._one_that_may_die(self._with_disks)
        if server is not None and not server.needs_restart and self._way_to_die(server, True):
            mend = self._disks.happen(kind, server)
            self._later(self._between(MIN_DISK_MS, MAX_DISK_MS), "disk", mend)
            if kind == "disk_lies" and server.name not in self._looked_after:
                self._looked_after[server.name] = self._world.loop.create_task(self._look_after(server), name=f"look-after-{server.name}")

    async def _look_after(self, server: SimServer) -> None:
        """For the rest of the story: what a disk that lied has torn, a node may find long after its restart, and when everything else has healed."""
        troubled = 0
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            troubled = troubled + 1 if server.needs_restart and server.name not in self._held else 0
            if troubled == LOOKS:
                self._disks.mend(server)
                troubled = 0

    def _restart(self, cluster: SimServer) -> None:
        if not cluster.alive and cluster.name not in self._held:
            cluster.start()

    def _kill(self, *, power_loss: bool) -> None:
        cluster = self._one_that_may_die(self._clusters)
        if cluster is None:
            return
        way = self._way_to_die(cluster, power_loss)
        if way is None:
            return
        if way:
            cluster.lose_power()
        else:
            cluster.crash()
        self._later(self._between(50, 700), "restart", lambda: self._restart(cluster))

    def _two_hosts(self) -> tuple[str, str]:
        first = self._random.randrange(len(self._hosts))
        second = (first + 1 + self._random.randrange(len(self._hosts) - 1)) % len(self._hosts)
        return self._hosts[first], self._hosts[second]

    def _partition(self, first: str, second: str) -> None:
        both_ways = self._random.randrange(2) == 0
        self._world.network.partition([first], [second], both_ways=both_ways)
        self._tell(f"{first} and {second} are cut off from each other" if both_ways else f"nothing from {first} reaches {second}")
        self._later(self._between(100, 1_800), "heal", self._heal)

    def _reset(self, first: str, second: str) -> None:
        count = self._world.network.reset(first, second)
        if count:
            self._tell(f"{count} connections between {first} and {second} are reset")

    def _slow_link(self, first: str, second: str) -> None:
        self._world.network.set_link(first, second, SLOW)
        self._tell(f"the link from {first} to {second} is slow")
        self._later(self._between(300, 1_500), "heal", self._heal)

    def _node_pause(self, cluster: SimServer) -> None:
        duration_ms = self._between(50, 800)
        cluster.node.pause(duration_ms * 1000)
        self._tell(f"{cluster.name} stands still for {duration_ms} ms")

    def _clock_jump(self, cluster: SimServer) -> None:
        cluster.node.clock.offset_ms = self._between(0, 20_000) - 10_000
        self._tell(f"the wall clock of {cluster.name} is off by {cluster.node.clock.offset_ms} ms")

    def _heal(self) -> None:
        self._world.network.heal()
        for first in self._hosts:
            for second in self._hosts:
                if first != second:
                    self._world.network.set_link(first, second, self._world.network.default_link)

    def _tell(self, what: str) -> None:
        self._history.add(Told(self._world.loop.now_us, "faults", what))
