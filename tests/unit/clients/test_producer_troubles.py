"""`KafkaProducer` when topics are made anew, batches expire out of their order, callbacks fail and the
producer is closed twice.
"""

from __future__ import annotations

import asyncio

import pytest
from support.clients.producers import expected, offsets_or_errors, producer_of, send_all
from support.clients.scripted_cluster import NO_ANSWER, ScriptedTopic
from support.clients.scripted_logs import LOSE

from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


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
        return await offsets_or_errors(sent)

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
        await offsets_or_errors(await send_all(producer, 20))
        make_anew(cluster)
        cluster.logs.fault = fault
        return await offsets_or_errors(await send_all(producer, 40, start=20))

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
        await offsets_or_errors(await send_all(producer, 3))
        make_anew(cluster)
        cluster.logs.fault = refuse_the_repeated
        sent = await send_all(producer, 1, start=3)
        while not any(batch.attempts for batch in producer._accumulator.incomplete):
            await cluster.runtime.sleep_ms(1)
        sent += await send_all(producer, 3, start=4)
        return await offsets_or_errors(sent)

    assert cluster.run(story()) == [0, 1, 2, 3]
    assert cluster.logs.values("t") == expected(4, start=3)
    cluster.run(producer.close())


def test_a_broker_that_has_forgotten_an_idle_producer_writes_nothing_out_of_order(cluster):
    """After producer.id.expiration.ms (a day) it takes any sequence for the first, as a new topic does."""
    producer = producer_of(cluster, linger_ms=0, batch_size=100)
    cluster.logs.take_any_first = True
    refused = []

    def refuse_the_first(node_id, partition, batch):
        refused.append(batch.base_sequence)
        return Errors.NOT_ENOUGH_REPLICAS if len(refused) == 1 else None

    async def story():
        await offsets_or_errors(await send_all(producer, 3))
        await cluster.runtime.sleep_ms(2 * 86_400_000)
        cluster.logs.log("t").producers.clear()
        cluster.logs.fault = refuse_the_first
        return await offsets_or_errors(await send_all(producer, 20, start=3))

    assert cluster.run(story()) == list(range(3, 23))
    assert cluster.logs.values("t") == expected(23)
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
        return await offsets_or_errors(sent)

    assert cluster.run(story()) == [0, Errors.REQUEST_TIMED_OUT, Errors.REQUEST_TIMED_OUT]
    cluster.run(producer.close())


def test_an_older_batch_behind_a_younger_one_expires_in_its_time(cluster):
    """Without sequences, retries of several requests come back in any order. The sender looked for
    late batches at the head of a queue only, and meanwhile did nothing else than look.
    """
    producer = producer_of(cluster, enable_idempotence="false", linger_ms=0, delivery_timeout_ms=3_000, request_timeout_ms=2_000)
    cluster.logs.fault = lambda node_id, partition, batch: Errors.NOT_ENOUGH_REPLICAS
    turns = []
    run_once = producer._sender.run_once

    def counted():
        turns.append(cluster.runtime.clock.monotonic_ms())
        return run_once()

    producer._sender.run_once = counted

    async def story():
        sent = await send_all(producer, 1)
        await cluster.runtime.sleep_ms(1)
        older = sent[0]._result
        await cluster.runtime.sleep_ms(900)
        sent += await send_all(producer, 1, start=1)
        while not any(len(queue) == 2 for queue in producer._accumulator.queues.values()):
            await cluster.runtime.sleep_ms(1)
        (queue,) = producer._accumulator.queues.values()
        if queue[0].result is older:
            queue.reverse()
        await offsets_or_errors(sent[:1])
        assert not sent[1].done()
        await offsets_or_errors(sent[1:])

    cluster.run(story())
    assert len(turns) < 200
    cluster.run(producer.close())


@pytest.mark.parametrize("failure", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize("is_run", [True, False])
def test_a_callback_that_fails_or_is_cancelled_stops_nothing(cluster, failure, is_run):
    """A callback that asks a cancelled future for its result raises CancelledError."""
    producer = producer_of(cluster, linger_ms=20)
    told = []

    def callback(*outcome):
        told.append(outcome)
        raise failure

    async def story():
        if is_run:
            batches = [RecordBatch(build_batch([Record(0, 1000, None, b"%d" % number, [])])) for number in range(3)]
            await producer.send_run(TopicPartition("t", 0), batches, callback)
        else:
            for number in range(3):
                await producer.send(ProducerRecord("t", b"%d" % number, partition=0), callback)
        await producer.flush()
        return await offsets_or_errors(await send_all(producer, 1))

    assert cluster.run(story()) == [3]
    assert len(told) == 3
    cluster.run(producer.close())


def test_closing_again_waits_for_the_first_close(cluster):
    producer = producer_of(cluster, linger_ms=0, request_timeout_ms=1_000)
    cluster.logs.fault = lambda node_id, partition, batch: LOSE

    async def story():
        sent = await send_all(producer, 1)
        first = asyncio.ensure_future(producer.close())
        await cluster.runtime.sleep_ms(100)
        assert not first.done()
        cluster.logs.fault = lambda node_id, partition, batch: None
        await producer.close()
        assert sent[0].done() and first.done()
        await first
        await producer.close()
        return await offsets_or_errors(sent)

    assert cluster.run(story()) == [0]


def test_closing_again_without_patience_ends_the_first_close(cluster):
    producer = producer_of(cluster, linger_ms=0)
    cluster.handlers[ApiKeys.PRODUCE] = lambda node_id, request: NO_ANSWER

    async def story():
        (sent,) = await send_all(producer, 1)
        first = asyncio.ensure_future(producer.close())
        await cluster.runtime.sleep_ms(100)
        await producer.close(timeout_ms=0)
        assert sent.done() and "closed forcefully" in str(sent.error())
        await first

    cluster.run(story())


def test_a_close_that_was_cancelled_can_be_called_again(cluster):
    producer = producer_of(cluster, linger_ms=0)
    cluster.handlers[ApiKeys.PRODUCE] = lambda node_id, request: NO_ANSWER

    async def story():
        (sent,) = await send_all(producer, 1)
        first = asyncio.ensure_future(producer.close())
        await cluster.runtime.sleep_ms(100)
        first.cancel()
        await producer.close()
        assert sent.done() and first.cancelled()

    cluster.run(story())


def test_a_callback_may_close_the_producer(cluster):
    producer = producer_of(cluster, linger_ms=0)
    closing = []

    async def story():
        def callback(metadata, error):
            closing.append(asyncio.ensure_future(producer.close()))

        sent = await producer.send(ProducerRecord("t", b"v", partition=0), callback)
        rest = await send_all(producer, 2)
        await sent
        await asyncio.gather(*closing)
        return [one.done() for one in rest]

    assert cluster.run(story()) == [True, True]
