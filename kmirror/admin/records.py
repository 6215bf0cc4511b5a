"""AdminClient on the records of partitions: offsets, deletion, raw batches, producers. Leaders are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kmirror.admin.admin_requests import T, raise_about
from kmirror.admin.results import Node
from kmirror.admin.topics import TopicAdmin
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import LATEST_TIMESTAMP, READ_UNCOMMITTED
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages import delete_records, fetch, list_offsets, offset_for_leader_epoch

MAX_FETCH_VERSION = 18


@dataclass(frozen=True, slots=True)
class ListOffsetsResultInfo:
    """What a leader says of a timestamp: -1 where there is no such record."""

    offset: int
    timestamp: int
    leader_epoch: int


class RecordAdmin(TopicAdmin):
    """Offsets and records."""

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], *, timestamp: int = LATEST_TIMESTAMP, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """The offset of each partition for `timestamp` (-1 latest: high watermark, or LSO when read_committed; -2 earliest)."""
        found = await self.list_offsets_by_spec(dict.fromkeys(partitions, timestamp), isolation_level=isolation_level)
        return {name: info.offset for name, info in all_or_raise(found).items()}

    async def list_offsets_by_spec(
        self, specs: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListOffsetsResultInfo | ApiException]:
        """For each partition what its leader says of the timestamp, or why it does not. Retriable errors are retried.

        -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 earliest local, -5 latest tiered.
        """

        async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, ListOffsetsResultInfo | ApiException]:
            topics: dict[str, list[list_offsets.ListOffsetsPartition]] = {}
            for name in group:
                entry = list_offsets.ListOffsetsPartition(partition_index=name.partition, timestamp=specs[name])
                topics.setdefault(name.topic, []).append(entry)
            request = list_offsets.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[list_offsets.ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
            )
            response = await self._send(node.host, node.port, request, self._timeout_ms)
            result: dict[TopicPartition, ListOffsetsResultInfo | ApiException] = {}
            for topic in response.topics:
                for row in topic.partitions:
                    error = Errors.for_code(row.error_code)
                    name = TopicPartition(topic.name, row.partition_index)
                    if error.retriable:
                        raise_about(error, f"offsets of {name}")
                    result[name] = ApiException(error) if error else ListOffsetsResultInfo(row.offset, row.timestamp, row.leader_epoch)
            return result

        return await self._by_leader(sorted(specs), ask)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ApiException]:
        """Delete what is before the given offset (-1: before the high watermark); the new low watermarks, or what failed."""

        async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, int | ApiException]:
            topics: dict[str, list[delete_records.DeleteRecordsPartition]] = {}
            for name in group:
                entry = delete_records.DeleteRecordsPartition(partition_index=name.partition, offset=offsets[name])
                topics.setdefault(name.topic, []).append(entry)
            request = delete_records.DeleteRecordsRequest(
                topics=[delete_records.DeleteRecordsTopic(name=name, partitions=entries) for name, entries in topics.items()],
                timeout_ms=self._timeout_ms,
            )
            response = await self._send(node.host, node.port, request, self._timeout_ms)
            result: dict[TopicPartition, int | ApiException] = {}
            for topic in response.topics:
                for row in topic.partitions:
                    error = Errors.for_code(row.error_code)
                    if error is Errors.NOT_LEADER_OR_FOLLOWER:
                        raise ApiException(error)
                    result[TopicPartition(topic.name, row.partition_index)] = ApiException(error) if error else row.low_watermark
            return result

        return await self._by_leader(sorted(offsets), ask)

    async def end_offset_of_epoch(self, topic_partition: TopicPartition, leader_epoch: int) -> int:
        """Where the next higher leader epoch begins in the leader's log, its end if there is none; -1 when it knows no such epoch."""

        async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, int]:
            entry = offset_for_leader_epoch.OffsetForLeaderPartition(partition=topic_partition.partition, leader_epoch=leader_epoch)
            topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic_partition.topic, partitions=[entry])
            request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
            response = await self._send(node.host, node.port, request, self._timeout_ms)
            (row,) = response.topics[0].partitions
            raise_about(row.error_code, f"leader epoch {leader_epoch} of {topic_partition}")
            return {topic_partition: row.end_offset}

        return (await self._by_leader([topic_partition], ask))[topic_partition]

    async def fetch_records(
        self, topic_partition: TopicPartition, offset: int, *, max_bytes: int = 1 << 20, isolation_level: int = READ_UNCOMMITTED
    ) -> bytes:
        """Raw batches of a partition from `offset` on, as the log has them, at least one if there is one; b"" at the end. Used to compare logs."""

        async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, bytes]:
            described = (await self.describe_topics([topic_partition.topic])).get(topic_partition.topic)
            if described is None:
                raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
            partition = fetch.FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
            topic = fetch.FetchTopic(topic=topic_partition.topic, topic_id=described.topic_id, partitions=[partition])
            version = await self._client.api_version(
                node.host, node.port, ApiKeys.FETCH, timeout_ms=self._timeout_ms, max_version=MAX_FETCH_VERSION
            )
            request = fetch.FetchRequest(
                replica_id=-1,
                max_bytes=max_bytes,
                isolation_level=isolation_level,
                topics=[topic],
                unknown_tagged_fields=log_reader_tag(version),
            )
            response = await self._client.send(node.host, node.port, request, timeout_ms=self._timeout_ms, version=version)
            raise_about(response.error_code, f"fetch of {topic_partition}")
            for answered in response.responses:
                for row in answered.partitions:
                    raise_about(row.error_code, f"fetch of {topic_partition} at {offset}")
                    return {topic_partition: bytes(row.records or b"")}
            return {topic_partition: b""}

        return (await self._by_leader([topic_partition], ask))[topic_partition]


def all_or_raise(results: Mapping[TopicPartition, T | ApiException]) -> dict[TopicPartition, T]:
    """Every result; the first that failed is raised."""
    values: dict[TopicPartition, T] = {}
    for name, result in results.items():
        if isinstance(result, ApiException):
            raise ApiException(result.error, f"{name}: {result.message}")
        values[name] = result
    return values
