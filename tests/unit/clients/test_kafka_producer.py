"""`KafkaProducer` and its records, against scripted brokers on the simulated network."""

from __future__ import annotations

import pytest
from support.clients.producers import P0, batch_of, expected, outcomes, producer_of, send_all
from support.clients.scripted_logs import APPEND_THEN_LOSE, LOSE

from kmirror.clients.kafka_producer import IllegalStateError, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import RecordBatch
from kmirror.wire.api_keys import ApiKeys


@pytest.mark.parametrize("highest", [3, 6, 7, 8, 9, 11, 12, 13])
def test_records_are_written_in_order_in_every_version(cluster, highest):
    cluster.ranges[ApiKeys.PRODUCE] = (3, highest)
    producer = producer_of(cluster)

    async def story():
        sent = await send_all(producer, 200)
        await producer.flush()
        return [await one for one in sent]

    metadata = cluster.run(story())
    assert [one.offset for one in metadata] == list(range(200))
    assert cluster.logs.values("t") == expected(200)
    cluster.run(producer.close())


@pytest.mark.parametrize("codec", list(CompressionType))
def test_every_codec_with_headers_and_nulls(cluster, codec):
    producer = producer_of(cluster, compression_type=codec.text)

    async def story():
        first = await producer.send(ProducerRecord("t", None, key=b"k", headers=[("a", b"1"), ("a", None)], partition=0, timestamp=7))
        second = await producer.send(ProducerRecord("t", b"v" * 1000, partition=0, timestamp=3))
        return await first, await second

    first, second = cluster.run(story())
    assert (first.offset, first.timestamp, second.offset) == (0, 7, 1)
    (batch,) = cluster.logs.log("t").batches
    assert batch.compression is codec and (batch.base_timestamp, batch.max_timestamp) == (7, 7)
    records = list(batch.records())
    assert records[0].headers == [("a", b"1"), ("a", None)] and records[0].value is None and bytes(records[0].key) == b"k"
    cluster.run(producer.close())


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(cluster, acks):
    producer = producer_of(cluster, acks=acks)

    async def story():
        sent = await send_all(producer, 5)
        return [(await one).offset for one in sent]

    assert cluster.run(story()) == ([-1] * 5 if acks == "0" else [0, 1, 2, 3, 4])
    cluster.run_ms(100)
    assert {request.acks for _, request in cluster.asked(ApiKeys.PRODUCE)} == {-1 if acks == "all" else int(acks)}
    assert cluster.logs.values("t") == expected(5)
    cluster.run(producer.close())


def test_a_request_takes_all_ready_partitions_of_a_leader(cluster):
    cluster.topics["t"].leaders = {0: 1, 1: 1, 2: 1}
    producer = producer_of(cluster)

    async def story():
        for partition in range(3):
            await producer.send(ProducerRecord("t", b"v", partition=partition))
        await producer.flush()

    cluster.run(story())
    ((node_id, request),) = cluster.asked(ApiKeys.PRODUCE)
    assert node_id == 1 and [part.index for part in request.topic_data[0].partition_data] == [0, 1, 2]
    cluster.run(producer.close())


def test_linger_keeps_records_until_the_batch_is_old_or_full(cluster):
    producer = producer_of(cluster, linger_ms=500, batch_size=1000)
    cluster.run(producer.partitions_for("t"))
    cluster.run(send_all(producer, 3))
    cluster.run_ms(400)
    assert cluster.logs.values("t") == []
    cluster.run_ms(200)
    assert cluster.logs.values("t") == expected(3)
    cluster.run(send_all(producer, 200, start=3))
    cluster.run_ms(100)
    assert 100 < len(cluster.logs.values("t")) < 203
    cluster.run(producer.close())
    assert cluster.logs.values("t") == expected(203)


@pytest.mark.parametrize("fault", [LOSE, APPEND_THEN_LOSE, Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_LEADER_OR_FOLLOWER])
def test_a_retry_writes_every_record_once_and_in_order(cluster, fault):
    """A safeguard of this: a batch keeps its sequence over a retry."""
    seen = []

    def once(node_id, partition, batch):
        seen.append(batch.base_sequence)
        return fault if len(seen) in (2, 3) else None

    cluster.logs.fault = once
    producer = producer_of(cluster, batch_size=300, request_timeout_ms=1_000)

    async def story():
        sent = await send_all(producer, 100)
        return [(await one).offset for one in sent]

    assert cluster.run(story()) == list(range(100))
    assert cluster.logs.values("t") == expected(100)
    cluster.run(producer.close())


