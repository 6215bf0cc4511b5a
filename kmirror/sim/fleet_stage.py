"""FleetStage: what the history of one fleet plays with, which is the fleet, its clients and the
faults, and how the fleet is healed at the end.
"""

from __future__ import annotations

from kmirror.admin.admin_client import AdminClient, NoBrokerError
from kmirror.admin.results import NewTopic
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.ablations import Ablations
from kmirror.sim.events import History
from kmirror.sim.faults import FaultRates
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_clients import LOST
from kmirror.sim.fleet_crowd import FleetCrowd
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import SimServer
from kmirror.sim.stage import TOPIC, SimStage

SETTLE_MS = 4_000


class FleetStage(SimStage):
    """What the history of one fleet plays with. `crowd` exists after `open`."""

    crowd: FleetCrowd

    def __init__(self, world: SimWorld, history: History, rates: FaultRates, ablations: Ablations) -> None:
        super().__init__(world, history, rates, ablations)
        self.fleet = SimFleet(world, history, self.known)
        self.partitions: list[TopicPartition] = []

    def servers(self) -> list[SimServer]:
        return self.fleet.servers

    async def open(self, partitions: int) -> None:
        """Starts the servers and creates a topic with that many partitions."""
        await self.start_servers(self.fleet.way_to_die)
        self.partitions = [TopicPartition(TOPIC, number) for number in range(partitions)]
        self.crowd = FleetCrowd(self, self.fleet, self.partitions)
        await self._create_topic(partitions)
        await self.until("the fleet is whole", self.fleet.is_whole)

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

    async def heal(self) -> None:
        """Lets writers end what they began, ends the faults, and waits until all replicas are in
        sync. Then it records `Healed`, after which the logs are final.
        """
        self.crowd.write(writing=False)
        await self.faults.mend()
        await self.until("every replica is in sync", self.fleet.is_whole)
        await self.sleep_ms(SETTLE_MS)
        await self.until("every replica is in sync after what was under way", self.fleet.is_whole)
        self.crowd.healed()
