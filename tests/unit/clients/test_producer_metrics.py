"""What a producer measures of its requests and calls, on the simulated clock."""

from __future__ import annotations

import math

import pytest
from support.clients.producers import P0, outcomes, producer_of, run_of, send_all
from support.clients.scripted_logs import LOSE
from support.clients.transaction_scene import TransactionScene

from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.wire.api_keys import ApiKeys

SLOW_MS = 700


def answering_after(cluster, delay_ms, *, throttle_ms=0):
    """Brokers answer a Produce request after so long."""
    answer = cluster.handlers[ApiKeys.PRODUCE]

    async def slow(node_id, request):
        await cluster.world.node(f"broker-{node_id}").runtime.sleep_ms(delay_ms)
        response = answer(node_id, request)
        if hasattr(response, "__await__"):  # it was slow before
            response = await response
        response.throttle_time_ms = throttle_ms
        return response

    cluster.handlers[ApiKeys.PRODUCE] = slow


def test_a_slow_broker_raises_the_latency_of_all_and_of_its_own(cluster):
    producer = producer_of(cluster, linger_ms=0)
    assert math.isnan(dict(producer.readings())["request-latency-avg"]), "nothing was answered yet"

    async def story():
        await producer.send(ProducerRecord("t", b"v", partition=0))
        await producer.flush()
        quick = dict(producer.readings())["request-latency-max"]
        answering_after(cluster, SLOW_MS)
        await producer.send(ProducerRecord("t", b"v", partition=1))
        await producer.flush()
        return quick

    quick = cluster.run(story())
    found = dict(producer.readings())
    assert quick < SLOW_MS <= found["request-latency-max"] < 2 * SLOW_MS
    assert found["request-latency-avg"] == pytest.approx((quick + found["request-latency-max"]) / 2)
    nodes = {node_id: dict(readings) for node_id, readings in producer.node_readings()}
    assert nodes[0]["request-latency-max"] == quick and nodes[1]["request-latency-avg"] == found["request-latency-max"]
    assert 2 not in nodes, "a broker that was not asked has no latency"
    cluster.run(producer.close())


def test_answers_of_a_burst_have_a_latency_each(cluster):
    """Whole batches leave several requests at a time."""
    producer = producer_of(cluster, linger_ms=0)
    seen = []
    answering_after(cluster, 100)

    async def story():
        await producer.send_run(P0, run_of(4), lambda *_: None)
        await producer.flush()  # a broker that does not know the producer gets one batch at a time
        await producer.send_run(P0, run_of(3, 4, 5), lambda *_: None)
        await cluster.runtime.sleep_ms(20)
        seen.append(dict(producer.readings()))
        await producer.flush()

    cluster.run(story())
    found = dict(producer.readings())
    assert seen[0]["requests-in-flight"] == 3 and found["requests-in-flight"] == 0
    assert found["records-per-request-avg"] == 4
    sizes = [batch.size_in_bytes for batch in run_of(4, 3, 4, 5)]
    assert (found["batch-size-avg"], found["batch-size-max"]) == (sum(sizes) / 4, max(sizes))
    assert 100 <= found["request-latency-avg"] < found["request-latency-max"] < 500, "they are answered one after the other"
    cluster.run(producer.close())


def test_queue_time_is_from_the_making_of_a_batch_until_it_leaves(cluster):
    producer = producer_of(cluster, linger_ms=300)

    async def story():
        await producer.partitions_for("t")
        await producer.send(ProducerRecord("t", b"v", partition=0))
        await cluster.runtime.sleep_ms(1_000)

    cluster.run(story())
    assert 300 <= dict(producer.readings())["record-queue-time-max"] <= 400
    cluster.run(producer.close())


def test_throttling_is_what_brokers_say(cluster):
    producer = producer_of(cluster, linger_ms=0)

    async def story():
        await (await producer.send(ProducerRecord("t", b"v", partition=0)))
        answering_after(cluster, 0, throttle_ms=90)
        await (await producer.send(ProducerRecord("t", b"v", partition=0)))

    cluster.run(story())
    found = dict(producer.readings())
    assert (found["produce-throttle-time-avg"], found["produce-throttle-time-max"]) == (45, 90)
    cluster.run(producer.close())