def test_a_leader_that_moves_is_followed(cluster):
    producer = producer_of(cluster)
    cluster.run(outcomes(cluster.run(send_all(producer, 1))))
    cluster.topics["t"].leaders[0], cluster.topics["t"].epochs[0] = 2, 1
    assert [one.offset for one in cluster.run(outcomes(cluster.run(send_all(producer, 10, start=1))))] == list(range(1, 11))
    assert cluster.logs.values("t") == expected(11)
    cluster.run(producer.close())


def test_a_batch_that_is_too_large_for_the_broker_is_split(cluster):
    cluster.logs.log("t").max_batch_bytes = 500
    producer = producer_of(cluster, linger_ms=50)
    found = cluster.run(outcomes(cluster.run(send_all(producer, 300))))
    assert [one.offset for one in found] == list(range(300))
    assert cluster.logs.values("t") == expected(300)
    cluster.run(producer.close())


def test_one_record_that_is_too_large_for_the_broker_fails_and_the_others_do_not(cluster):
    cluster.logs.log("t").max_batch_bytes = 500
    producer = producer_of(cluster, linger_ms=50)

    async def story():
        sent = await send_all(producer, 3)
        sent.append(await producer.send(ProducerRecord("t", b"x" * 1000, partition=0)))
        sent += await send_all(producer, 3, start=3)
        return await outcomes(sent)

    found = cluster.run(story())
    assert found[3] is Errors.MESSAGE_TOO_LARGE
    assert [one.offset for one in found[:3] + found[4:]] == [0, 1, 2, 3, 4, 5]
    assert cluster.logs.values("t") == expected(6)
    cluster.run(producer.close())


def test_a_record_above_max_request_size_is_refused_with_kafkas_text(cluster):
    producer = producer_of(cluster, max_request_size=1000)
    text = "larger than 1000, which is the value of the max.request.size configuration."
    with pytest.raises(ApiException, match=text) as failure:
        cluster.run(producer.send(ProducerRecord("t", b"x" * 2000)))
    assert failure.value.error is Errors.MESSAGE_TOO_LARGE
    cluster.run(producer.close())


def test_a_definite_failure_leaves_no_gap(cluster):
    """The batch is refused for good; those behind it are written under the next epoch."""
    cluster.logs.fault = lambda node_id, partition, batch: (
        Errors.INVALID_RECORD if batch.base_sequence == 0 and not batch.producer_epoch else None
    )
    producer = producer_of(cluster, batch_size=200)
    found = cluster.run(outcomes(cluster.run(send_all(producer, 40))))
    lost = [index for index, one in enumerate(found) if one is Errors.INVALID_RECORD]
    assert lost and lost == list(range(len(lost))) and len(lost) < 40
    assert cluster.logs.values("t") == expected(40 - len(lost), start=len(lost))
    assert {batch.producer_epoch for batch in cluster.logs.log("t").batches} == {1}
    cluster.run(producer.close())


def test_a_broker_that_lost_the_producers_state_gets_new_sequences(cluster):
    producer = producer_of(cluster, batch_size=200)
    cluster.run(outcomes(cluster.run(send_all(producer, 20))))
    cluster.logs.log("t").producers.clear()
    found = cluster.run(outcomes(cluster.run(send_all(producer, 20, start=20))))
    assert [one.offset for one in found] == list(range(20, 40))
    assert cluster.logs.values("t") == expected(40)
    cluster.run(producer.close())


def test_an_unreachable_leader_ends_sends_after_the_delivery_timeout(cluster):
    producer = producer_of(cluster, delivery_timeout_ms=3_000, request_timeout_ms=1_000, linger_ms=0)
    cluster.run(producer.partitions_for("t"))
    cluster.stop(0)
    began = cluster.runtime.clock.monotonic_ms()
    sent = cluster.run(send_all(producer, 3))

    async def fails():
        with pytest.raises(ApiException, match=r"Expiring 3 record\(s\) for t-0:\d+ ms has passed since batch creation") as failure:
            await sent[0]
        return failure.value.error

    assert cluster.run(fails()) is Errors.REQUEST_TIMED_OUT
    assert 3_000 <= cluster.runtime.clock.monotonic_ms() - began <= 3_500
    cluster.start(0)
    assert [one.offset for one in cluster.run(outcomes(cluster.run(send_all(producer, 2))))] == [0, 1]
    cluster.run(producer.close())


