"""What many tests do first, on both sides by the same requests."""

from __future__ import annotations

import itertools
import time

from harness import Pair, Side
from support.waiting import REACHED_S

from kmirror.common.ports import Buffer
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIME = 1_750_000_000_000
"""The timestamp of the first record; any day in the past will do."""

_published = itertools.count()


def create_topic(pair: Pair, name: str, *, partitions: int = 1, **configs: str) -> None:
    """On both sides; waits until each answers for it, and remembers its id."""
    entries = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=entries)], 30000)
    for side in pair.sides:
        answer = side.ask(request, 7).topics[0]
        assert answer.error_code == 0, (side.name, name, answer)
        side.topic_ids[name] = answer.topic_id
        await_topic(side, name)


def await_topic(side: Side, name: str, timeout_s: float = REACHED_S) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        topic = side.ask(MetadataRequest([MetadataRequestTopic(name=name)], False), 12).topics[0]
        if topic.error_code == 0 and all(partition.leader_id >= 0 for partition in topic.partitions):
            side.topic_ids[name] = topic.topic_id
            wanted = [ListOffsetsPartition(partition.partition_index, -1, -1) for partition in topic.partitions]
            leads = side.ask(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, wanted)], 1000), 7).topics[0]
            if all(partition.error_code == 0 for partition in leads.partitions):
                return
        time.sleep(0.02)
    raise AssertionError(f"{side.name}: {name} has no leader")


def await_published(pair: Pair) -> None:
    """Wait until every part of each broker has taken in what the controller committed so far.

    A broker answers AlterClientQuotas and its like when the change is committed. Its own quota
    managers learn of it later, with the metadata image that holds it. Images are published one after
    another: the second topic is seen only after the image with the first one, and with all that was
    committed before it, has reached everything.
    """
    for _ in range(2):
        create_topic(pair, f"published-{next(_published)}")


def learn_topic_ids(pair: Pair, *names: str) -> None:
    for side in pair.sides:
        for name in names:
            await_topic(side, name)


def records(*values: bytes | None, key: bytes | None = b"k", timestamp: int = TIME) -> list[Record]:
    return [Record(offset, timestamp + offset, key, value, []) for offset, value in enumerate(values)]


def produce(topic: str, data: Buffer | None, *, partition: int = 0, acks: int = -1, transactional_id: str | None = None) -> ProduceRequest:
    """A request of one partition, by name; `produce_by_id` is for version 13."""
    entry = PartitionProduceData(partition, data)
    return ProduceRequest(transactional_id, acks, 5000, [TopicProduceData(name=topic, partition_data=[entry])])


def produce_by_id(side: Side, topic: str, data: Buffer | None, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    entry = PartitionProduceData(partition, data)
    return ProduceRequest(None, acks, 5000, [TopicProduceData(topic_id=side.topic_id(topic), partition_data=[entry])])


def fill(pair: Pair, topic: str, batches: int = 3, *, partition: int = 0) -> None:
    """`batches` batches of two records; both logs are then the same bytes."""
    for number in range(batches):
        data = build_batch(records(b"a%d" % number, b"b%d" % number, timestamp=TIME + 10 * number))
        for side in pair.sides:
            answer = side.ask(produce(topic, data, partition=partition), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0, (side.name, answer)
