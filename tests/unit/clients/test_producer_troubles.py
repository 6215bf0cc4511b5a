"""`KafkaProducer` when topics are made anew, batches expire out of their order, callbacks fail and the
producer is closed twice.
"""

from __future__ import annotations

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import ScriptedLogs

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


@pytest.fixture
def cluster():
    cluster = ScriptedCluster(3)
    cluster.topics["t"] = ScriptedTopic({0: 0, 1: 1, 2: 2}, topic_id=Uuid(b"1" * 16))
    cluster.logs = ScriptedLogs(cluster)
    yield cluster
    cluster.close()


def producer_of(cluster, **settings):
    async def made():
        return KafkaProducer(cluster.runtime, cluster.props(0, 1, 2, **settings))

    return cluster.run(made())


async def send_all(producer, count, *, partition=0, start=0, topic="t"):
    return [await producer.send(ProducerRecord(topic, b"%06d" % number, partition=partition)) for number in range(start, start + count)]


async def outcomes(sent):
    found = []
    for future in sent:
        try:
            found.append((await future).offset)
        except ApiException as error:
            found.append(error.error)
    return found


def expected(count, start=0):
    return [b"%06d" % number for number in range(start, start + count)]


def make_anew(cluster, *, partitions=3):
    cluster.topics["t"] = ScriptedTopic({number: number for number in range(partitions)}, topic_id=Uuid(b"2" * 16))
    cluster.logs.logs.clear()
    cluster.logs.take_any_first = True


def test_an_answer_about_a_topic_that_was_made_anew_meanwhile_is_understood(cluster):
    """The answer names the old id, which the metadata does not know any more."""
    producer = producer_of(cluster, linger_ms=0)
    answer = cluster.handlers[ApiKeys.PRODUCE]

    async def slow(node_id, request):
        """The broker answers when the topic is gone and everybody knows it."""
        while cluster.topics["t"].topic_id == request.topic_data[0].topic_id:
            await cluster.world.node(f"broker-{node_id}").runtime.sleep_ms(10)
        await cluster.world.node(f"broker-{node_id}").runtime.sleep_ms(500)
        rows = [
            TopicProduceResponse(
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=part.index, error_code=Errors.UNKNOWN_TOPIC_ID) for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        cluster.handlers[ApiKeys.PRODUCE] = answer
        return ProduceResponse(responses=rows)

    async def story():
        await producer.partitions_for("t")
        cluster.handlers[ApiKeys.PRODUCE] = slow
        sent = await send_all(producer, 3)
        await cluster.runtime.sleep_ms(50)
        make_anew(cluster)
        await producer.cluster.request_update(["t"])
        return await outcomes(sent)

    assert cluster.run(story()) == [0, 1, 2]
    assert cluster.logs.values("t") == expected(3)
    cluster.run(producer.close())


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_a_topic_made_anew_gets_what_was_not_written_in_order(cluster, lost):
    """A broker takes any sequence from a producer that it does not know. If the first batch to the new
    topic fails once more, no later one may be written before it.
    """
    producer = producer_of(cluster, linger_ms=0, batch_size=100, request_timeout_ms=1_000)
    faults = []

    def fault(node_id, partition, batch):
        faults.append(batch.base_sequence)
        return Errors.UNKNOWN_TOPIC_OR_PARTITION if len(faults) <= lost else None

    async def story():
        await outcomes(await send_all(producer, 20))
        make_anew(cluster)
        cluster.logs.fault = fault
        return await outcomes(await send_all(producer, 40, start=20))

    assert cluster.run(story()) == list(range(40))
    assert cluster.logs.values("t") == expected(40, start=20)
    cluster.run(producer.close())


def test_no_later_batch_is_the_first_in_a_topic_made_anew(cluster):
    """As above, but the later batch is sent for the first time, right behind the one that is repeated."""
    producer = producer_of(cluster, linger_ms=0)
    refused = []

    def refuse_the_repeated(node_id, partition, batch):
        refused.append(batch.base_sequence)
        return Errors.UNKNOWN_TOPIC_OR_PARTITION if len(refused) == 1 else None

    async def story():
        await outcomes(await send_all(producer, 3))
        make_anew(cluster)
        cluster.logs.fault = refuse_the_repeated
        sent = await send_all(producer, 1, start=3)
        while not any(batch.attempts for batch in producer._accumulator.incomplete):
            await cluster.runtime.sleep_ms(1)
        sent += await send_all(producer, 3, start=4)
        return await outcomes(sent)

    assert cluster.run(story()) == [0, 1, 2, 3]
    assert cluster.logs.values("t") == expected(4, start=3)
    cluster.run(producer.close())


def test_records_for_a_partition_that_is_gone_fail_in_time_and_others_go_on(cluster):
    producer = producer_of(cluster, linger_ms=0, delivery_timeout_ms=3_000, request_timeout_ms=1_000)

    async def story():
        await producer.partitions_for("t")
        cluster.logs.fault = lambda node_id, partition, batch: Errors.NOT_ENOUGH_REPLICAS
        sent = [(await send_all(producer, 1, partition=number))[0] for number in range(3)]
        await cluster.runtime.sleep_ms(100)
        make_anew(cluster, partitions=1)
        cluster.logs.fault = lambda node_id, partition, batch: None
        await producer.cluster.request_update(["t"])
        for _ in range(20):
            await producer.send(ProducerRecord("t", b"more", key=None))
        return await outcomes(sent)

    assert cluster.run(story()) == [0, Errors.REQUEST_TIMED_OUT, Errors.REQUEST_TIMED_OUT]
    cluster.run(producer.close())