def test_an_unknown_topic_or_partition_times_out_with_kafkas_text(cluster):
    producer = producer_of(cluster, max_block_ms=500)
    with pytest.raises(ApiException, match=r"Topic none not present in metadata after 500 ms\."):
        cluster.run(producer.send(ProducerRecord("none", b"v")))
    text = r"Partition 7 of topic t with partition count 3 is not present in metadata after 500 ms\."
    with pytest.raises(ApiException, match=text):
        cluster.run(producer.send(ProducerRecord("t", b"v", partition=7)))
    cluster.run(producer.close())


def test_a_full_buffer_blocks_and_then_fails_with_kafkas_text(cluster):
    producer = producer_of(cluster, buffer_memory=40_000, batch_size=16_000, max_block_ms=400, linger_ms=0)
    cluster.run(producer.partitions_for("t"))
    for node_id in range(3):
        cluster.stop(node_id)

    async def story():
        for partition in range(2):
            await producer.send(ProducerRecord("t", b"v", partition=partition))
        await producer.send(ProducerRecord("t", b"v", partition=2))

    text = (
        r"Failed to allocate 16000 bytes within the configured max blocking time 400 ms\. Total memory: 40000 bytes\. "
        r"Available memory: 8000 bytes\. Poolable size: 16000 bytes"
    )
    with pytest.raises(ApiException, match=text):
        cluster.run(story())
    cluster.run(producer.close(timeout_ms=100))


def test_memory_that_becomes_free_goes_to_those_who_wait(cluster):
    producer = producer_of(cluster, buffer_memory=2_000, batch_size=1_000, linger_ms=0)
    found = cluster.run(outcomes(cluster.run(send_all(producer, 500))))
    assert [one.offset for one in found] == list(range(500))
    assert producer._accumulator.pool.free == 2_000
    cluster.run(producer.close())


def test_closing_fails_what_cannot_be_sent_and_a_closed_producer_refuses(cluster):
    producer = producer_of(cluster)
    cluster.run(producer.partitions_for("t"))
    cluster.stop(0)
    (sent,) = cluster.run(send_all(producer, 1))
    cluster.run(producer.close(timeout_ms=300))

    async def outcome():
        await sent

    with pytest.raises(IllegalStateError, match="closed forcefully"):
        cluster.run(outcome())
    with pytest.raises(IllegalStateError, match="Cannot perform operation after producer has been closed"):
        cluster.run(producer.send(ProducerRecord("t", b"v")))


def test_the_second_batch_waits_until_a_broker_knows_the_producer(cluster):
    """A broker without a word of the producer takes any sequence for its first (Kafka's
    `ProducerAppendInfo`), so a second batch could be written where the first was refused.
    """
    producer = producer_of(cluster)
    in_flight = []
    handle = cluster.logs._append

    def append(*arguments, **options):
        in_flight.append(len(producer._sender._on_wire))
        return handle(*arguments, **options)

    cluster.logs._append = append

    async def story():
        sent = [await producer.send_batch(P0, bytes(batch_of(10, start=10 * number))) for number in range(20)]
        return [(await one).offset for one in sent]

    assert cluster.run(story()) == list(range(0, 200, 10))
    assert in_flight[0] == 1 and max(in_flight) > 1
    cluster.run(producer.close())


def test_a_closed_producer_has_nothing_to_flush(cluster):
    """Java's `flush` does not look whether the producer is closed."""
    producer = producer_of(cluster)
    cluster.run(send_all(producer, 3))
    cluster.run(producer.close())
    cluster.run(producer.flush())
    assert cluster.logs.values("t") == expected(3)


def test_a_topic_that_we_may_not_write_to_fails_its_sends(cluster):
    producer = producer_of(cluster)
    cluster.logs.fault = lambda node_id, partition, batch: Errors.TOPIC_AUTHORIZATION_FAILED
    (sent,) = cluster.run(send_all(producer, 1))

    async def outcome():
        await sent

    with pytest.raises(ApiException, match=r"Not authorized to access topics: \[t\]"):
        cluster.run(outcome())
    cluster.run(producer.close())