def test_retries_and_errors_count_records(cluster):
    producer = producer_of(cluster, linger_ms=50, retries=1)
    faults = [Errors.NOT_ENOUGH_REPLICAS]
    cluster.logs.fault = lambda *_: faults.pop() if faults else None

    async def story():
        retried = await outcomes(await send_all(producer, 3))
        faults.append(Errors.TOPIC_AUTHORIZATION_FAILED)
        return retried, await outcomes(await send_all(producer, 2))

    retried, refused = cluster.run(story())
    assert all(hasattr(one, "offset") for one in retried) and refused == [Errors.TOPIC_AUTHORIZATION_FAILED] * 2
    found = dict(producer.readings())
    assert (found["record-retry-total"], found["record-error-total"], found["record-send-total"]) == (3, 2, 8)
    assert found["record-retry-rate"] > 0 and found["record-error-rate"] > 0 and found["batch-split-total"] == 0
    cluster.run(producer.close())


def test_a_batch_that_is_too_large_is_split(cluster):
    producer = producer_of(cluster, linger_ms=50)
    cluster.logs.fault = lambda _, __, batch: Errors.MESSAGE_TOO_LARGE if batch.record_count > 2 else None

    async def story():
        return await outcomes(await send_all(producer, 4))

    cluster.run(story())
    assert dict(producer.readings())["batch-split-total"] >= 1
    cluster.run(producer.close())


def test_a_request_that_nobody_answers_has_no_latency(cluster):
    producer = producer_of(cluster, linger_ms=0, request_timeout_ms=200, delivery_timeout_ms=500)
    cluster.logs.fault = lambda *_: LOSE

    async def story():
        return await outcomes(await send_all(producer, 1))

    cluster.run(story())
    assert math.isnan(dict(producer.readings())["request-latency-max"])
    assert dict(producer.readings())["record-error-total"] == 1
    cluster.run(producer.close())


def test_who_waits_for_memory_and_metadata_is_counted(cluster):
    producer = producer_of(cluster, linger_ms=0, buffer_memory=2_000, batch_size=2_000, max_block_ms=400)
    answering_after(cluster, 300)

    async def story():
        await producer.send(ProducerRecord("t", b"v", partition=0))
        await producer.send(ProducerRecord("t", b"v", partition=1))  # waits until the first one is written
        await producer.flush()
        answering_after(cluster, 500)
        await producer.send(ProducerRecord("t", b"v", partition=0))
        with pytest.raises(ApiException, match="Failed to allocate"):
            await producer.send(ProducerRecord("t", b"v", partition=1))
        with pytest.raises(ApiException, match="not present in metadata"):
            await producer.partitions_for("missing")

    cluster.run(story())
    found = dict(producer.readings())
    assert found["bufferpool-wait-time-ns-total"] >= 650_000_000 and found["buffer-exhausted-total"] == 1
    assert found["metadata-wait-time-ns-total"] >= 400_000_000
    assert 0 < found["bufferpool-wait-ratio"] < 1
    assert found["flush-time-ns-total"] >= 300_000_000
    cluster.run(producer.close())


def test_metadata_has_an_age_once_a_broker_has_answered(cluster):
    producer = producer_of(cluster)
    assert math.isnan(dict(producer.readings())["metadata-age"])
    cluster.run(producer.partitions_for("t"))
    young = dict(producer.readings())["metadata-age"]
    cluster.run_ms(5_000)
    assert dict(producer.readings())["metadata-age"] == pytest.approx(young + 5)
    cluster.run(producer.close())


def test_calls_of_transactions_take_time():
    scene = TransactionScene(2)
    producer = scene.producer()
    names = [f"txn-{call}-time-ns-total" for call in ("init", "commit", "abort")]

    async def story():
        before = dict(producer.readings())
        await producer.init_transactions()
        for ends in (producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            await producer.send(ProducerRecord("t", b"v", partition=0))
            await ends()
        return before

    before = scene.run(story())
    after = dict(producer.readings())
    assert all(before[name] == 0 < after[name] for name in names)
    assert after["txn-send-offsets-time-ns-total"] == 0, "nobody sent any"
    scene.run(producer.close())
    scene.cluster.close()
