"""Positions of a consumer while leaders, their epochs and whole topics change."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients.scripted_cluster import ScriptedCluster
from support.clients.scripted_reads import ScriptedReads, consumer, read
from support.waiting import REACHED_S

from kmirror.clients.consumer.consumer_types import OffsetAndMetadata
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kmirror.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from kmirror.wire.messages.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult

A = TopicPartition("t", 0)


@pytest.mark.parametrize("question", ["validation", "reset"])
def test_a_leader_that_lacks_the_epoch_of_a_former_topic_is_asked_with_its_own(question: str) -> None:
    """The epoch came from metadata of a topic that was made anew since. UNKNOWN_LEADER_EPOCH made
    nobody ask for metadata, so it was asked with that epoch for metadata.max.age.ms.
    """
    cluster = ScriptedCluster()
    ScriptedReads(cluster, t=1)
    topic = cluster.topics["t"]
    topic.epochs[0] = 2

    def error_of(asked_epoch: int) -> Errors:
        return Errors.UNKNOWN_LEADER_EPOCH if asked_epoch > topic.epochs[0] else Errors.NONE

    def epoch_end(node_id: int, request: object) -> OffsetForLeaderEpochResponse:
        (row,) = request.topics[0].partitions  # type: ignore[attr-defined]
        end = EpochEndOffset(partition=0, error_code=error_of(row.current_leader_epoch), leader_epoch=0, end_offset=7)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    def offset(node_id: int, request: object) -> ListOffsetsResponse:
        (row,) = request.topics[0].partitions  # type: ignore[attr-defined]
        found = ListOffsetsPartitionResponse(partition_index=0, error_code=error_of(row.current_leader_epoch), offset=7)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    cluster.handlers[ApiKeys.OFFSET_FOR_LEADER_EPOCH] = epoch_end
    cluster.handlers[ApiKeys.LIST_OFFSETS] = offset

    async def story() -> int:
        async with KafkaConsumer(cluster.runtime, cluster.props(0, auto_offset_reset="earliest")) as reader:
            reader.assign([A])
            assert len(await reader.partitions_for("t")) == 1
            topic.topic_id, topic.epochs[0] = Uuid(b"another topic id"), 0
            if question == "validation":
                reader.seek(A, OffsetAndMetadata(9, 0))
            else:
                reader.seek_to_end([A])
            return await reader.position(A, timeout_ms=REACHED_S * 1000)

    assert cluster.run(story()) == 7
    cluster.close()


def test_a_former_leader_is_not_asked_whether_the_log_was_cut() -> None:
    """A record that the new leader had written was read, and its epoch committed. The former leader
    does not know that epoch, and the position was reset: with latest, records were skipped.
    """
    cluster = ScriptedCluster(2)
    ScriptedReads(cluster, t=1)
    topic = cluster.topics["t"]
    topic.epochs[0] = 4

    def epoch_end(node_id: int, request: object) -> OffsetForLeaderEpochResponse:
        end = EpochEndOffset(partition=0, leader_epoch=5, end_offset=20) if node_id == 1 else EpochEndOffset(partition=0)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    cluster.handlers[ApiKeys.OFFSET_FOR_LEADER_EPOCH] = epoch_end

    async def story() -> int:
        async with KafkaConsumer(cluster.runtime, cluster.props(0, auto_offset_reset="latest")) as reader:
            reader.assign([A])
            assert len(await reader.partitions_for("t")) == 1
            topic.leaders[0], topic.epochs[0] = 1, 5
            reader.seek(A, OffsetAndMetadata(9, 5))
            return await reader.position(A)

    assert cluster.run(story()) == 9
    cluster.close()


def test_a_position_is_validated_while_no_coordinator_is_there() -> None:
    """Partitions that wait for what is committed held up the one whose leader had changed, as long
    as the coordinator was away.
    """
    cluster = ScriptedCluster()
    reads = ScriptedReads(cluster, t=2)
    reads.fill(A, 3)
    cluster.coordinator_error = Errors.COORDINATOR_NOT_AVAILABLE

    def epoch_end(node_id: int, request: object) -> OffsetForLeaderEpochResponse:
        end = EpochEndOffset(partition=0, leader_epoch=0, end_offset=3)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    cluster.handlers[ApiKeys.OFFSET_FOR_LEADER_EPOCH] = epoch_end

    async def story() -> list[tuple[int, int]]:
        async with consumer(cluster, "classic") as reader:
            reader.assign([A, TopicPartition("t", 1)])
            reader.seek(A, OffsetAndMetadata(1, 0))
            return await read(reader, 2)

    assert cluster.run(story()) == [(0, 1), (0, 2)]
    cluster.close()


def test_a_topic_made_anew_is_read_on_where_fetches_name_no_topic_ids() -> None:
    """Before Fetch v13 a leader can only say UNKNOWN_LEADER_EPOCH. It was asked with the former
    topic's epoch for metadata.max.age.ms.
    """
    cluster = ScriptedCluster()
    cluster.ranges[ApiKeys.FETCH] = (4, 12)
    reads = ScriptedReads(cluster, t=1)
    topic = cluster.topics["t"]
    topic.epochs[0] = 2
    fetch = cluster.handlers[ApiKeys.FETCH]

    async def checked(node_id: int, request: Any) -> object:
        for asked in request.topics[0].partitions:
            if asked.current_leader_epoch > topic.epochs[0]:
                row = PartitionData(partition_index=0, error_code=Errors.UNKNOWN_LEADER_EPOCH)
                return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])
        return await fetch(node_id, request)

    cluster.handlers[ApiKeys.FETCH] = checked

    async def story() -> list[tuple[int, int]]:
        async with consumer(cluster, "classic") as reader:
            reader.assign([A])
            reader.seek(A, 0)
            await reader.poll(100)
            topic.topic_id, topic.epochs[0] = Uuid(b"another topic id"), 0
            reads.fill(A, 1)
            return await read(reader, 1)

    assert cluster.run(story()) == [(0, 0)]
    cluster.close()
