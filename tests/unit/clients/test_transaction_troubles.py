"""Transactions of `KafkaProducer` whose calls are given up, fail halfway or overtake each other, against
a scripted coordinator.
"""

from __future__ import annotations

import asyncio
import struct

import pytest
from support.clients.scripted_cluster import NO_ANSWER, ScriptedTopic
from support.clients.transaction_scene import TransactionScene

from kmirror.clients.cluster_client import TRANSACTION
from kmirror.clients.kafka_producer import ConsumerGroupMetadata, OffsetAndMetadata, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

GROUP = ConsumerGroupMetadata("g")


def made_scene(version):
    return TransactionScene(version, brokers=3, leaders=(0, 0))


def answer_offsets_late(scene, ms):
    """The group's coordinator takes its time."""
    answer = scene.cluster.handlers[ApiKeys.TXN_OFFSET_COMMIT]
    runtime = scene.cluster.world.node("broker-1").runtime

    async def slow(node_id, request):
        await runtime.sleep_ms(ms)
        return answer(node_id, request)

    scene.cluster.handlers[ApiKeys.TXN_OFFSET_COMMIT] = slow


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def scene(request):
    scene = made_scene(request.param)
    yield scene
    scene.cluster.close()


@pytest.fixture
def scene_v1():
    scene = made_scene(1)
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


def test_an_abort_waits_for_partitions_that_are_being_added(scene_v1):
    """The coordinator would otherwise open a transaction that nobody ends, and fence the producer
    when its time is up.
    """
    producer = scene_v1.producer(linger_ms=0)
    add = scene_v1.cluster.handlers[ApiKeys.ADD_PARTITIONS_TO_TXN]
    runtime = scene_v1.cluster.world.node("broker-1").runtime

    async def slow(node_id, request):
        await runtime.sleep_ms(2_000)
        return add(node_id, request)

    scene_v1.cluster.handlers[ApiKeys.ADD_PARTITIONS_TO_TXN] = slow

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await write(producer, b"x")
        await scene_v1.cluster.runtime.sleep_ms(200)
        await producer.abort_transaction()
        await scene_v1.cluster.runtime.sleep_ms(5_000)

    scene_v1.run(story())
    assert scene_v1.coordinator.calls == ["init", "add", "abort"]
    scene_v1.run(producer.close())


def test_a_partition_that_can_never_be_added_does_not_stop_later_transactions(scene_v1):
    """Its topic was deleted: the request was repeated for ever, and nothing else was added."""
    producer = scene_v1.producer(linger_ms=0, delivery_timeout_ms=3_000, request_timeout_ms=1_000, max_block_ms=20_000)
    scene_v1.cluster.topics["u"] = ScriptedTopic({0: 0})
    add = scene_v1.cluster.handlers[ApiKeys.ADD_PARTITIONS_TO_TXN]

    def without_u(node_id, request):
        if any(topic.name == "u" for topic in request.v3_and_below_topics):
            scene_v1.coordinator.fail(ApiKeys.ADD_PARTITIONS_TO_TXN, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return add(node_id, request)

    scene_v1.cluster.handlers[ApiKeys.ADD_PARTITIONS_TO_TXN] = without_u

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send(ProducerRecord("u", b"x", partition=0))
        with pytest.raises(ApiException):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await write(producer, b"y")
        await producer.commit_transaction()

    scene_v1.run(story())
    assert scene_v1.logs.values("t") == [b"y"]
    scene_v1.run(producer.close())


def test_a_partition_that_is_new_to_the_coordinator_does_not_fail_the_others(scene_v1):
    """The coordinator's broker does not know the topic yet, and says of the other partition that it
    was not attempted.
    """
    producer = scene_v1.producer(linger_ms=0)
    add = scene_v1.cluster.handlers[ApiKeys.ADD_PARTITIONS_TO_TXN]
    asked = []

    def at_first_unknown(node_id, request):
        (topic,) = request.v3_and_below_topics
        asked.append(sorted(topic.partitions))
        if asked.count([0, 1]) != 1 or len(topic.partitions) < 2:
            return add(node_id, request)
        errors = {0: Errors.OPERATION_NOT_ATTEMPTED, 1: Errors.UNKNOWN_TOPIC_OR_PARTITION}
        rows = [AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=errors[one]) for one in topic.partitions]
        result = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[result])

    scene_v1.cluster.handlers[ApiKeys.ADD_PARTITIONS_TO_TXN] = at_first_unknown

    async def story():
        await producer.init_transactions()
        await producer.partitions_for("t")
        await producer.begin_transaction()
        await write(producer, b"x", partition=0)
        await write(producer, b"x", partition=1)
        await producer.commit_transaction()

    scene_v1.run(story())
    assert asked == [[0, 1], [0, 1]]
    assert scene_v1.logs.values("t", 0) == scene_v1.logs.values("t", 1) == [b"x"]
    scene_v1.run(producer.close())


