"""What `KafkaProducer` does with records that cannot be written: each is refused alone, takes nothing
of buffer.memory, and leaves the records beside it as they are.
"""

from __future__ import annotations

from array import array

import pytest
from support.clients.producers import producer_of
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import ScriptedLogs

from kmirror.clients.kafka_producer import IllegalStateError, ProducerRecord
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch

LONGEST_TIME_MS = 2**63 - 1


@pytest.fixture
def cluster():
    cluster = ScriptedCluster(1)
    cluster.topics["t"] = ScriptedTopic({0: 0, 1: 0}, topic_id=Uuid(b"1" * 16))
    cluster.logs = ScriptedLogs(cluster)
    yield cluster
    cluster.close()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "fields, error, text",
    [
        ({"value": "text"}, TypeError, None),
        ({"key": "text"}, TypeError, None),
        ({"headers": [("a", "text")]}, TypeError, None),
        ({"headers": [("\ud800", b"")]}, UnicodeEncodeError, None),
        ({"timestamp": -5}, IllegalStateError, "Invalid timestamp: -5. Timestamp should always be non-negative or null."),
        ({"timestamp": LONGEST_TIME_MS + 1}, IllegalStateError, "Invalid timestamp: 9223372036854775808"),
        ({"timestamp": 1.5}, TypeError, None),
        ({"partition": -1}, IllegalStateError, "Invalid partition: -1"),
        ({"partition": 0.0}, TypeError, None),
        ({"partition": "0"}, TypeError, None),
    ],
)
def test_a_record_that_cannot_be_written_harms_no_other(cluster, fields, error, text, is_first):
    producer = producer_of(cluster, linger_ms=100)
    bad = ProducerRecord("t", **{"value": b"v", "partition": 0} | fields)

    async def story():
        sent = []
        if not is_first:
            sent.append(await producer.send(ProducerRecord("t", b"0", partition=0, timestamp=7)))
        with pytest.raises(error, match=text):
            await producer.send(bad)
        if is_first:
            assert not producer._accumulator.queues and producer._accumulator.pool.free == producer.config.buffer_memory
        sent.append(await producer.send(ProducerRecord("t", b"1", partition=0, timestamp=8)))
        return [(await one).timestamp for one in sent]

    assert cluster.run(story()) == ([8] if is_first else [7, 8])
    assert cluster.logs.values("t") == ([b"1"] if is_first else [b"0", b"1"])
    assert cluster.logs.log("t").batches[0].max_timestamp == 8
    assert producer._accumulator.pool.free == producer.config.buffer_memory
    cluster.run(producer.close())


def test_the_latest_time_can_be_written(cluster):
    producer = producer_of(cluster, linger_ms=100)

    async def story():
        sent = [await producer.send(ProducerRecord("t", b"v", partition=0, timestamp=time)) for time in (0, LONGEST_TIME_MS, 1)]
        return [(await one).timestamp for one in sent]

    assert cluster.run(story()) == [0, LONGEST_TIME_MS, 1]
    assert [record.timestamp for record in cluster.logs.log("t").batches[0].records()] == [0, LONGEST_TIME_MS, 1]
    cluster.run(producer.close())


def test_views_of_larger_items_are_written_by_their_bytes(cluster):
    """`len` of such a view counts items, so the record's lengths were wrong and a broker refused the
    batch.
    """
    producer = producer_of(cluster, linger_ms=100)
    numbers = memoryview(array("I", range(40)))
    raw = numbers.tobytes()

    async def story():
        first = await producer.send(ProducerRecord("t", numbers, key=numbers, headers=[("a", numbers)], partition=0))
        second = await producer.send(ProducerRecord("t", bytearray(b"v"), partition=0))
        return [(await one).offset for one in (first, second)]

    assert cluster.run(story()) == [0, 1]
    first, second = cluster.logs.log("t").batches[0].records()
    assert (bytes(first.key), bytes(first.value), first.headers) == (raw, raw, [("a", raw)]) and bytes(second.value) == b"v"
    cluster.run(producer.close())


def test_a_record_goes_to_the_partition_of_its_keys_bytes(cluster):
    producer = producer_of(cluster)
    keys = [array("I", [number] * 9) for number in range(8)]

    async def story():
        return [
            (await (await producer.send(ProducerRecord("t", b"v", key=key)))).partition
            for one in keys
            for key in (memoryview(one), one.tobytes())
        ]

    found = cluster.run(story())
    assert found[::2] == found[1::2] and set(found) == {0, 1}
    cluster.run(producer.close())


