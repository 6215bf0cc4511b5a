"""Transactions of `KafkaProducer` whose calls are given up, fail halfway or overtake each other, against
a scripted coordinator.
"""

from __future__ import annotations

import asyncio

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import ScriptedLogs
from support.clients.scripted_transactions import ScriptedTransactions

from kmirror.clients.kafka_producer import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition

GROUP = ConsumerGroupMetadata("g")


class Scene:
    """The coordinator is broker 1 until `coordinator_of` says something else."""

    def __init__(self, version: int) -> None:
        self.cluster = ScriptedCluster(3)
        self.cluster.topics["t"] = ScriptedTopic({0: 0, 1: 0})
        self.logs = ScriptedLogs(self.cluster)
        self.coordinator = ScriptedTransactions(self.cluster, version=version)
        self.cluster.coordinator_of = lambda key: 1
        self.version = version

    def producer(self, **settings):
        async def made():
            return KafkaProducer(self.cluster.runtime, self.cluster.props(0, transactional_id="tx", **settings))

        return self.cluster.run(made())

    def run(self, coroutine):
        return self.cluster.run(coroutine)

    def move_coordinator(self) -> None:
        self.cluster.stop(1)
        self.cluster.coordinator_of = lambda key: 2


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def scene(request):
    scene = Scene(request.param)
    yield scene
    scene.cluster.close()


@pytest.fixture
def scene_v1():
    scene = Scene(1)
    yield scene
    scene.cluster.close()


async def write(producer, *values, partition=0):
    return [await producer.send(ProducerRecord("t", value, partition=partition)) for value in values]


async def given_up(coroutine, after_ms):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(after_ms / 1000):
            await coroutine


def test_a_coordinator_of_offsets_that_died_is_looked_for_again(scene):
    """The version was asked for outside of what forgets the coordinator, so its dead broker was asked
    for ever.
    """
    producer = scene.producer(max_block_ms=20_000)
    offsets = {TopicPartition("src", 0): OffsetAndMetadata(1)}

    async def one():
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction(offsets, GROUP)
        await producer.commit_transaction()

    async def story():
        await producer.init_transactions()
        await one()
        scene.move_coordinator()
        await one()

    scene.run(story())
    assert scene.coordinator.offsets == [("g", "src", 0, 1)] * 2
    scene.run(producer.close())


def test_a_new_producer_does_not_wait_for_ever_for_a_coordinator_that_died(scene):
    scene.cluster.stop(1)
    producer = scene.producer(max_block_ms=20_000)

    async def story():
        await given_up(producer.init_transactions(), 2_000)
        scene.cluster.coordinator_of = lambda key: 2
        await producer.init_transactions()

    scene.run(story())
    scene.run(producer.close())


def test_memory_that_is_granted_to_a_send_that_may_not_go_on_is_given_back(scene):
    """The transaction failed while the send waited for memory."""
    producer = scene.producer(buffer_memory=1_000, batch_size=1_000, linger_ms=0)
    scene.logs.fault = lambda node_id, partition, batch: Errors.INVALID_RECORD if batch.producer_epoch == 0 else None

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await write(producer, b"x", partition=0)
        with pytest.raises(ApiException):
            await write(producer, b"x", partition=1)
        assert producer._accumulator.pool.free == 1_000
        await producer.abort_transaction()
        await producer.begin_transaction()
        await write(producer, b"y", partition=1)
        await producer.commit_transaction()

    scene.run(story())
    assert scene.logs.values("t", 1) == [b"y"]
    scene.run(producer.close())


def test_a_send_that_was_given_up_leaves_nothing_to_commit(scene):
    """Its partition was noted for the transaction before the record was accepted. So the coordinator
    was asked to commit a transaction that it did not know, which ends a producer.
    """
    producer = scene.producer(buffer_memory=1_000, batch_size=1_000, linger_ms=60_000)

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        producer._accumulator.pool.try_take(1_000)
        await given_up(write(producer, b"x"), 500)
        producer._accumulator.pool.give_back(1_000)
        await producer.commit_transaction()

    scene.run(story())
    assert scene.coordinator.calls == ["init"]
    assert producer._accumulator.pool.free == 1_000
    scene.run(producer.close())


def test_a_record_that_was_not_accepted_is_not_committed_around(scene):
    producer = scene.producer(max_request_size=500)

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await write(producer, b"x")
        with pytest.raises(ApiException):
            await write(producer, b"y" * 1000)
        with pytest.raises(ApiException, match="in an error state") as failure:
            await producer.commit_transaction()
        assert failure.value.error is Errors.MESSAGE_TOO_LARGE
        await producer.abort_transaction()
        await producer.begin_transaction()
        await write(producer, b"z")
        await producer.commit_transaction()

    scene.run(story())
    assert scene.coordinator.calls[-1] == "commit" and scene.coordinator.calls.count("commit") == 1
    scene.run(producer.close())
