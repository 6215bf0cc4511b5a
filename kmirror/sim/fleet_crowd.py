"""FleetCrowd: all clients of one fleet, which are producers of all kinds, readers and members of a
consumer group.

The values that they write begin with the name of their fleet (`b/plain-1/17`), so a record shows
its origin wherever it is copied.
"""

from __future__ import annotations

import asyncio

from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_clients import FleetClient, FleetProducer, FleetReader
from kmirror.sim.fleet_events import Healed
from kmirror.sim.fleet_groups import GroupMember
from kmirror.sim.fleet_transactions import TransactionalProducer
from kmirror.sim.stage import SimStage

GROUP = "readers"


class FleetCrowd:
    """The clients of `fleet`, all on the stage's machine for clients.

    All their pauses are multiplied by `slowness`. Clients that begin while `marks_odd` is set give records a header (`MARK`).
    """

    def __init__(self, stage: SimStage, fleet: SimFleet, partitions: list[TopicPartition], *, slowness: int = 1) -> None:
        self.fleet = fleet
        self.partitions = partitions
        self.writers: list[FleetProducer | TransactionalProducer] = []
        self.members: list[GroupMember] = []
        self._members_lives: list[asyncio.Task[None]] = []
        self.marks_odd = False
        self._stage = stage
        self._slowness = slowness
        self._instances: dict[str, int] = {}
        self._names = 0

    def client(self, name: str) -> FleetClient:
        """Returns a client with a unique name."""
        self._names += 1
        full_name = f"{self.fleet.name}/{name}-{self._names}"
        client = FleetClient(
            self._stage.world.loop, self._stage.clients, full_name, self.fleet.name, self.fleet.bootstrap, slowness=self._slowness
        )
        client.marks_odd = self.marks_odd
        return client

    def start_producer(self, *, idempotent: bool, records_age_ms: int = 0) -> FleetProducer:
        client = self.client("idempotent" if idempotent else "plain")
        producer = FleetProducer(client, self.partitions, self._stage.history, idempotent=idempotent, records_age_ms=records_age_ms)
        self.writers.append(producer)
        self._stage.clients.spawn(producer.run(), name="producer")
        return producer

    def start_transactions(self, name: str) -> TransactionalProducer:
        """Starts the next instance of the transactional id `fleet/name`.

        Earlier instances are zombies from then on.
        """
        transactional_id = f"{self.fleet.name}/{name}"
        instance = self._instances[name] = self._instances.get(name, 0) + 1
        producer = TransactionalProducer(self.client(name), transactional_id, instance, self.partitions, self._stage.history)
        self.writers.append(producer)
        self._stage.clients.spawn(producer.run(), name=f"{name}-{instance}")
        self._stage.tell(f"instance {instance} of {transactional_id} begins")
        return producer

    def start_readers(self, *levels: bool) -> None:
        """Starts a reader for each partition and level; a level is True for read_committed."""
        for partition in self.partitions:
            for committed in levels:
                reader = FleetReader(self.client(f"reader-{partition.partition}"), partition, self._stage.history, committed=committed)
                self._stage.clients.spawn(reader.run(), name="reader")

    def start_member(self) -> GroupMember:
        """Starts another member of the group."""
        topics = list(dict.fromkeys(partition.topic for partition in self.partitions))
        member = GroupMember(self.client("member"), GROUP, topics, self._stage.history)
        self.members.append(member)
        self._members_lives.append(self._stage.clients.spawn(member.run(), name="member"))
        return member

    def crash_members(self) -> None:
        """Ends all members at once, whatever they are doing. The group learns of it only when their
        sessions end.
        """
        for life in self._members_lives:
            life.cancel()
        self._members_lives.clear()
        self.members.clear()

    async def dismiss_members(self) -> None:
        """Lets all members commit and leave, and ends them."""
        for member in self.members:
            await member.leave()
        self.crash_members()

    def write(self, *, writing: bool) -> None:
        """Lets the writers write, or lets them end what they have begun and then wait."""
        for writer in self.writers:
            writer.writing = writing

    def healed(self) -> Healed:
        """Records that the logs of the replicas in sync are final, the leader's name first."""
        isr = {}
        for partition, registration in self.fleet.registrations().items():
            names = [self.fleet.broker_named(broker_id).name for broker_id in (registration.leader, *registration.isr)]
            isr[partition] = tuple(dict.fromkeys(names))
        event = Healed(self._stage.world.loop.now_us, self.fleet.name, isr)
        self._stage.history.add(event)
        return event