def test_whole_batches_to_a_negative_partition_are_refused(cluster):
    producer = producer_of(cluster)
    batch = RecordBatch(build_batch([Record(0, 1000, None, b"v", [])]))

    async def story():
        with pytest.raises(IllegalStateError, match="Invalid partition: -1"):
            await producer.send_batch(TopicPartition("t", -1), batch)
        with pytest.raises(IllegalStateError, match="Invalid partition: -1"):
            await producer.send_run(TopicPartition("t", -1), [batch], lambda *told: None)

    cluster.run(story())
    cluster.run(producer.close())


def test_a_request_that_cannot_be_made_fails_its_records_alone(cluster):
    """Its batches were neither queued nor in flight, and its place in flight was taken for ever."""
    producer = producer_of(cluster, linger_ms=0, max_in_flight_requests_per_connection=1)
    encode = producer._sender._requests.encode

    def failing(request):
        if request.batches[0].partition.partition == 1:
            raise ValueError("cannot be encoded")
        encode(request)

    producer._sender._requests.encode = failing

    async def story():
        await producer.partitions_for("t")
        for _ in range(3):
            bad = await producer.send(ProducerRecord("t", b"v", partition=1))
            with pytest.raises(ValueError, match="cannot be encoded"):
                await bad
        return (await (await producer.send(ProducerRecord("t", b"v", partition=0)))).offset

    assert cluster.run(story()) == 0
    cluster.run(producer.flush())
    assert producer._accumulator.pool.free == producer.config.buffer_memory
    cluster.run(producer.close())


def test_a_run_of_nothing_is_accepted(cluster):
    producer = producer_of(cluster)
    cluster.run(producer.send_run(TopicPartition("t", 0), [], lambda *told: None))
    cluster.run(producer.flush())
    assert producer._accumulator.queues == {}
    cluster.run(producer.close())


@pytest.mark.parametrize("name", ["", "a" * 40_000, "\ud800", "a/b"])
def test_a_topic_name_that_is_none_does_not_stop_metadata(cluster, name):
    """A name that cannot be written into a request made each later refresh fail."""
    cluster.topics[name] = ScriptedTopic({}, error=Errors.INVALID_TOPIC_EXCEPTION)
    producer = producer_of(cluster, metadata_max_age_ms=1_000, max_block_ms=3_000)

    async def story():
        await producer.partitions_for("t")
        with pytest.raises(ApiException) as failure:
            await producer.send(ProducerRecord(name, b"v"))
        assert failure.value.error is Errors.INVALID_TOPIC_EXCEPTION
        for _ in range(5):
            await cluster.runtime.sleep_ms(1_500)
            producer.cluster.known_leader(TopicPartition("t", 0))
        assert producer.cluster.metadata.age_ms("t", cluster.runtime.clock.monotonic_ms()) < 3_000
        await (await producer.send(ProducerRecord("t", b"v", partition=0)))

    cluster.run(story())
    cluster.run(producer.close())


def test_metadata_and_memory_share_the_time_that_a_send_may_block(cluster):
    producer = producer_of(cluster, buffer_memory=1_000, batch_size=1_000, linger_ms=60_000, max_block_ms=1_000)
    producer._accumulator.pool.try_take(1_000)
    cluster.world.loop.call_later(0.7, lambda: cluster.topics.update(u=ScriptedTopic({0: 0})))
    clock = cluster.runtime.clock

    async def story():
        began_ms = clock.monotonic_ms()
        with pytest.raises(ApiException, match="Failed to allocate 1000 bytes within the configured max blocking time"):
            await producer.send(ProducerRecord("u", b"v"))
        return clock.monotonic_ms() - began_ms

    assert 1_000 <= cluster.run(story()) < 1_100
    producer._accumulator.pool.give_back(1_000)
    cluster.run(producer.close())


@pytest.mark.parametrize("settings", [{"max_block_ms": 0}, {"max_block_ms": 0, "linger_ms": 0, "buffer_memory": 200, "batch_size": 100}])
def test_a_producer_that_may_not_block_sends_what_it_can(cluster, settings):
    producer = producer_of(cluster, **settings)

    async def story():
        await producer.cluster.partitions_for("t")
        sent = await producer.send(ProducerRecord("t", b"v", partition=0))
        with pytest.raises(ApiException, match="Topic u not present in metadata after 0 ms"):
            await producer.send(ProducerRecord("u", b"v"))
        if "buffer_memory" in settings:
            for partition in (1, 0):
                try:
                    await producer.send(ProducerRecord("t", b"x" * 100, partition=partition))
                except ApiException as error:
                    assert error.error in (Errors.REQUEST_TIMED_OUT, Errors.MESSAGE_TOO_LARGE)
            with pytest.raises(ApiException, match="larger than the total memory buffer"):
                await producer.send(ProducerRecord("t", b"x" * 300, partition=0))
        return await sent

    assert cluster.run(story()).offset == 0
    cluster.run(producer.flush())
    assert producer._accumulator.pool.free == producer.config.buffer_memory
    cluster.run(producer.close())
