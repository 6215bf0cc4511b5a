"""Two fleets in a storm: mirrors both ways in turn, an operator who changes their mind, clients that follow the active cluster.

    A is written to by producers of all kinds ─> B mirrors it ─> at random: pause and resume, remove and add, delete and create again,
    fail over (planned, or with A dead, or behind A's back) and back ─> everything heals ─> the mirror equals its source
    ─> (every other time) the last failover, and writes there

Faults hit both fleets, and the network within and between them. Whoever wrote to the old active cluster goes on for a while: its records
are what failover may lose. In some stories a group follows the active cluster, at the offsets that are synced. Producer ids are handed out by both clusters from 0, so both have the same ones.
"""

from __future__ import annotations

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.faults import FaultRates
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_stage import MIRROR, TOPIC, MirrorStage
from kmirror.sim.run import HistoryFunction, Setting

GROUP_PERCENT = 30


async def mirrors(stage: MirrorStage) -> None:
    """Two fleets of three brokers, mirrors both ways in turn, an operator at random, clients of all kinds, faults of all kinds."""
    await stage.open(partitions=stage.between(1, 2), replication_factor=stage.between(2, 3))
    story = _Story(stage)
    story.start_clients()
    stage.faults.active = True
    await stage.sleep_ms(stage.between(100, 400))
    await story.start_mirror()
    for _ in range(stage.between(1, 3)):
        await stage.sleep_ms(stage.between(100, 700))
        await story.happen()
    await story.end()


class _Story:
    """Who is active, and what the operator has told the passive cluster."""

    def __init__(self, stage: MirrorStage) -> None:
        self.active, self.passive = "a", "b"
        self._stage = stage
        self._has_group = stage.chance(GROUP_PERCENT)

    def start_clients(self) -> None:
        """Those of the passive cluster do not write yet; readers read everywhere."""
        for name, crowd in self._stage.crowds.items():
            crowd.start_producer(idempotent=False)
            crowd.start_producer(idempotent=True)
            crowd.start_readers(self._stage.chance(50))
            crowd.write(writing=name == self.active)
        self._begin_transactions()
        if self._has_group:
            self._stage.crowds[self.active].start_member()

    def _begin_transactions(self) -> None:
        if self._stage.chance(60):
            self._stage.crowds[self.active].start_transactions("pay")

    async def start_mirror(self) -> None:
        await self._stage.start_mirror(self.active, self.passive)
        if self._stage.chance(70):
            await self._stage.until_state(self.passive, State.MIRRORING)

    async def happen(self) -> None:
        """What the operator does next."""
        what = self._stage.between(1, 100)
        if what <= 50:
            await self._fail_over()
            await self._stage.sleep_ms(self._stage.between(0, 500))
            await self.start_mirror()
        elif what <= 75:
            await self._pause_and_resume()
        elif what <= 90:
            await self._remove_and_add()
        else:
            await self._delete_and_create()

    async def end(self) -> None:
        """The passive cluster equals the active one, and may take over."""
        stage = self._stage
        await stage.settle()
        await stage.until_equal(self.active, self.passive)
        if self._has_group:
            await stage.until_group_is_synced(self.active, self.passive)
        if stage.chance(50):
            await stage.fail_over(self.passive)
            await self._move_group(self.active, self.passive)
            stage.crowds[self.passive].write(writing=True)
            await stage.sleep_ms(300)
            await stage.settle()
        await stage.end()

    async def _pause_and_resume(self) -> None:
        await self._stage.pause_and_resume(self.passive, self._stage.between(20, 500))

    async def _remove_and_add(self) -> None:
        await self._stage.fail_over(self.passive)
        await self._stage.sleep_ms(self._stage.between(0, 300))
        await self._stage.operator.add(self.passive, MIRROR, TOPIC)

    async def _delete_and_create(self) -> None:
        await self._stage.fail_over(self.passive)
        await self._stage.operator.delete_mirror(self.passive, MIRROR)
        await self._stage.sleep_ms(self._stage.between(0, 300))
        await self.start_mirror()

    async def _fail_over(self) -> None:
        """Planned (writers stop first), or while the old active cluster is still written to, or is dead."""
        stage = self._stage
        old, new = self.active, self.passive
        brokers = list(stage.fleets[old].brokers.values())
        way = stage.between(1, 3)
        if way == 1:
            stage.crowds[old].write(writing=False)
            await stage.sleep_ms(stage.between(0, 400))
        elif way == 2:
            for server in brokers:
                stage.faults.hold(server)
                if server.alive:
                    server.crash()
        await stage.fail_over(new)
        stage.tell(f"{new} is writable")
        await self._move_group(old, new)
        stage.crowds[new].write(writing=True)
        self.active, self.passive = new, old
        self._begin_transactions()
        await stage.sleep_ms(stage.between(0, 300))
        stage.crowds[old].write(writing=False)
        if way == 2:
            for server in brokers:
                stage.faults.release(server)
                if not server.alive:
                    server.start()

    async def _move_group(self, old: str, new: str) -> None:
        """Its members leave the old active cluster in good order, or do not."""
        if not self._has_group:
            return
        crowds = self._stage.crowds
        if self._stage.chance(30) and any(server.alive for server in self._stage.fleets[old].brokers.values()):
            await crowds[old].dismiss_members()
        else:
            crowds[old].crash_members()
        crowds[new].start_member()


CALM = Setting(MirrorStage, check_mirrors)
STORM = Setting(MirrorStage, check_mirrors, FaultRates(node_pause=2, min_pause_ms=150, max_pause_ms=900))
MIRROR_HISTORIES: dict[str, tuple[HistoryFunction, Setting]] = {
    "mirrors": (mirrors, STORM),
    "mirrors_calm": (mirrors, CALM),
}
