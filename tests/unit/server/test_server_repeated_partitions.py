"""A request that names a partition twice is answered as Kafka's brokers answer it.

`tests/interop/differential/test_differential_random.py` asks Apache Kafka; these are the cases that
it found.
"""

from __future__ import annotations

from pathlib import Path

from support.brokers.broker_doubles import BrokerWorld, batch_of
from support.brokers.frame_exchange import exchange

from kmirror.common.errors import Errors
from kmirror.server.apis.by_topic import TopicAnswers
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.messages.offset_commit import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


async def test_a_partition_that_is_produced_to_twice_is_answered_once_and_gets_the_last_batch(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    twice = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch_of(value))]) for value in (b"first", b"last one")]
    answer = await exchange(world, ApiKeys.PRODUCE, 9, ProduceRequest(None, -1, 1000, twice))
    (topic,) = answer.responses
    assert [(row.index, row.error_code, row.base_offset) for row in topic.partition_responses] == [(0, 0, 0)]
    log = world.partition("t").log
    assert log is not None and log.log_end_offset == 1
    assert b"last one" in next(tmp_path.glob("**/t-0/*.log")).read_bytes()


async def test_one_batch_of_an_impossible_magic_fails_the_whole_request(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", partitions=2)
    garbage = b"garbage that is no batch at all, but longer than a header of 61 bytes is"
    data = [PartitionProduceData(0, batch_of(b"a")), PartitionProduceData(1, garbage)]
    answer = await exchange(world, ApiKeys.PRODUCE, 9, ProduceRequest(None, -1, 1000, [TopicProduceData(name="t", partition_data=data)]))
    rows = answer.responses[0].partition_responses
    assert [(row.index, row.error_code, row.error_message) for row in rows] == [
        (0, Errors.CORRUPT_MESSAGE, "Invalid magic found in record: 110"),
        (1, Errors.CORRUPT_MESSAGE, "Invalid magic found in record: 110"),
    ]
    log = world.partition("t").log
    assert log is None or log.log_end_offset == 0


async def test_fetches_and_deletions_of_a_partition_count_once(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch_of(b"a"))])]
    await exchange(world, ApiKeys.PRODUCE, 9, ProduceRequest(None, -1, 1000, data))
    wanted = [
        FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]) for offset in (7, 0)
    ]
    answer = await exchange(
        world, ApiKeys.FETCH, 12, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, session_epoch=-1, topics=wanted)
    )
    assert [(row.partition_index, row.error_code) for topic in answer.responses for row in topic.partitions] == [(0, 0)]
    deletions = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1), DeleteRecordsPartition(0, 1)]), DeleteRecordsTopic("none", [])]
    answer = await exchange(world, ApiKeys.DELETE_RECORDS, 2, DeleteRecordsRequest(deletions, 100))
    assert [(topic.name, [row.low_watermark for row in topic.partitions]) for topic in answer.topics] == [("t", [1])]


async def test_an_unknown_isolation_level_is_an_error_and_no_answer(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]
    answer = await exchange(world, ApiKeys.LIST_OFFSETS, 7, ListOffsetsRequest(-1, 2, topics))
    assert answer.topics[0].partitions[0].error_code == Errors.UNKNOWN_SERVER_ERROR
    wanted = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])]
    answer = await exchange(world, ApiKeys.FETCH, 12, FetchRequest(isolation_level=2, max_bytes=1000, topics=wanted, session_epoch=-1))
    assert answer.responses[0].partitions[0].error_code == Errors.UNKNOWN_SERVER_ERROR


def test_answers_about_offsets_have_one_entry_a_topic_with_what_was_refused_first() -> None:
    answers = TopicAnswers()
    answers.add(OffsetCommitResponseTopic(name="a", partitions=[OffsetCommitResponsePartition(7, Errors.UNKNOWN_TOPIC_OR_PARTITION)]))
    committed = [OffsetCommitResponseTopic(name=name, partitions=[OffsetCommitResponsePartition(0, 0)]) for name in ("a", "b", "b")]
    assert [(topic.name, [row.partition_index for row in topic.partitions]) for topic in answers.merged(committed)] == [
        ("a", [7, 0]),
        ("b", [0, 0]),
    ]
    again = [OffsetCommitResponseTopic(name="b", partitions=[]), OffsetCommitResponseTopic(name="b", partitions=[])]
    assert TopicAnswers().merged(again) == again
