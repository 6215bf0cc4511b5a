"""`KafkaConsumer` in the simulator: a group on three brokers, of which one dies after the other.
Every acknowledged value is read, partitions keep their order, and one seed tells one story.
"""

from __future__ import annotations

import pytest

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import NetworkClient
from kmirror.sim.events import Acknowledged, History
from kmirror.sim.fleet import SimFleet
from kmirror.sim.fleet_clients import FleetClient, FleetProducer
from kmirror.sim.log_watch import KnownChains
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimRuntime, SimWorld
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(4)]
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 400, "session.timeout.ms": 6000}
PROTOCOLS = {"cooperative-sticky": COOPERATIVE, "consumer": {"group.protocol": "consumer"}}
Read = tuple[str, int, int, bytes]


class Group:
    """Two members, each on a machine of its own. `read`: (member, partition, offset, value)."""

    def __init__(self, world: SimWorld, fleet: SimFleet, protocol: str) -> None:
        self.read: list[Read] = []
        self.ends = False
        self._world = world
        servers = ",".join(f"{host}:{port}" for host, port in fleet.bootstrap)
        self._props = PROTOCOLS[protocol] | {
            "bootstrap.servers": servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": 2000,
            "request.timeout.ms": 3000,
            "auto.commit.interval.ms": 500,
        }
        self.tasks = [self._start(name) for name in ("m1", "m2")]

    def _start(self, name: str):
        runtime = self._world.node(name).boot()
        return runtime.spawn(self._run(name, runtime), name=name)

    async def _run(self, name: str, runtime: SimRuntime) -> None:
        async with KafkaConsumer(runtime, self._props | {"client.id": name}) as consumer:
            consumer.subscribe([TOPIC])
            while not self.ends:
                for record in await consumer.poll(200):
                    self.read.append((name, record.partition, record.offset, record.value or b""))


def told(seed: int, protocol: str) -> tuple[list[Read], set[tuple[int, int, bytes]], str]:
    """What the members read, what was acknowledged, and the hash of the trace."""
    loop = SimLoop(seed)
    world, history = SimWorld(loop), History()
    fleet = SimFleet(world, history, KnownChains())
    clients = world.node("clients").boot()

    async def play() -> Group:
        for server in fleet.servers:
            server.start()
        for server in fleet.servers:
            await server.wait_started()
        await clients.sleep_ms(3000)
        request = CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=4, replication_factor=3)], timeout_ms=10_000)
        created = await NetworkClient(clients, "admin").send(*fleet.bootstrap[0], request, timeout_ms=20_000)
        assert [row.error_code for row in created.topics] == [0]
        group = Group(world, fleet, protocol)
        producer = FleetProducer(FleetClient(loop, clients, "p", "b", fleet.bootstrap), PARTITIONS, history, idempotent=True)
        writing = clients.spawn(producer.run(), name="producer")
        for broker in fleet.brokers.values():
            await clients.sleep_ms(4000)
            broker.crash()
            await clients.sleep_ms(3000)
            broker.start()
            await broker.wait_started()
        producer.writing = False
        await clients.sleep_ms(4000)
        writing.cancel()
        wanted = acknowledged()
        for _ in range(300):
            if wanted <= {(partition, offset, value) for _, partition, offset, value in group.read}:
                break
            await clients.sleep_ms(200)
        group.ends = True
        for task in group.tasks:
            await task
        return group

    def acknowledged() -> set[tuple[int, int, bytes]]:
        return {
            (event.log.partition.partition, event.base_offset + index, value)
            for event in history.events
            if isinstance(event, Acknowledged)
            for index, value in enumerate(event.values)
        }

    group = loop.run_until_complete(clients.spawn(play(), name="play"))
    assert loop.failures == []
    world.close()
    return group.read, acknowledged(), loop.trace_hash


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_reads_all_that_was_acknowledged_while_brokers_die(protocol: str) -> None:
    read, acknowledged, trace = told(7, protocol)
    assert len(acknowledged) > 100
    assert acknowledged <= {(partition, offset, value) for _, partition, offset, value in read}, "nothing acknowledged is lost"
    assert {name for name, *_ in read} == {"m1", "m2"}, "both members had their share"
    values = {(partition, offset): value for _, partition, offset, value in read}
    assert all(values[partition, offset] == value for _, partition, offset, value in read), "an offset has one value"
    assert told(7, protocol) == (read, acknowledged, trace), "one seed tells one story"