def test_other_offsets_after_a_call_that_was_given_up_are_sent_too(scene):
    producer = scene.producer()
    answer_offsets_late(scene, 1_000)

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await given_up(producer.send_offsets_to_transaction({TopicPartition("src", 0): OffsetAndMetadata(1)}, GROUP), 500)
        await producer.send_offsets_to_transaction({TopicPartition("src", 0): OffsetAndMetadata(2)}, GROUP)
        await given_up(producer.send_offsets_to_transaction({TopicPartition("src", 0): OffsetAndMetadata(3)}, GROUP), 500)
        await scene.cluster.runtime.sleep_ms(3_000)
        await producer.send_offsets_to_transaction({TopicPartition("src", 0): OffsetAndMetadata(4)}, GROUP)
        await producer.commit_transaction()

    scene.run(story())
    assert [offset for *_, offset in scene.coordinator.offsets] == [1, 2, 3, 4]
    scene.run(producer.close())


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_a_transaction_ends_after_offsets_that_were_given_up(scene, ending):
    """Kafka's producer may abort, or commit, while offsets are still being sent."""
    producer = scene.producer()
    answer_offsets_late(scene, 1_000)

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        await given_up(producer.send_offsets_to_transaction({TopicPartition("src", 0): OffsetAndMetadata(1)}, GROUP), 500)
        await (producer.commit_transaction() if ending == "commit" else producer.abort_transaction())

    scene.run(story())
    assert scene.coordinator.calls[-2:] == ["offsets", ending]
    scene.run(producer.close())


def test_offsets_that_failed_after_they_were_given_up_are_not_committed_around(scene):
    """What cannot be encoded is an error of the call alone, which the producer's state does not know."""
    producer = scene.producer()

    async def story():
        await producer.init_transactions()
        await producer.begin_transaction()
        sending = asyncio.ensure_future(producer.send_offsets_to_transaction({TopicPartition("src", 0): OffsetAndMetadata(1 << 70)}, GROUP))
        await asyncio.sleep(0)
        sending.cancel()
        await scene.cluster.runtime.sleep_ms(1_000)
        with pytest.raises(struct.error):
            await producer.commit_transaction()
        await producer.abort_transaction()

    scene.run(story())
    scene.run(producer.close())


def test_beginning_a_transaction_does_not_wait_for_a_silent_cluster(scene_v1):
    """It asks whether the cluster runs transactions of version 2 by now, which the next one can do too.
    Kafka's producer asks nobody then.
    """
    producer = scene_v1.producer(max_block_ms=500)
    scene_v1.run(producer.init_transactions())
    scene_v1.run(producer.partitions_for("t"))
    scene_v1.cluster.handlers[ApiKeys.FIND_COORDINATOR] = lambda node_id, request: NO_ANSWER
    producer.cluster.forget_coordinator("tx", TRANSACTION)

    async def story():
        async with asyncio.timeout(5):
            await producer.begin_transaction()
        del scene_v1.cluster.handlers[ApiKeys.FIND_COORDINATOR]
        await write(producer, b"x")
        for _ in range(200):
            try:
                await producer.commit_transaction()
                return
            except ApiException as error:
                assert error.error is Errors.REQUEST_TIMED_OUT

    scene_v1.run(story())
    assert scene_v1.logs.values("t") == [b"x"] and scene_v1.coordinator.calls[-1] == "commit"
    scene_v1.run(producer.close())
