"""The storm of two fleets: they mirror each other in turn, an operator changes their mind, and
clients follow the active cluster.

    A is written to by producers of all kinds ─> B mirrors it ─> at random: pause and resume, remove and add, delete and create again,
    fail over (planned, with A dead, or while A is still written to) and back; or two operators at once, or the topic is deleted on
    either side ─> everything heals ─> the mirror equals its source ─> (in half of the runs) a last failover, and writes there

Faults hit both fleets, and the network within and between them. Producers go on writing to the old
active cluster for a while; a failover may lose those records. In some stories a group of one or two
members follows the active cluster, at the synced offsets. In some an admin moves a share group
there; a separate random generator decides that, so that other stories stay the same. Both clusters
assign producer ids from 0, so the ids collide.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.faults import FaultRates
from kmirror.sim.keyed_topic import KeyedTopic
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_operators import MirrorOperator
from kmirror.sim.mirror_share_groups import WITH_SHARE_GROUPS, MovedShareGroup
from kmirror.sim.mirror_stage import MirrorStage
from kmirror.sim.mirror_turns import Turns
from kmirror.sim.mirror_world import ANEW, EMPTY, MirrorWorld
from kmirror.sim.run import HistoryFunction, Setting
from kmirror.sim.stage import MIRROR, TOPIC

GROUP_PERCENT = 30
SECOND_MEMBER_PERCENT = 40
SHARE_GROUP_PERCENT = 12
QUARREL_PERCENT = 25
DELETION_PERCENT = 15
MIN_MOVE_PAUSE_MS, MAX_MOVE_PAUSE_MS = 150, 900


async def mirrors(stage: MirrorStage) -> None:
    """Two fleets of three brokers that mirror each other in turn, with a random operator, clients
    of all kinds and faults of all kinds.
    """
    await _mirrors(stage, MirrorWorld.drawn(SeededRandom(f"{stage.world.loop.seed}/world")))


async def _mirrors(stage: MirrorStage, world: MirrorWorld) -> None:
    stage.rates = world.rates(stage.rates)
    stage.tell(f"the world: {world}")
    random = SeededRandom(f"{stage.world.loop.seed}/groups")
    share = MovedShareGroup(stage, random) if random.randrange(100) < SHARE_GROUP_PERCENT else None
    members = 1 + (random.randrange(100) < SECOND_MEMBER_PERCENT)
    if world.source_lost is not None:  # groups would have to start again, and nothing tells them
        share, members = None, 0
    keyed = KeyedTopic(stage, SeededRandom(f"{stage.world.loop.seed}/keyed")) if world.keyed else None
    await stage.open(
        partitions=stage.between(1, 2),
        replication_factor=stage.between(2, 3),
        log_dirs=world.log_dirs,
        dialect=world.dialect,
        may_refuse=world.refusing,
        own_config={"a": world.config, "b": {**world.config, **(keyed.config_of_b() if keyed is not None else {})}},
        **WITH_SHARE_GROUPS if share else {},
    )
    story = _Story(stage, share, members=members)
    turns = Turns(stage, story, SeededRandom(f"{stage.world.loop.seed}/turns"))
    if world.log_dirs > 1:
        stage.world.loop.create_task(_moves(stage), name="moves")
    if world.source_lost is None:
        stage.operator.mirror_configs["mirror.max.truncation.records"] = "-1"  # an add follows the source
    else:
        stage.when_refused = turns.lost_source.say_go
    story.start_clients()
    if keyed is not None:
        await keyed.open()
    stage.faults.active = True
    await stage.sleep_ms(stage.between(100, 400))
    await story.start_mirror()
    for happen in turns.among(story.happenings(), world):
        await stage.sleep_ms(stage.between(100, 700))
        await happen()
    if keyed is not None:
        await keyed.end()
    await story.end()
    if keyed is not None:
        await keyed.read()


async def _moves(stage: MirrorStage) -> None:
    """Moves replicas between the log directories of their broker while faults are active."""
    random = SeededRandom(f"{stage.world.loop.seed}/moves")
    while True:
        await stage.sleep_ms(MIN_MOVE_PAUSE_MS + random.randrange(MAX_MOVE_PAUSE_MS - MIN_MOVE_PAUSE_MS))
        servers = [server for server in stage.servers_with_disks() if server.is_serving]
        if stage.faults.active and servers:
            server = servers[random.randrange(len(servers))]
            await stage.move(server, stage.partitions[random.randrange(len(stage.partitions))])


class _Story:
    """One run of the storm: which cluster is active, and what operators tell the passive one."""

    def __init__(self, stage: MirrorStage, share: MovedShareGroup | None, *, members: int) -> None:
        self.active, self.passive = "a", "b"
        self._stage = stage
        self._share = share
        self._members = members if stage.chance(GROUP_PERCENT) else 0
        self._arbiter: MirrorOperator | None = None

    def start_clients(self) -> None:
        """Starts the clients. Producers of the passive cluster do not write yet."""
        for name, crowd in self._stage.crowds.items():
            crowd.start_producer(idempotent=False)
            crowd.start_producer(idempotent=True)
            crowd.start_readers(self._stage.chance(50))
            crowd.write(writing=name == self.active)
        self._begin_transactions()
        self._start_members(self.active)

    def _start_members(self, cluster: str) -> None:
        for _ in range(self._members):
            self._stage.crowds[cluster].start_member()

    def _begin_transactions(self) -> None:
        if self._stage.chance(60):
            self._stage.crowds[self.active].start_transactions("pay")

    async def start_mirror(self) -> None:
        await self._stage.requests.start_mirror(self.active, self.passive)
        if self._stage.chance(70):
            await self._stage.until_state(self.passive, State.MIRRORING)

    def happenings(self) -> list[Callable[[], Awaitable[None]]]:
        """Returns one to three happenings, one of which may be unusual."""
        stage = self._stage
        found: list[Callable[[], Awaitable[None]]] = [self._happen] * stage.between(1, 3)
        if stage.chance(QUARREL_PERCENT):
            found[stage.between(0, len(found) - 1)] = self._quarrel
        elif stage.chance(DELETION_PERCENT * 100 // (100 - QUARREL_PERCENT)):
            found[stage.between(0, len(found) - 1)] = self.delete_topic if stage.chance(50) else self._replace_source_topic
        return found

    async def _happen(self) -> None:
        """Lets the operator do one random thing."""
        what = self._stage.between(1, 100)
        if what <= 50:
            await self.fail_over()
            await self._stage.sleep_ms(self._stage.between(0, 500))
            await self.start_mirror()
        elif what <= 75:
            await self._pause_and_resume()
        elif what <= 90:
            await self._remove_and_add()
        else:
            await self._delete_and_create()

    async def end(self) -> None:
        """Waits until the passive cluster equals the active one, and in half of the runs fails over
        to it.
        """
        stage = self._stage
        await stage.settle()
        if self._arbiter is not None:
            await stage.requests.have_it_mirrored(self._arbiter, self.passive)
        else:
            await stage.requests.set_right(self.active, self.passive)
        await stage.until_equal(self.active, self.passive)
        if self._members:
            await stage.until_group_is_synced(self.active, self.passive)
        if self._share is not None:
            await self._share.move(self.active)
            await self._share.until_synced(self.active, self.passive)
        if stage.chance(50):
            await stage.fail_over(self.passive)
            await self._move_group(self.active, self.passive)
            stage.crowds[self.passive].write(writing=True)
            if self._share is not None:
                await self._share.move(self.active)
            await stage.sleep_ms(300)
            await stage.settle()
            if self._share is not None:
                await self._share.ensure_unmoved(self.passive)
        await stage.end()

    async def _quarrel(self) -> None:
        """Lets two operators work at the passive cluster at once; then a third one repairs it."""
        stage = self._stage
        first, second, self._arbiter = stage.requests.operators(self.active, self.passive, "operator-1", "operator-2", "arbiter")
        times = [stage.between(2, 4) for _ in range(2)]

        async def pause() -> None:
            await stage.sleep_ms(stage.between(0, 250))

        other = stage.world.loop.create_task(second.quarrel(stage.random, times[1], pause), name="operator-2")
        await first.quarrel(stage.random, times[0], pause)
        await other
        await stage.requests.have_it_mirrored(self._arbiter, self.passive)

    async def delete_topic(self) -> None:
        """Deletes the passive cluster's topic, which the next add creates again, empty and with the
        same id.
        """
        await self._stage.fail_over(self.passive)
        await self._stage.requests.delete_topic(self.passive)
        await self._stage.sleep_ms(self._stage.between(0, 300))
        await self.start_mirror()

    async def _replace_source_topic(self) -> None:
        """Deletes the active cluster's topic and creates it again, with another id.

        The mirror must not follow until the passive cluster's topic is deleted too. A partition
        whose leader did not look while there was no topic stays PAUSED because of the topic's name,
        since another id alone is no deletion (B5).
        """
        stage, crowd = self._stage, self._stage.crowds[self.active]
        crowd.crash_members()
        await stage.until_state(self.passive, State.MIRRORING)
        await stage.requests.delete_topic(self.active)
        await stage.sleep_ms(stage.between(0, 4_000))
        await stage.operator.create_topic(self.active, TOPIC, len(stage.partitions), replication_factor=stage.between(2, 3))
        await stage.until_state(self.passive, State.FAILED, State.STOPPED, State.PAUSED)
        await self.delete_topic()
        self._start_members(self.active)

    async def _pause_and_resume(self) -> None:
        await self._stage.requests.pause_and_resume(self.passive, self._stage.between(20, 500))

    async def _remove_and_add(self) -> None:
        await self._stage.fail_over(self.passive)
        await self._stage.sleep_ms(self._stage.between(0, 300))
        await self._stage.operator.add(self.passive, MIRROR, TOPIC)

    async def _delete_and_create(self) -> None:
        await self._stage.fail_over(self.passive)
        await self._stage.delete_mirror(self.passive)
        await self._stage.sleep_ms(self._stage.between(0, 300))
        await self.start_mirror()

    async def fail_over(self) -> None:
        """Fails over in one of three ways: planned, with writers stopped first; while the old
        active cluster is still written to; or after it died.
        """
        stage = self._stage
        old, new = self.active, self.passive
        brokers = list(stage.fleets[old].brokers.values())
        way = stage.between(1, 3)
        dies = way == 2 and stage.fleets[old].may_die()
        if self._share is not None and not dies:
            await self._share.move(old)
        if way == 1:
            stage.crowds[old].write(writing=False)
            await stage.sleep_ms(stage.between(0, 400))
        elif dies:
            for server in brokers:
                stage.faults.hold(server)
                if server.alive:
                    server.crash()
        await stage.fail_over(new)
        stage.tell(f"{new} is writable")
        await self._move_group(old, new)
        if self._share is not None:
            await self._share.ensure_was_moved_to(new)
        stage.crowds[new].write(writing=True)
        self.active, self.passive = new, old
        self._begin_transactions()
        await stage.sleep_ms(stage.between(0, 300))
        stage.crowds[old].write(writing=False)
        if dies:
            for server in brokers:
                stage.faults.release(server)
                if not server.alive:
                    server.start()

    async def _move_group(self, old: str, new: str) -> None:
        """Moves the group's members: they leave the old active cluster in good order, or crash."""
        if not self._members:
            return
        crowds = self._stage.crowds
        if self._stage.chance(30) and any(server.alive for server in self._stage.fleets[old].brokers.values()):
            await crowds[old].dismiss_members()
        else:
            crowds[old].crash_members()
        self._start_members(new)


def storm_of(**told: Any) -> HistoryFunction:
    """Returns the storm in a world with these properties."""

    async def play(stage: MirrorStage) -> None:
        await _mirrors(stage, MirrorWorld.drawn(SeededRandom(f"{stage.world.loop.seed}/world"), **told))

    play.__doc__ = f"The storm of `mirrors` in a world where {MirrorWorld(**told)}."
    return play


CALM = Setting(MirrorStage, check_mirrors)
STORM = Setting(MirrorStage, check_mirrors, FaultRates.storm(node_pause=2))
MIRROR_STORMS: dict[str, tuple[HistoryFunction, Setting]] = {
    "mirrors": (mirrors, STORM),
    "mirrors_calm": (mirrors, CALM),
    "mirrors_disks_break": (storm_of(disks_break=True), STORM),
    "mirrors_keyed": (storm_of(keyed=True), STORM),
    "mirrors_source_empty": (storm_of(source_lost=EMPTY), STORM),
    "mirrors_source_anew": (storm_of(source_lost=ANEW), STORM),
    "mirrors_switched_off": (storm_of(switched_off=True), STORM),
    "mirrors_states_grow": (storm_of(states_grow=True), STORM),
    "mirrors_refused": (storm_of(refusing=True), STORM),
}
