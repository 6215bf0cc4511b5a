"""`KafkaProducer` and batches that come from elsewhere, one by one and in runs, against scripted brokers."""

from __future__ import annotations

import pytest
from support.clients.producers import P0, batch_of, expected, producer_of, run_of

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.wire.api_keys import ApiKeys


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batch_from_elsewhere_is_written_as_it_is(cluster, codec):
    producer = producer_of(cluster)
    batches = [
        bytes(batch_of(10, codec=codec, start=10 * number, producer_id=77, producer_epoch=3, base_sequence=4, is_transactional=True))
        for number in range(20)
    ]

    async def story():
        sent = [await producer.send_batch(P0, batch) for batch in batches]
        return [(await one).offset for one in sent]

    assert cluster.run(story()) == list(range(0, 200, 10))
    assert cluster.logs.values("t") == expected(200)
    written = cluster.logs.log("t").batches
    assert [bytes(one.memory[61:]) for one in written] == [batch[61:] for batch in batches]
    assert [one.base_sequence for one in written] == list(range(0, 200, 10))
    assert {(one.producer_id, one.producer_epoch, one.is_transactional) for one in written} == {(1001, 0, False)}
    cluster.run(producer.close())


def test_a_batch_from_elsewhere_that_is_too_large_for_the_broker_is_split_and_waited_for(cluster):
    cluster.logs.log("t").max_batch_bytes = 500
    producer = producer_of(cluster)

    async def story():
        first = await producer.send_batch(P0, bytes(batch_of(100)))
        second = await producer.send_batch(P0, bytes(batch_of(5, start=100)))
        return (await first).offset, (await second).offset

    assert cluster.run(story()) == (0, 100)
    assert cluster.logs.values("t") == expected(105)
    cluster.run(producer.close())


@pytest.mark.parametrize("highest", [3, 8, 9, 12, 13])
def test_a_run_is_written_in_order_and_each_batch_is_told(cluster, highest):
    """A backlog leaves in bursts; never more requests are on their way than is allowed."""
    cluster.ranges[ApiKeys.PRODUCE] = (3, highest)
    producer = producer_of(cluster)
    told, in_flight = [], []
    handle = cluster.logs._append

    def append(*arguments, **options):
        in_flight.append(len(producer._sender._on_wire))
        return handle(*arguments, **options)

    cluster.logs._append = append

    async def story():
        for number in range(3):
            batches = run_of(*[7] * 50, start=350 * number)
            await producer.send_run(P0, batches, lambda *outcome, number=number: told.append((number, *outcome)))
        await producer.flush()

    cluster.run(story())
    assert told == [(number, index, 350 * number + 7 * index, None) for number in range(3) for index in range(50)]
    assert cluster.logs.values("t") == expected(1050)
    assert [one.base_sequence for one in cluster.logs.log("t").batches] == list(range(0, 1050, 7))
    assert max(in_flight) == 5
    cluster.run(producer.close())


def test_a_run_is_accepted_as_a_whole_or_not_at_all(cluster):
    producer = producer_of(cluster, max_request_size=2_000)
    told = []
    large = run_of(1, start=4) + [RecordBatch(build_batch([Record(0, 1000, None, b"v" * 3_000, [])]))]
    with pytest.raises(ApiException, match="larger than 2000"):
        cluster.run(producer.send_run(P0, large, lambda *outcome: told.append(outcome)))
    with pytest.raises(ApiException, match="control batch"):
        cluster.run(producer.send_run(P0, run_of(2) + run_of(1, is_control=True), lambda *outcome: told.append(outcome)))
    cluster.run(producer.flush())
    assert told == [] and cluster.logs.values("t") == []
    cluster.run(producer.close())


def test_a_run_waits_for_memory_and_gives_it_back(cluster):
    batches = run_of(*[30] * 6)
    size = sum(batch.size_in_bytes for batch in batches)
    producer = producer_of(cluster, buffer_memory=size + 10, max_block_ms=5_000)
    told = []

    async def story():
        for _ in range(3):
            await producer.send_run(P0, batches, lambda *outcome: told.append(outcome))
        await producer.flush()

    cluster.run(story())
    assert [offset for _, offset, _ in told] == list(range(0, 540, 30))
    assert producer._accumulator.pool.free == size + 10
    cluster.run(producer.close())


def test_batches_of_a_run_that_are_too_large_for_the_broker_are_split_and_told_once(cluster):
    cluster.logs.log("t").max_batch_bytes = 500
    producer = producer_of(cluster)
    told = []

    async def story():
        await producer.send_run(P0, run_of(3, 100, 100, 3), lambda *outcome: told.append(outcome))
        await producer.flush()

    cluster.run(story())
    assert sorted(told) == [(0, 0, None), (1, 3, None), (2, 103, None), (3, 203, None)]
    assert cluster.logs.values("t") == expected(206)
    cluster.run(producer.close())


def test_batches_of_a_run_fail_with_their_own_errors_and_a_receipt_that_raises_stops_nothing(cluster, caplog):
    producer = producer_of(cluster)
    refused = [False]

    def fault(node_id, partition, batch):
        is_bad = b"000005" in bytes(batch.memory)
        refused[0] = refused[0] or is_bad
        return Errors.INVALID_RECORD if is_bad else None

    cluster.logs.fault = fault
    told = {}

    def receipt(number, offset, error):
        told[number] = error if error is None else error.error
        raise ValueError("the application's fault")

    async def story():
        await producer.send_run(P0, run_of(*[1] * 12), receipt)
        await producer.flush()

    cluster.run(story())
    assert told == {number: Errors.INVALID_RECORD if number == 5 else None for number in range(12)}
    assert sorted(cluster.logs.values("t")) == sorted(expected(5) + expected(6, start=6))
    assert caplog.text.count("Error executing user-provided callback") == 12
    cluster.run(producer.close())


def test_brokers_do_not_wait_for_each_other_when_a_backlog_leaves_in_bursts(cluster):
    """The second broker's answers came while the first one's were waited for."""
    times = {0: [], 1: []}

    async def answer(node_id, request):
        times[node_id].append(cluster.runtime.clock.monotonic_ms())
        if node_id == 0:
            await cluster.runtime.sleep_ms(1_000)
        return cluster.logs._produce(node_id, request)

    cluster.handlers[ApiKeys.PRODUCE] = answer
    producer = producer_of(cluster)

    async def story():
        for number in (0, 1):
            await producer.send_run(TopicPartition("t", number), run_of(*[1] * 60), lambda *_: None)
        await producer.flush()

    cluster.run(story())
    assert len(times[1]) == 60 and times[1][-1] - times[1][0] < 5_000
    cluster.run(producer.close())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"is_control": True}, "control batch"),
        ({"last_offset": 20}, "has gaps"),
        ({"timestamp_type": 1, "log_append_time": 5}, "LogAppendTime"),
    ],
)
def test_a_batch_that_cannot_be_sent_as_it_is_is_refused(cluster, options, text):
    from kmirror.record.record_batch import TimestampType

    if "timestamp_type" in options:
        options = {**options, "timestamp_type": TimestampType.LOG_APPEND_TIME}
    producer = producer_of(cluster)
    with pytest.raises(ApiException, match=text):
        cluster.run(producer.send_batch(P0, bytes(batch_of(3, **options))))
    cluster.run(producer.close())
