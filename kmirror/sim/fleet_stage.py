"""FleetStage: the set of a fleet's history: the fleet, its clients, the faults, and what it means to be healed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kmirror.admin.admin_client import AdminClient, NoBrokerError
from kmirror.admin.results import NewTopic
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.ablations import Ablations
from kmirror.sim.faults import NO_FAULTS, FaultInjector, FaultRates
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_clients import LOST, FleetClient, FleetProducer, FleetReader
from kmirror.sim.fleet_groups import GroupMember
from kmirror.sim.fleet_history import Healed
from kmirror.sim.fleet_transactions import TransactionalProducer
from kmirror.sim.history import History, Told
from kmirror.sim.log_watch import KnownChains
from kmirror.sim.runtime import SimWorld

CLIENTS = "clients"
TOPIC = "orders"
GROUP = "readers"
WAIT_MS = 60_000
SETTLE_MS = 4_000
POLL_MS = 50


class FleetStage:
    """The set of a fleet's history."""

    def __init__(self, world: SimWorld, history: History, rates: FaultRates, ablations: Ablations) -> None:
        self.world = world
        self.history = history
        self.random: Random = SeededRandom(f"{world.loop.seed}/story")
        self.clients = world.node(CLIENTS).boot()
        self.fleet = SimFleet(world, history, KnownChains())
        self.faults = FaultInjector(world, (), (), NO_FAULTS, history)
        self.partitions: list[TopicPartition] = []
        self.writers: list[FleetProducer | TransactionalProducer] = []
        self.members: list[GroupMember] = []
        self._rates = rates
        self._instances: dict[str, int] = {}
        self._names = 0

    async def open(self, partitions: int) -> None:
        """Start everything, with a topic of that many partitions."""
        await self.fleet.start()
        fleet = self.fleet
        hosts = [CLIENTS, *(server.name for server in fleet.servers)]
        self.faults = FaultInjector(self.world, fleet.servers, hosts, self._rates, self.history, way_to_die=fleet.way_to_die)
        self.world.loop.create_task(self.faults.run(), name="faults")
        self.partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        await self._create_topic(partitions)
        await self.until("the fleet is whole", fleet.is_whole)

    async def _create_topic(self, partitions: int) -> None:
        admin = AdminClient(self.clients, self.fleet.bootstrap, client_id="operator", timeout_ms=3_000)
        for _ in range(10):
            try:
                (await admin.create_topics([NewTopic(TOPIC, num_partitions=partitions, replication_factor=3)])).all()
                break
            except ApiException as error:
                if error.error is Errors.TOPIC_ALREADY_EXISTS:
                    break
            except (NoBrokerError, *LOST):
                continue
        admin.close()

    def between(self, low: int, high: int) -> int:
        return low + self.random.randrange(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)

    def tell(self, what: str) -> None:
        self.history.add(Told(self.world.loop.now_us, "story", what))

    def client(self, name: str) -> FleetClient:
        """A client of a name of its own."""
        self._names += 1
        return FleetClient(self.world.loop, self.clients, f"{name}-{self._names}", self.fleet.bootstrap)

    # who is on it

    def start_producer(self, *, idempotent: bool) -> FleetProducer:
        producer = FleetProducer(self.client("idempotent" if idempotent else "plain"), self.partitions, self.history, idempotent=idempotent)
        self.writers.append(producer)
        self.clients.spawn(producer.run(), name="producer")
        return producer

    def start_transactions(self, transactional_id: str) -> TransactionalProducer:
        """The next instance; the ones before are zombies from then on."""
        instance = self._instances[transactional_id] = self._instances.get(transactional_id, 0) + 1
        producer = TransactionalProducer(self.client(transactional_id), transactional_id, instance, self.partitions, self.history)
        self.writers.append(producer)
        self.clients.spawn(producer.run(), name=f"{transactional_id}-{instance}")
        self.tell(f"instance {instance} of {transactional_id} begins")
        return producer

    def start_readers(self) -> None:
        for partition in self.partitions:
            for committed in (False, True):
                reader = FleetReader(self.client(f"reader-{partition.partition}"), partition, self.history, committed=committed)
                self.clients.spawn(reader.run(), name="reader")

    def start_member(self) -> GroupMember:
        member = GroupMember(self.client("member"), GROUP, [TOPIC], self.history)
        self.members.append(member)
        self.clients.spawn(member.run(), name="member")
        return member

    # waiting

    async def until(self, what: str, condition: Callable[[], bool], *, timeout_ms: int = WAIT_MS) -> None:
        """KmirrorError when it does not come true: nothing may hang."""
        deadline_us = self.world.loop.now_us + timeout_ms * 1000
        while not condition():
            failed = next((server.start_failed for server in self.fleet.servers if server.start_failed), None)
            if failed is not None:
                raise KmirrorError(failed)
            if self.world.loop.now_us > deadline_us:
                raise KmirrorError(f"still not true after {timeout_ms} ms: {what}")
            await asyncio.sleep(POLL_MS / 1000)

    async def heal(self) -> None:
        """Writers end what they began, faults end, replicas catch up; then the truth is what the logs say."""
        for writer in self.writers:
            writer.writing = False
        await self.faults.mend()
        await self.until("every replica is in sync", self.fleet.is_whole)
        await self.sleep_ms(SETTLE_MS)
        await self.until("every replica is in sync after what was under way", self.fleet.is_whole)
        isr = {
            partition: tuple(self.fleet.broker_named(broker_id).name for broker_id in (registration.leader, *registration.isr))
            for partition, registration in self.fleet.registrations().items()
        }
        self.history.add(Healed(self.world.loop.now_us, {key: tuple(dict.fromkeys(names)) for key, names in isr.items()}))
