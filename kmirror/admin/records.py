"""AdminClient calls about the records of partitions: offsets, deletion, raw batches, producers.

The questions go to the leaders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kmirror.admin.admin_requests import AdminRequests, T, raise_about
from kmirror.admin.results import Node
from kmirror.admin.topics import describe_topics
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import LATEST_TIMESTAMP, READ_UNCOMMITTED
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic

MAX_FETCH_VERSION = 18


@dataclass(frozen=True, slots=True)
class ListOffsetsResultInfo:
    """A leader's answer for a timestamp; -1 if there is no such record."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: AdminRequests,
    partitions: Iterable[TopicPartition],
    *,
    timestamp: int = LATEST_TIMESTAMP,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """Returns the offset of each partition for `timestamp`.

    -1 is the latest (high watermark, or LSO when read_committed), -2 the earliest.
    """
    found = await list_offsets_by_spec(cluster, dict.fromkeys(partitions, timestamp), isolation_level=isolation_level)
    return {name: info.offset for name, info in all_or_raise(found).items()}


async def list_offsets_by_spec(
    cluster: AdminRequests, specs: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, ListOffsetsResultInfo | ApiException]:
    """Returns the leader's answer for each partition's timestamp, or its error.

    Retriable errors are retried.

    -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 earliest local, -5 latest
    tiered.
    """

    async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, ListOffsetsResultInfo | ApiException]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for name in group:
            entry = ListOffsetsPartition(partition_index=name.partition, timestamp=specs[name])
            topics.setdefault(name.topic, []).append(entry)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
        )
        response = await cluster.send(node, request)
        result: dict[TopicPartition, ListOffsetsResultInfo | ApiException] = {}
        for topic in response.topics:
            for row in topic.partitions:
                error = Errors.for_code(row.error_code)
                name = TopicPartition(topic.name, row.partition_index)
                if error.retriable:
                    raise_about(error, f"offsets of {name}")
                result[name] = ApiException(error) if error else ListOffsetsResultInfo(row.offset, row.timestamp, row.leader_epoch)
        return result

    return await cluster.by_leader(sorted(specs), ask)


async def delete_records(cluster: AdminRequests, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiException]:
    """Deletes the records before the given offsets (-1: before the high watermark).

    Returns the new low watermarks, or what failed.
    """

    async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, int | ApiException]:
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for name in group:
            entry = DeleteRecordsPartition(partition_index=name.partition, offset=offsets[name])
            topics.setdefault(name.topic, []).append(entry)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=entries) for name, entries in topics.items()], timeout_ms=cluster.timeout_ms
        )
        response = await cluster.send(node, request)
        result: dict[TopicPartition, int | ApiException] = {}
        for topic in response.topics:
            for row in topic.partitions:
                error = Errors.for_code(row.error_code)
                if error is Errors.NOT_LEADER_OR_FOLLOWER:
                    raise ApiException(error)
                result[TopicPartition(topic.name, row.partition_index)] = ApiException(error) if error else row.low_watermark
        return result

    return await cluster.by_leader(sorted(offsets), ask)


async def end_offset_of_epoch(cluster: AdminRequests, topic_partition: TopicPartition, leader_epoch: int) -> int:
    """Returns where the next higher leader epoch begins in the leader's log.

    That is the log's end if there is no higher epoch, and -1 if the leader knows no such epoch.
    """

    async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, int]:
        entry = OffsetForLeaderPartition(partition=topic_partition.partition, leader_epoch=leader_epoch)
        topic = OffsetForLeaderTopic(topic=topic_partition.topic, partitions=[entry])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        response = await cluster.send(node, request)
        (row,) = response.topics[0].partitions
        raise_about(row.error_code, f"leader epoch {leader_epoch} of {topic_partition}")
        return {topic_partition: row.end_offset}

    return (await cluster.by_leader([topic_partition], ask))[topic_partition]


async def fetch_records(
    cluster: AdminRequests,
    topic_partition: TopicPartition,
    offset: int,
    *,
    max_bytes: int = 1 << 20,
    isolation_level: int = READ_UNCOMMITTED,
) -> bytes:
    """Returns raw batches of a partition from `offset` on, as the log has them.

    At least one batch is returned if there is one; b"" at the end. Used to compare logs.
    """

    async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, bytes]:
        described = (await describe_topics(cluster, [topic_partition.topic])).get(topic_partition.topic)
        if described is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
        partition = FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        topic = FetchTopic(topic=topic_partition.topic, topic_id=described.topic_id, partitions=[partition])
        version = await cluster.client.api_version(
            node.host, node.port, ApiKeys.FETCH, timeout_ms=cluster.timeout_ms, max_version=MAX_FETCH_VERSION
        )
        request = FetchRequest(
            replica_id=-1,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=[topic],
            unknown_tagged_fields=log_reader_tag(version),
        )
        response = await cluster.client.send(node.host, node.port, request, timeout_ms=cluster.timeout_ms, version=version)
        raise_about(response.error_code, f"fetch of {topic_partition}")
        for answered in response.responses:
            for row in answered.partitions:
                raise_about(row.error_code, f"fetch of {topic_partition} at {offset}")
                return {topic_partition: bytes(row.records or b"")}
        return {topic_partition: b""}

    return (await cluster.by_leader([topic_partition], ask))[topic_partition]


def all_or_raise(results: Mapping[TopicPartition, T | ApiException]) -> dict[TopicPartition, T]:
    """Returns every result, or raises the first that failed."""
    values: dict[TopicPartition, T] = {}
    for name, result in results.items():
        if isinstance(result, ApiException):
            raise ApiException(result.error, f"{name}: {result.message}")
        values[name] = result
    return values
