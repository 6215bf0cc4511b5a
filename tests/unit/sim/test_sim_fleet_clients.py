"""The clients of simulated fleets ask as Kafka's do."""

from __future__ import annotations

from typing import Any

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.fleet_clients import FleetClient, fetch
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.messages.fetch import FetchRequest
from kmirror.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

P = TopicPartition("orders", 1)


class Client(FleetClient):
    """Hears that broker 3 leads in `epochs`, one after the other, and keeps what it asks."""

    def __init__(self, epochs: list[int]) -> None:
        world = SimWorld(SimLoop(1))
        super().__init__(world.loop, world.node("reader").boot(), "reader", "b", [("b1", 9092)])
        self.epochs = epochs
        self.fetches: list[FetchRequest] = []

    async def ask(self, address: tuple[str, int], request: Any, **_: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            self.fetches.append(request)
            return None
        row = MetadataResponsePartition(partition_index=1, leader_id=3, leader_epoch=self.epochs.pop(0))
        self._nodes = {3: ("b3", 9092)}
        return MetadataResponse(brokers=[], topics=[MetadataResponseTopic(name="orders", partitions=[row])])

    async def ask_leader(self, partition: TopicPartition, request: Any, **options: Any) -> Any:
        return await self.ask(("b3", 9092), request, **options)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_fetch_names_the_epoch_of_the_leader_that_it_asks(forgets):
    """Seed 61853: a broker that came back followed, its log ended below what the group had read,
    and the member began at 0.
    """
    client = Client([4, 5])

    async def read_twice() -> None:
        for _ in range(2):
            assert await fetch(client, P, 49, committed=True) is None
            if forgets:
                client.forget(P)

    client.loop.run_until_complete(read_twice())
    assert [request.topics[0].partitions[0].current_leader_epoch for request in client.fetches] == [4, 5 if forgets else 4]
