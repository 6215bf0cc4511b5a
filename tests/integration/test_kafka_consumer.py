"""`KafkaConsumer` on an embedded cluster: positions, seeks, transactions, batches, commits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator

import confluent_kafka as ck
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.ended_transactions import wait_until_ended
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.clients.consumer.consumer_types import (
    IllegalStateError,
    NoOffsetForPartitionException,
    OffsetAndMetadata,
    OffsetOutOfRangeException,
    TopicMadeAnewError,
    WakeupException,
)
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

REACHED_MS = REACHED_S * 1000


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(config={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


def create(cluster: EmbeddedCluster, topic: str, partitions: int = 1) -> list[TopicPartition]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(REACHED_S)
    return [TopicPartition(topic, number) for number in range(partitions)]


def fill(cluster: EmbeddedCluster, partition: TopicPartition, begin: int, end: int, *, transaction: str | None = None) -> None:
    """Values `begin` to `end`; `transaction`: "commit" or "abort"."""
    settings: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5}
    if transaction is not None:
        settings["transactional.id"] = f"{partition}-{begin}"
    producer = Producer(settings)
    if transaction is not None:
        producer.init_transactions(REACHED_S)
        producer.begin_transaction()
    for number in range(begin, end):
        producer.produce(
            partition.topic, str(number).encode(), b"key", partition.partition, timestamp=1_000_000 + number, headers=[("h", b"x")]
        )
    if transaction == "abort":
        producer.flush(REACHED_S)
        producer.abort_transaction(REACHED_S)
    elif transaction == "commit":
        producer.commit_transaction(REACHED_S)
    else:
        assert producer.flush(REACHED_S) == 0
    if transaction is not None:
        wait_until_ended(cluster.bootstrap_servers, partition.topic, partition.partition)


def consumer(cluster: EmbeddedCluster, **configs: object) -> KafkaConsumer:
    props = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest", "fetch.max.wait.ms": 50}
    return KafkaConsumer(AsyncioRuntime(), props | {name.replace("_", "."): value for name, value in configs.items()})


async def read(reader: KafkaConsumer, count: int) -> list[int]:
    values: list[int] = []
    while len(values) < count:
        records = await reader.poll(REACHED_MS)
        assert len(records), f"only {len(values)} of {count} records came"
        values += [int(record.value or b"-1") for record in records]
    return values


async def test_polls_that_do_not_wait_get_records_nevertheless(cluster: EmbeddedCluster) -> None:
    """Each poll(0) lets the event loop run; otherwise no fetch is ever answered."""
    (partition,) = create(cluster, "polled-without-waiting")
    fill(cluster, partition, 0, 3)
    consumer = KafkaConsumer(AsyncioRuntime(), {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"})
    consumer.assign([partition])
    found: list[bytes | None] = []
    async with asyncio.timeout(REACHED_S):
        while len(found) < 3:
            found += [record.value for record in await consumer.poll(0)]
    await consumer.close()
    assert found == [b"0", b"1", b"2"]


async def test_assign_poll_seek_and_positions(cluster: EmbeddedCluster) -> None:
    first, second = create(cluster, "assigned", 2)
    fill(cluster, first, 0, 1200)
    fill(cluster, second, 5000, 5010)
    async with consumer(cluster) as reader:
        reader.assign([first, second])
        values = await read(reader, 1210)
        assert sorted(values) == [*range(1200), *range(5000, 5010)]
        assert [value for value in values if value < 5000] == list(range(1200)), "a partition's records are in order"
        assert (await reader.position(first), await reader.position(second)) == (1200, 10)
        reader.seek(first, 1195)
        assert await read(reader, 5) == list(range(1195, 1200))
        reader.seek_to_beginning([second])
        assert await reader.position(second) == 0
        reader.seek_to_end([first, second])
        assert await reader.position(first) == 1200
        assert not len(await reader.poll(150))
        fill(cluster, second, 5010, 5013)
        assert await read(reader, 3) == [5010, 5011, 5012]
        assert reader.current_lag(second) == 0


async def test_records_have_all_their_fields(cluster: EmbeddedCluster) -> None:
    (partition,) = create(cluster, "fields")
    fill(cluster, partition, 7, 8)
    async with consumer(cluster) as reader:
        reader.assign([partition])
        (record,) = await reader.poll(REACHED_MS)
        assert (record.topic, record.partition, record.offset, record.timestamp) == ("fields", 0, 0, 1_000_007)
        assert (record.key, record.value, record.headers, record.leader_epoch) == (b"key", b"7", [("h", b"x")], 0)


async def test_offsets_of_the_log(cluster: EmbeddedCluster) -> None:
    partitions = create(cluster, "ends", 2)
    fill(cluster, partitions[0], 0, 30)
    async with consumer(cluster) as reader:
        assert await reader.beginning_offsets(partitions) == dict.fromkeys(partitions, 0)
        assert await reader.end_offsets(partitions) == {partitions[0]: 30, partitions[1]: 0}
        found = await reader.offsets_for_times({partitions[0]: 1_000_012, partitions[1]: 1})
        one = found[partitions[0]]
        assert one is not None
        assert (one.offset, one.timestamp, found[partitions[1]]) == (12, 1_000_012, None)
        with pytest.raises(ValueError, match="The target time cannot be negative"):
            await reader.offsets_for_times({partitions[0]: -1})
        assert [info.partition for info in await reader.partitions_for("ends")] == [0, 1]


@pytest.mark.parametrize("batches", [False, True])
async def test_read_committed(cluster: EmbeddedCluster, batches: bool) -> None:
    (partition,) = create(cluster, f"committed-{batches}")
    fill(cluster, partition, 0, 3)
    fill(cluster, partition, 3, 6, transaction="abort")
    fill(cluster, partition, 6, 9, transaction="commit")
    fill(cluster, partition, 9, 12, transaction="abort")
    async with consumer(cluster, isolation_level="read_committed") as reader:
        reader.assign([partition])
        if not batches:
            assert await read(reader, 6) == [0, 1, 2, 6, 7, 8]
        else:
            values: list[int] = []
            markers = 0
            while await reader.position(partition) < 15:
                for fetched in await reader.poll_batches(REACHED_MS):
                    for one in fetched.batches:
                        markers += one.is_control
                        values += [int(bytes(record.value or b"")) for record in one.batch.records() if not one.is_control]
            assert (values, markers) == ([0, 1, 2, 6, 7, 8], 3)
        assert await reader.end_offsets([partition]) == {partition: 15}
    async with consumer(cluster) as reader:
        reader.assign([partition])
        assert await read(reader, 12) == list(range(12))


async def test_batches_are_the_logs_bytes(cluster: EmbeddedCluster) -> None:
    (partition,) = create(cluster, "raw")
    for begin in range(0, 300, 100):
        fill(cluster, partition, begin, begin + 100)
    async with consumer(cluster) as reader:
        reader.assign([partition])
        data, position = b"", 0
        while position < 300:
            (fetched,) = await reader.poll_batches(REACHED_MS)
            assert (fetched.partition, fetched.position, fetched.high_watermark, fetched.log_start_offset) == (partition, position, 300, 0)
            data += b"".join(bytes(one.data) for one in fetched.batches)
            position = fetched.next_offset
    assert data == (cluster.log_dir() / "raw-0" / f"{0:020}.log").read_bytes()[: len(data)]
    assert len(data) > 300


async def test_paused_partitions_are_kept_back(cluster: EmbeddedCluster) -> None:
    first, second = create(cluster, "paused", 2)
    fill(cluster, first, 0, 5)
    fill(cluster, second, 10, 15)
    async with consumer(cluster) as reader:
        reader.assign([first, second])
        reader.pause([first])
        assert await read(reader, 5) == list(range(10, 15))
        assert not len(await reader.poll(150))
        reader.resume([first])
        assert await read(reader, 5) == list(range(5))


async def test_commits_are_where_the_next_one_begins(cluster: EmbeddedCluster) -> None:
    first, second = create(cluster, "commits", 2)
    fill(cluster, first, 0, 10)
    async with consumer(cluster, group_id="commits", enable_auto_commit=False) as reader:
        reader.assign([first, second])
        await read(reader, 10)
        await reader.commit({first: OffsetAndMetadata(4, 0, "note")})
        assert await reader.committed([first, second]) == {first: OffsetAndMetadata(4, 0, "note"), second: None}
    async with consumer(cluster, group_id="commits", enable_auto_commit=True) as reader:
        reader.assign([first])
        assert await read(reader, 6) == list(range(4, 10))
    async with consumer(cluster, group_id="commits", enable_auto_commit=False) as reader:
        assert await reader.committed([first]) == {first: OffsetAndMetadata(10, 0)}, "close commits with enable.auto.commit"


async def test_out_of_range_and_nothing_committed(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    (partition,) = create(cluster, "range")
    fill(cluster, partition, 0, 3)
    async with consumer(cluster) as reader:
        reader.assign([partition])
        reader.seek(partition, 1000)
        assert await read(reader, 3) == [0, 1, 2], "auto.offset.reset=earliest"
        assert f"Offset 1000 is out of range for partition {partition}" in caplog.text
    async with consumer(cluster, auto_offset_reset="none") as reader:
        reader.assign([partition])
        with pytest.raises(NoOffsetForPartitionException):
            await reader.poll(REACHED_MS)
        reader.seek(partition, 1000)
        with pytest.raises(OffsetOutOfRangeException) as caught:
            await reader.poll(REACHED_MS)
        assert caught.value.offsets == {partition: 1000}
        leader = f"Optional[{cluster.bootstrap_servers} (id: 1 rack: null)]"
        position = f"FetchPosition{{offset=1000, offsetEpoch=Optional.empty, currentLeader=LeaderAndEpoch{{leader={leader}, epoch=0}}}}"
        assert str(caught.value) == f"Fetch position {position} is out of range for partition {partition}"
        reader.seek(partition, 1)
        assert await read(reader, 2) == [1, 2]


async def test_by_duration_begins_at_what_is_young_enough(cluster: EmbeddedCluster) -> None:
    (partition,) = create(cluster, "duration")
    fill(cluster, partition, 0, 3)
    async with consumer(cluster, auto_offset_reset="by_duration:PT1H") as reader:
        reader.assign([partition])
        assert await reader.position(partition) == 3, "all records are older, so it begins at the end"
    async with consumer(cluster, auto_offset_reset="by_duration:P20000D") as reader:
        reader.assign([partition])
        assert await reader.position(partition) == 3


async def test_wrong_use_is_told(cluster: EmbeddedCluster) -> None:
    (partition,) = create(cluster, "wrong")
    async with consumer(cluster) as reader:
        with pytest.raises(IllegalStateError, match="not subscribed to any topics or assigned any partitions"):
            await reader.poll(0)
        with pytest.raises(ApiException, match=r"you must provide a valid group\.id"):
            reader.subscribe(["wrong"])
        with pytest.raises(ApiException, match=r"you must provide a valid group\.id"):
            await reader.commit()
        reader.assign([partition])
        with pytest.raises(IllegalStateError, match="No current assignment for partition other-0"):
            reader.seek(TopicPartition("other", 0), 1)
        reader.wakeup()
        with pytest.raises(WakeupException):
            await reader.poll(REACHED_MS)
    with pytest.raises(IllegalStateError, match="already been closed"):
        await reader.poll(0)


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"auto_offset_reset": "first"}, "auto.offset.reset"),
        ({"enable_auto_commit": "true"}, "enable.auto.commit cannot be set to true when default group id"),
        ({"group_protocol": "consumer", "session_timeout_ms": 1000}, "session.timeout.ms cannot be set when group.protocol=CONSUMER"),
        ({"group_remote_assignor": "range"}, "group.remote.assignor cannot be set when group.protocol=CLASSIC"),
        ({"partition_assignment_strategy": "nothing"}, "partition.assignment.strategy"),
        ({"max_poll_records": 0}, "max.poll.records"),
        ({"isolation_level": "serializable"}, "isolation.level"),
    ],
)
async def test_wrong_configurations(cluster: EmbeddedCluster, configs: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        consumer(cluster, **configs)


async def test_an_unknown_topic_is_waited_for(cluster: EmbeddedCluster) -> None:
    async with consumer(cluster, allow_auto_create_topics=False) as reader:
        reader.assign([TopicPartition("later", 0)])
        assert not len(await reader.poll(200))
        with pytest.raises(ApiException) as caught:
            await reader.end_offsets([TopicPartition("later", 0)], timeout_ms=200)
        assert caught.value.error in (Errors.REQUEST_TIMED_OUT, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        (partition,) = create(cluster, "later")
        fill(cluster, partition, 0, 2)
        assert await read(reader, 2) == [0, 1]


async def test_what_is_tried_again_in_silence_can_be_asked() -> None:
    """A partition without a leader is asked for as long as the consumer lives, and the others are read."""
    with EmbeddedCluster(3) as running:
        partitions = create(running, "spread", 3)
        for partition in partitions:
            fill(running, partition, 0, 5)
        async with consumer(running) as reader:
            reader.assign(partitions)
            assert sorted(await read(reader, 15)) == sorted([*range(5)] * 3)
            await until(reader, lambda: reader.trouble() is None)
            lost = AdminClient({"bootstrap.servers": running.bootstrap_servers}).list_topics("spread").topics["spread"].partitions[0].leader
            await asyncio.to_thread(running.kill_node, lost - 1)
            await until(reader, lambda: reader.trouble() is not None)
            answers = reader.answered_fetches
            await until(reader, lambda: reader.answered_fetches > answers)
            assert reader.trouble() is not None, "the others answer, one does not"
            await asyncio.to_thread(running.start_node, lost - 1)
            await until(reader, lambda: reader.trouble() is None)
            fill(running, partitions[0], 5, 8)
            assert await read(reader, 3) == [5, 6, 7]


async def until(reader: KafkaConsumer, reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(REACHED_S):
        while not reached():
            await reader.poll(20)


@pytest.mark.parametrize("anew", [True, False])
async def test_records_that_can_never_be_read_are_counted(cluster: EmbeddedCluster, anew: bool) -> None:
    """A topic that is made anew, and one whose records are deleted before they are read."""
    topic = f"lost-{anew}"
    (partition,) = create(cluster, topic)
    fill(cluster, partition, 0, 5)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest", "allow.auto.create.topics": "false"}
    consumer = KafkaConsumer(AsyncioRuntime(), settings)
    consumer.assign([partition])
    read = 0
    while read < 5:
        read += len(list(await consumer.poll(REACHED_MS)))
    if anew:
        admin.delete_topics([topic])[topic].result(REACHED_S)
        create(cluster, topic)
        fill(cluster, partition, 0, 8)
    else:
        fill(cluster, partition, 5, 12)
        before = ck.TopicPartition(topic, 0, 9)
        admin.delete_records([before])[before].result(REACHED_S)
    while read < 8:
        read += len(list(await consumer.poll(REACHED_MS)))
    assert consumer.records_lost == (5 if anew else 4)
    await consumer.close()


@pytest.mark.parametrize("end", [3, 8])
async def test_a_topic_made_anew_is_refused_where_that_is_asked_for(cluster: EmbeddedCluster, end: int) -> None:
    """Also if it ends before the position, which is then out of range."""
    topic = f"refused-{end}"
    (partition,) = create(cluster, topic)
    fill(cluster, partition, 0, 5)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest", "allow.auto.create.topics": "false"}
    consumer = KafkaConsumer(AsyncioRuntime(), settings)
    consumer.refuse_topics_made_anew()
    consumer.assign([partition])
    read = 0
    while read < 5:
        read += len(list(await consumer.poll(REACHED_MS)))
    admin.delete_topics([topic])[topic].result(REACHED_S)
    create(cluster, topic)
    fill(cluster, partition, 0, end)
    for _ in range(2):
        with pytest.raises(TopicMadeAnewError, match=f"{topic}-0 was made anew at the source"):
            while True:
                assert not list(await consumer.poll(REACHED_MS))
    assert consumer.records_lost == 0
    await consumer.close()
