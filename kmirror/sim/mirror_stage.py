"""MirrorStage: two fleets with mirrors between them, clients at both, and the faults of both.

Fleet "a" has the hosts a1, a2, a3 and ak (its controller), and fleet "b" likewise. The state of a
mirror and the log of a partition are what the leader's disk holds. One broker of a fleet loses
power at a time, as `sim.fleet` says; the two fleets are independent in this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType

from kmirror.admin.admin_client import NoBrokerError
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.sim.ablations import Ablations
from kmirror.sim.cluster import QUICK
from kmirror.sim.events import Batch, Converged, History, LogKey, MirrorStatesRead, StateWritten
from kmirror.sim.faults import FaultRates
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_clients import LOST, FleetProducer
from kmirror.sim.fleet_crowd import GROUP, FleetCrowd
from kmirror.sim.fleet_events import GroupSynced
from kmirror.sim.fleet_groups import committed_offsets
from kmirror.sim.mirror_requests import MirrorRequests
from kmirror.sim.operator import Operator
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import SimServer
from kmirror.sim.stage import MIRROR, TOPIC, SimStage

SETTLE_MS = 700
SLOWNESS = 3
WRITE_TRIES = 20
WRITE_PAUSE_MS = 100
GROUP_PAUSE_MS = 300
FEATURES = {"mirror.version": 1}
MIRRORED = {
    **QUICK,
    "request.timeout.ms": "2000",
    "unstable.api.versions.enable": "true",
    "unstable.feature.versions.enable": "true",
    "mirror.topic.replication.factor": "3",
    "mirror.metadata.refresh.interval.ms": "1500",
    "replica.fetch.wait.max.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "broker.heartbeat.interval.ms": "600",
    "broker.session.timeout.ms": "2000",
}

REFUSED = [MirrorPartitionState.PREPARING, MirrorPartitionState.FAILED]


class MirrorStage(SimStage):
    """Two fleets; `crowds[name]` are the clients of each once it is open."""

    def __init__(self, world: SimWorld, history: History, rates: FaultRates, ablations: Ablations) -> None:
        super().__init__(world, history, rates, ablations)
        self.fleets: dict[str, SimFleet] = {}
        self.crowds: dict[str, FleetCrowd] = {}
        self.operator = Operator(
            world.loop, self.clients, history, bootstrap=lambda name: self.fleets[name].bootstrap, timeout_ms=self.patience_ms
        )
        self.partitions: list[TopicPartition] = []
        self.refused_until_us: dict[str, int] = {}
        """Until when a cluster lets no mirror read, where it was opened with `may_refuse`."""
        self.when_refused: Callable[[str], Awaitable[None]] | None = None
        """What the operator of a cluster does where the guard lets the mirror not be aligned
        (`lost_sources`); None: nothing.
        """
        self.requests = MirrorRequests(
            MIRROR,
            TOPIC,
            self.operator,
            self.fleets,
            history,
            loop=world.loop,
            clients=self.clients,
            until=self.until,
            patience_ms=self.patience_ms,
        )

    def servers(self) -> list[SimServer]:
        return [server for fleet in self.fleets.values() for server in fleet.servers]

    def servers_with_disks(self) -> list[SimServer]:
        return [server for fleet in self.fleets.values() for server in fleet.brokers.values()]

    async def open(
        self,
        *,
        partitions: int = 1,
        replication_factor: int = 3,
        names: tuple[str, ...] = ("a", "b"),
        config: Mapping[str, str] | None = None,
        configs: Mapping[str, str] | None = None,
        features: Mapping[str, int] = FEATURES,
        log_dirs: int = 1,
        dialect: str | None = None,
        may_refuse: bool = False,
        own_config: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """Starts everything. Each node has `config` (and its cluster's `own_config`) and
        `features`, and each broker `log_dirs` log directories. Fleet "a" has the topic, with
        `configs`, and answers mirrors in `dialect`.
        """
        self.partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        for name in names:
            fleet = SimFleet(
                self.world,
                self.history,
                self.known,
                name=name,
                features=features,
                safeguards=self.ablations.safeguards,
                config=MIRRORED | dict(config or {}) | dict(own_config.get(name, {})),
                log_dirs=log_dirs,
                dialect=dialect if name == names[0] else None,
            )
            self.fleets[name] = fleet
            for server in fleet.brokers.values() if may_refuse else ():
                server.refuses_mirrors = partial(self._is_refused, name)
            self.crowds[name] = FleetCrowd(self, fleet, self.partitions, slowness=SLOWNESS)
        await self.start_servers(self._way_to_die)
        await self.operator.create_topic(names[0], TOPIC, partitions, dict(configs or {}), replication_factor=replication_factor)

    def _is_refused(self, cluster: str) -> bool:
        return self.world.loop.now_us < self.refused_until_us.get(cluster, 0)

    def _way_to_die(self, server: SimServer, power_loss: bool) -> bool | None:
        return self.fleet_of(server).way_to_die(server, power_loss)

    def fleet_of(self, server: SimServer) -> SimFleet:
        return self.fleets[self.history.hosts[server.name]]

    # what the disks of leaders say

    def leader(self, cluster: str, partition: TopicPartition) -> SimServer | None:
        return self.fleets[cluster].leader(partition)

    def state(self, cluster: str, partition: TopicPartition) -> MirrorPartitionState | None:
        server = self.leader(cluster, TopicPartition(MIRROR_STATE_TOPIC_NAME, 0))
        found = server.watch.states.get(partition) if server is not None else None
        return found[1] if found is not None else None

    def log(self, cluster: str, partition: TopicPartition) -> list[Batch] | None:
        server = self.leader(cluster, partition)
        return server.watch.logs.get(partition, []) if server is not None else None

    def equal(self, source: str, destination: str, partition: TopicPartition) -> bool:
        theirs, ours = self.log(source, partition), self.log(destination, partition)
        if not theirs or not ours:
            return theirs is not None and ours is not None and not theirs and not ours
        return theirs[-1].chain == ours[-1].chain

    def chain_of(self, server: SimServer) -> bytes:
        """Returns the chain of the server's whole log of the first partition."""
        log = server.watch.logs.get(self.partitions[0], [])
        return log[-1].chain if log else b""

    def topic_id(self, cluster: str) -> Uuid:
        topic = self.fleets[cluster].image().topics.topic(TOPIC)
        assert topic is not None, f"{cluster} has no topic {TOPIC}"
        return topic.id

    async def write(self, cluster: str, *, batches: int, partition: TopicPartition | None = None) -> None:
        """That many acknowledged batches to the partition, or to the first; KmirrorError when the
        cluster takes none for too long.
        """
        partition = partition or self.partitions[0]
        producer = FleetProducer(self.crowds[cluster].client("writer"), self.partitions, self.history, idempotent=False)
        for _ in range(batches):
            for _ in range(WRITE_TRIES):
                if await producer.write_once(partition):
                    break
                await self.sleep_ms(WRITE_PAUSE_MS)
            else:
                raise KmirrorError(f"{cluster} takes no batch")

    async def move(self, server: SimServer, partition: TopicPartition) -> str | None:
        """Ask the broker to move its replica to its other log directory (AlterReplicaLogDirs),
        once; the directory, None where it did not take it.
        """
        paths = [volume.path for volume in server.volumes]
        home = server.watch.data_dir_of(partition)
        if home is None or len(paths) < 2:
            return None
        path = paths[1 - paths.index(home)]
        admin = self.operator.admin(self.history.hosts[server.name])
        number = int(server.name.removeprefix(self.history.hosts[server.name]))
        try:
            error = (await admin.alter_replica_log_dirs({(partition, number): path}))[partition, number]
        except (ApiException, NoBrokerError, *LOST) as refused:
            error = refused if isinstance(refused, ApiException) else ApiException(Errors.NETWORK_EXCEPTION, "no answer")
        self.tell(f"{partition} moves to {path} at {server.name}" + ("" if error is None else f": {error.error.name}"))
        return path if error is None else None

    # waiting

    async def until_state(self, cluster: str, *states: MirrorPartitionState) -> None:
        """Waits until every partition of the topic is in one of these states.

        While it waits for MIRRORING, the topic's operator looks after it (`until_kept_mirrored`).
        """
        what = f"{TOPIC} {' or '.join(state.name for state in states)} at {cluster}"

        if MirrorPartitionState.MIRRORING in states:
            await self.until_kept_mirrored(cluster, what, lambda: self._are(cluster, *states))
        else:
            await self.until(what, lambda: self._are(cluster, *states))

    def _are(self, cluster: str, *states: MirrorPartitionState) -> bool:
        """Whether every partition of the topic is in one of those."""
        return all(self.state(cluster, partition) in states for partition in self.partitions)

    async def until_kept_mirrored(self, cluster: str, what: str, condition: Callable[[], bool]) -> None:
        """As `until_followed`. If an earlier request that was given up is carried out late and
        takes the topic out of its mirror, the topic is put back. If it puts the source's topic,
        which was failed over, into a mirror, that one is failed over again: neither cluster follows
        another that follows it.
        """
        requests, source = self.requests, self.history.sources[cluster, MIRROR]
        while True:
            await self.until_followed(cluster, what, lambda: condition() or not requests.is_mirrored(cluster) or requests.is_in(source))
            if condition():
                return
            if requests.is_in(source):
                await self.fail_over(source)
            else:
                await requests.set_right(source, cluster)

    async def until_followed(self, cluster: str, what: str, condition: Callable[[], bool]) -> None:
        """As `until`. If the guard refuses to align the mirror meanwhile, its operator decides."""
        await self.until(what, lambda: condition() or self._guard_refuses(cluster))
        while not condition():
            assert self.when_refused is not None
            await self.when_refused(cluster)
            await self.until(what, lambda: condition() or self._guard_refuses(cluster))

    def _guard_refuses(self, cluster: str) -> bool:
        """Returns whether a partition went from PREPARING to FAILED, by the leader of the states.

        A later FAILED does not count as the guard's.
        """
        if self.when_refused is None:
            return False
        server = self.leader(cluster, TopicPartition(MIRROR_STATE_TOPIC_NAME, 0))
        failed = [partition for partition in self.partitions if self.state(cluster, partition) is MirrorPartitionState.FAILED]
        return server is not None and any(self._states(LogKey(server.name, partition))[-2:] == REFUSED for partition in failed)

    def _states(self, log: LogKey) -> list[MirrorPartitionState | None]:
        """All that were written there."""
        return [event.state for event in self.history.events if isinstance(event, StateWritten) and event.log == log]

    async def until_equal(self, source: str, destination: str) -> None:
        """Lag 0 while nobody writes; from then on the logs are compared."""
        await self.until_followed(
            destination,
            f"{destination} equals {source}",
            lambda: all(self.equal(source, destination, partition) for partition in self.partitions),
        )
        for partition in self.partitions:
            theirs, ours = self.leader(source, partition), self.leader(destination, partition)
            assert theirs is not None and ours is not None, partition
            self.history.add(Converged(self.world.loop.now_us, LogKey(theirs.name, partition), LogKey(ours.name, partition)))

    async def until_group_is_synced(self, source: str, destination: str) -> None:
        """What the group has committed at the source, it has at the destination, too; nobody
        consumes anything new meanwhile.
        """
        asking = {name: self.crowds[name].client("offsets") for name in (source, destination)}
        deadline_us = self.world.loop.now_us + self.patience_ms * 1000
        while True:
            theirs, ours = [await committed_offsets(asking[name], GROUP, self.partitions) for name in (source, destination)]
            if theirs is not None and ours is not None and theirs.items() <= ours.items():
                self.history.add(GroupSynced(self.world.loop.now_us, destination, GROUP, tuple(sorted(theirs.items()))))
                return
            if self.world.loop.now_us > deadline_us:
                raise KmirrorError(f"group {GROUP} has {theirs} at {source} and {ours} at {destination}")
            await self.sleep_ms(GROUP_PAUSE_MS)

    def is_whole(self) -> bool:
        return all(fleet.is_whole() for fleet in self.fleets.values())

    def _replicas_are_equal(self) -> bool:
        return self.is_whole() and all(fleet.replicas_are_equal() for fleet in self.fleets.values())

    async def settle(self) -> None:
        """Writers end what they began, faults end, replicas catch up, what is under way arrives."""
        for crowd in self.crowds.values():
            crowd.write(writing=False)
        await self.faults.mend()
        await self.until("every replica is in sync", self.is_whole)
        await self.sleep_ms(SETTLE_MS)
        await self.until("every replica is in sync after what was under way", self.is_whole)

    async def end(self) -> None:
        """Now the truth is what the logs say."""
        await self.until("every replica is its leader's equal", self._replicas_are_equal)
        await self.until(
            "no replica is on its way to another directory", lambda: not any(server.watch.moving() for server in self.servers())
        )
        for crowd in self.crowds.values():
            crowd.healed()
            leader = self.leader(crowd.fleet.name, TopicPartition(MIRROR_STATE_TOPIC_NAME, 0))
            records = leader.watch.stored_states()[1] if leader is not None else []
            self.history.add(MirrorStatesRead(self.world.loop.now_us, crowd.fleet.name, records))

    # the operator's procedures

    async def mirror(self, source: str, destination: str) -> None:
        """Create the mirror, add the topic, and wait until it is mirrored."""
        await self.requests.start_mirror(source, destination)
        await self.until_state(destination, MirrorPartitionState.MIRRORING)

    async def fail_over(self, destination: str) -> None:
        """Removes the topic and waits until it is writable; again if an earlier request that was
        given up is carried out late and puts it back.
        """
        while True:
            await self.requests.remove(destination)
            await self.until(
                f"{TOPIC} STOPPED at {destination}",
                lambda: self._are(destination, MirrorPartitionState.STOPPED) or self.requests.is_in(destination),
            )
            if not self.requests.is_in(destination):
                return

    async def delete_mirror(self, cluster: str) -> None:
        """Deletes the mirror of a topic that was removed from it; removes the topic again if an
        earlier request that was given up is carried out late and puts it back.
        """
        while True:
            await self.operator.delete_mirror(cluster, MIRROR, undone=partial(self.requests.is_in, cluster))
            if not self.requests.is_in(cluster):
                return
            await self.fail_over(cluster)
