"""FlowStage: two fleets, clients at both, and workers of MirrorMaker on machines of their own that
copy from one to the other.

The fleets know nothing of each other, and nothing of mirrors: MirrorMaker is a client of both.
Workers are processes (`sim.worker_process`); a history adds as many as it wants (`add_worker`)
before it opens the stage. Faults of the network hit their machines like all others. Their own
troubles (kills, losses of power, stalls, clocks) come from `Troubles`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.ablations import Ablations
from kmirror.sim.events import History
from kmirror.sim.faults import FaultRates
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_checkers import Truth
from kmirror.sim.fleet_crowd import GROUP, FleetCrowd
from kmirror.sim.fleet_groups import committed_offsets
from kmirror.sim.flow_events import FaultsEnded, GroupMoved, TopicsSeen
from kmirror.sim.flow_world import SOURCE, TARGET
from kmirror.sim.operator import Operator
from kmirror.sim.runtime import SimRuntime, SimWorld
from kmirror.sim.server import SimServer
from kmirror.sim.stage import TOPIC, SimStage
from kmirror.sim.worker_process import Life, WorkerProcess

CALMER = {
    "broker.heartbeat.interval.ms": "600",
    "broker.session.timeout.ms": "2000",
    "replica.fetch.wait.max.ms": "1000",
    "replica.lag.time.max.ms": "2000",
}
"""A story with stalls lasts long, so its idle moments must cost little."""
SLOWNESS = 6
SETTLE_MS = 2_000
STOP_MS = 15_000
LOOK_MS = 200
ASKED = 20


class FlowStage(SimStage):
    """`crowds[name]` are the clients of each fleet once it is open."""

    def __init__(self, world: SimWorld, history: History, rates: FaultRates, ablations: Ablations) -> None:
        super().__init__(world, history, rates, ablations)
        self.fleets = {name: SimFleet(world, history, self.known, name=name, config=CALMER) for name in (SOURCE, TARGET)}
        self.workers: list[WorkerProcess] = []
        self.partitions: list[TopicPartition] = []
        self.crowds: dict[str, FleetCrowd] = {}
        self.operator = Operator(
            world.loop, self.clients, history, bootstrap=lambda name: self.fleets[name].bootstrap, timeout_ms=self.patience_ms
        )

    def servers(self) -> list[SimServer]:
        return [server for fleet in self.fleets.values() for server in fleet.servers]

    def servers_with_disks(self) -> list[SimServer]:
        return [server for fleet in self.fleets.values() for server in fleet.brokers.values()]

    def hosts(self) -> Sequence[str]:
        return [*super().hosts(), *(worker.name for worker in self.workers)]

    def add_worker(self, name: str, begin: Callable[[SimRuntime], Life]) -> WorkerProcess:
        """Adds a process that does not run yet."""
        worker = WorkerProcess(self.world, name, self.history, begin)
        self.workers.append(worker)
        return worker

    async def open(self, partitions: int, clusters: Sequence[str]) -> None:
        """Starts the servers, and creates the topic at these clusters."""
        await self.start_servers(lambda server, power_loss: self.fleets[self.history.hosts[server.name]].way_to_die(server, power_loss))
        self.partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        for name, fleet in self.fleets.items():
            self.crowds[name] = FleetCrowd(self, fleet, list(self.partitions), slowness=SLOWNESS)
        for name in clusters:
            await self.operator.create_topic(name, TOPIC, partitions, replication_factor=3)

    def shown(self, cluster: str, partition: TopicPartition, *, committed: bool) -> set[bytes]:
        """Returns the values that a reader of the partition's leader is shown in the end, as far as
        its log goes now.
        """
        leader = self.fleets[cluster].leader(partition)
        log = leader.watch.logs.get(partition, []) if leader is not None else []
        truth = Truth(cluster, 0, {partition: {"": log}})
        return set((truth.committed(partition) if committed else truth.values(partition)).values())

    def is_whole(self) -> bool:
        return all(fleet.is_whole() for fleet in self.fleets.values())

    async def settle(self) -> None:
        """Writers end what they began, members commit no more, faults end, and everything runs."""
        for crowd in self.crowds.values():
            crowd.write(writing=False)
        await self.faults.mend()
        for worker in self.workers:
            worker.node.clock.offset_ms = 0
        await self.until("every replica is in sync", self.is_whole)
        await self.sleep_ms(SETTLE_MS)
        for crowd in self.crowds.values():
            for member in crowd.members:
                member.consuming = False
        self.history.add(FaultsEnded(self.world.loop.now_us))

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits for the condition while one is patient. Whether it came true, the rules say."""
        deadline_us = self.world.loop.now_us + self.patience_ms * 1000
        while not condition() and self.world.loop.now_us < deadline_us:
            await self.sleep_ms(LOOK_MS)

    async def read_group(self, source: str, target: str, copied: dict[TopicPartition, TopicPartition]) -> None:
        """Asks both clusters where the group is, for the rule "groups"."""
        found = [
            await self._committed(source, list(copied)),
            await self._committed(target, list(copied.values())),
        ]
        self.history.add(GroupMoved(self.world.loop.now_us, source, target, GROUP, *found))

    async def _committed(self, cluster: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        client = self.crowds[cluster].client("offsets")
        for _ in range(ASKED):
            offsets = await committed_offsets(client, GROUP, partitions)
            if offsets is not None:
                return offsets
            await client.retry_pause()
        return {}

    async def end(self) -> None:
        """The workers end in good order; from then on the logs are final."""
        for worker in self.workers:
            await worker.stop(STOP_MS)
        await self.until("every replica is in sync", self.is_whole)
        await self.until("every replica is its leader's equal", lambda: all(fleet.replicas_are_equal() for fleet in self.fleets.values()))
        for name, crowd in self.crowds.items():
            crowd.healed()
            self.history.add(TopicsSeen(self.world.loop.now_us, name, tuple(sorted(self.fleets[name].image().topics.by_name))))


class Troubles:
    """What happens to the workers while faults are active: each is killed, loses its power, stands
    still, is restarted in good order, or has its clock set. With a `spare`, that one takes the
    place of a worker that stands still for long, which then wakes up beside it and is killed.
    """

    def __init__(self, stage: FlowStage, workers: Sequence[WorkerProcess], spare: WorkerProcess | None = None) -> None:
        self._stage = stage
        self._spare = spare
        self._random = SeededRandom(f"{stage.world.loop.seed}/troubles")
        self._troubled = [stage.world.loop.create_task(self._trouble(worker), name=f"trouble-{worker.name}") for worker in workers]

    def _between(self, low: int, high: int) -> int:
        return low + self._random.randrange(high - low + 1)

    async def _trouble(self, worker: WorkerProcess) -> None:
        while self._stage.faults.active:
            await self._stage.sleep_ms(self._between(600, 4_000))
            if self._stage.faults.active:
                worker = await self._happen(worker)

    async def _happen(self, worker: WorkerProcess) -> WorkerProcess:
        """Returns the worker that goes on."""
        what = self._between(1, 100)
        if what <= 50:
            worker.kill(power_loss=what <= 12)
            await self._stage.sleep_ms(self._between(50, 1_500))
            worker.start()
        elif what <= 65:
            worker.stall(self._between(200, 3_000))
        elif what <= 78:
            return await self._long_stall(worker)
        elif what <= 90:
            await worker.stop(self._between(200, 8_000))
            worker.start()
        else:
            worker.set_clock(self._between(-10_000, 10_000))
        return worker

    async def _long_stall(self, worker: WorkerProcess) -> WorkerProcess:
        worker.stall(LONG_STALL_MS)
        if self._spare is None:
            await self._stage.sleep_ms(LONG_STALL_MS)
            return worker
        await self._stage.sleep_ms(self._between(500, 3_000))
        other, self._spare = self._spare, worker
        other.start()
        await self._stage.sleep_ms(LONG_STALL_MS + self._between(0, 4_000))
        worker.kill()
        return other

    async def end(self) -> None:
        """When faults are no longer active."""
        for task in self._troubled:
            await task


LONG_STALL_MS = 20_000