def test_at_most_the_configured_requests_are_in_flight(cluster):
    running, most = {}, {}

    async def slow(node_id, request):
        running[node_id] = running.get(node_id, 0) + 1
        most[node_id] = max(most.get(node_id, 0), len(producer._sender._on_wire))
        response = cluster.logs._produce(node_id, request)
        running[node_id] -= 1
        return response

    cluster.handlers[ApiKeys.PRODUCE] = slow
    producer = producer_of(cluster, batch_size=100, max_in_flight_requests_per_connection=2, linger_ms=0)
    cluster.run(outcomes(cluster.run(send_all(producer, 100))))
    assert most == {0: 2}
    cluster.run(producer.close())


def test_requests_reach_a_broker_in_the_order_of_their_sequences(cluster):
    """They were written by tasks of their own, which need not start in the order in which they were
    made.
    """
    producer = producer_of(cluster)
    sequences = []
    handle = cluster.logs._append

    def append(node_id, partition, records):
        sequences.append(RecordBatch(bytes(records)).base_sequence)
        return handle(node_id, partition, records)

    cluster.logs._append = append

    async def story():
        await (await producer.send_batch(P0, bytes(batch_of(1))))
        sent = [await producer.send_batch(P0, bytes(batch_of(10))) for _ in range(200)]
        return [await one for one in sent]

    cluster.run(story())
    assert len(sequences) == 201 and sequences == sorted(sequences)
    cluster.run(producer.close())


def test_a_leader_that_cannot_be_reached_costs_no_attempt(cluster):
    """As in Kafka: a batch stays in its queue until its leader can be reached, even without retries."""
    producer = producer_of(cluster, retries=0, enable_idempotence="false")
    cluster.run(outcomes(cluster.run(send_all(producer, 1))))
    cluster.stop(0)

    async def story():
        sent = await send_all(producer, 3, start=1)
        await cluster.runtime.sleep_ms(2_000)
        return sent, [one.done() for one in sent]

    sent, done = cluster.run(story())
    assert done == [False] * 3
    cluster.start(0)
    assert [one.offset for one in cluster.run(outcomes(sent))] == [1, 2, 3]
    cluster.run(producer.close())


def test_callbacks_hear_of_every_outcome_and_may_fail(cluster):
    producer = producer_of(cluster)
    heard = []

    def callback(metadata, error):
        heard.append((metadata.offset if metadata else None, error))
        raise ValueError("the application's own")

    async def story():
        for _ in range(3):
            await producer.send(ProducerRecord("t", b"v", partition=0), callback)
        await producer.flush()

    cluster.run(story())
    assert heard == [(0, None), (1, None), (2, None)]
    cluster.run(producer.close())


def test_what_keeps_records_from_being_written_is_told_while_they_wait(cluster):
    """NOT_ENOUGH_REPLICAS can last for hours, and max.block.ms can be for ever."""
    producer = producer_of(cluster, max_block_ms=1 << 40)
    assert producer.trouble() is None
    cluster.logs.fault = lambda node_id, partition, batch: Errors.NOT_ENOUGH_REPLICAS
    (sent,) = cluster.run(send_all(producer, 1))
    cluster.run_ms(500)
    assert "t-0: NOT_ENOUGH_REPLICAS" in producer.trouble()
    cluster.logs.fault = lambda node_id, partition, batch: None
    assert cluster.run(outcomes([sent]))[0].offset == 0
    assert producer.trouble() is None

    for where, trouble in (
        (ProducerRecord("nowhere", b"v"), "Topic nowhere"),
        (ProducerRecord("t", b"v", partition=9), "Partition 9 of topic t"),
    ):
        waiting = cluster.runtime.spawn(producer.send(where), name="send")
        cluster.run_ms(500)
        assert producer.trouble().startswith(trouble) and "not present in metadata after" in producer.trouble()
        waiting.cancel()
        cluster.run_ms(1)
        assert producer.trouble() is None
    cluster.run(producer.close())


def test_a_partition_without_a_leader_is_told_while_records_wait_for_it(cluster):
    producer = producer_of(cluster)
    cluster.run(outcomes(cluster.run(send_all(producer, 1))))
    cluster.topics["t"].leaders[0] = -1
    sent = cluster.run(send_all(producer, 1))
    cluster.run_ms(1_000)
    assert producer.trouble() is not None and "t-0" in producer.trouble()
    cluster.topics["t"].leaders[0] = 1
    cluster.run(outcomes(sent))
    assert producer.trouble() is None
    cluster.run(producer.close())
