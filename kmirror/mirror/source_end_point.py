"""A broker of a source cluster as a fetcher sees it: the remote `LeaderEndPoint`.

All requests are a consumer's: replica id -1, so that the source keeps no follower state for us; READ_COMMITTED, so that only
decided data is mirrored (MFT); no MirrorLeaderEpoch (RS14). The version is negotiated per connection: topic ids from Fetch
v13 on, lastFetchedEpoch and diverging epochs from v12 on; older sources are asked by name, and what they cannot tell is
found out by OffsetForLeaderEpoch and by comparing batches (`log_verifier`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kmirror.common.errors import Errors
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source_cluster import SourceError, SourceNode
from kmirror.mirror.source_fetch_session import FetchPosition
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.client_metrics import ClientMetrics
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import fetch, list_offsets, offset_for_leader_epoch
from kmirror.wire.primitives import ProtocolReadError

CONSUMER_REPLICA_ID = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
EARLIEST_TIMESTAMP = -2
MAX_FETCH_VERSION = 18
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_FETCHED_EPOCH = 12


class FetchedPartition(NamedTuple):
    """The source's answer for one partition."""

    error: Errors
    high_watermark: int
    log_start_offset: int
    records: Buffer
    diverging_epoch: int
    diverging_end_offset: int


class SourceEndPoint:
    """One source broker, over connections of one fetcher. SourceError: no answer."""

    def __init__(self, client: NetworkClient, node: SourceNode, config: MirrorConfig) -> None:
        self._client = client
        self.node = node
        self._config = config

    async def fetch(self, positions: Mapping[TopicPartition, FetchPosition]) -> dict[TopicPartition, FetchedPartition]:
        """Everything decided from `positions` on, waiting up to replica.fetch.wait.max.ms for replica.fetch.min.bytes."""
        return await self._fetch(
            positions,
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
            isolation=READ_COMMITTED,
        )

    async def fetch_batch(self, topic_partition: TopicPartition, position: FetchPosition, size: int) -> FetchedPartition:
        """The batch at an offset, decided or not: only to compare it with ours."""
        fetched = await self._fetch(
            {topic_partition: position}, max_wait_ms=0, min_bytes=0, partition_max_bytes=size, isolation=READ_UNCOMMITTED
        )
        if topic_partition not in fetched:
            raise SourceError(f"source broker {self.node.id} left {topic_partition} out of its answer to Fetch")
        return fetched[topic_partition]

    async def earliest_offset(self, topic_partition: TopicPartition, source_epoch: int) -> int:
        """The source's log start offset."""
        partition = list_offsets.ListOffsetsPartition(
            partition_index=topic_partition.partition, current_leader_epoch=source_epoch, timestamp=EARLIEST_TIMESTAMP
        )
        topics = [list_offsets.ListOffsetsTopic(name=topic_partition.topic, partitions=[partition])]
        request = list_offsets.ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, isolation_level=READ_UNCOMMITTED, topics=topics)
        response = await self._send(request)
        row = response.topics[0].partitions[0]
        if row.error_code:
            raise SourceError(f"ListOffsets of {topic_partition}", Errors.for_code(row.error_code))
        return int(row.offset)

    async def epoch_end_offset(self, topic_partition: TopicPartition, source_epoch: int, leader_epoch: int) -> tuple[int, int]:
        """(largest epoch <= `leader_epoch` that the source has, its end offset); (-1, -1) when it has none."""
        partition = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=topic_partition.partition, current_leader_epoch=source_epoch, leader_epoch=leader_epoch
        )
        topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic_partition.topic, partitions=[partition])]
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=topics)
        response = await self._send(request)
        row = response.topics[0].partitions[0]
        if row.error_code:
            raise SourceError(f"OffsetForLeaderEpoch of {topic_partition}", Errors.for_code(row.error_code))
        return int(row.leader_epoch), int(row.end_offset)

    @property
    def client_metrics(self) -> ClientMetrics:
        """What the connection counts."""
        return self._client.metrics

    def close(self) -> None:
        self._client.close()

    async def _fetch(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        *,
        max_wait_ms: int,
        min_bytes: int,
        partition_max_bytes: int,
        isolation: int,
    ) -> dict[TopicPartition, FetchedPartition]:
        max_version = MAX_FETCH_VERSION
        if not all(position.topic_id for position in positions.values()):
            max_version = FIRST_VERSION_WITH_TOPIC_IDS - 1
        version = await self._fetch_version(max_version)
        topics: dict[str, fetch.FetchTopic] = {}
        for (name, number), position in positions.items():
            topic = topics.setdefault(name, fetch.FetchTopic(topic=name, topic_id=position.topic_id, partitions=[]))
            last_fetched_epoch = position.last_fetched_epoch if version >= FIRST_VERSION_WITH_FETCHED_EPOCH else -1
            topic.partitions.append(
                fetch.FetchPartition(
                    partition=number,
                    current_leader_epoch=position.source_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=last_fetched_epoch,
                    partition_max_bytes=partition_max_bytes,
                )
            )
        request = fetch.FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            isolation_level=isolation,
            topics=list(topics.values()),
        )
        response = await self._send(request, version=version)
        if response.error_code:
            raise SourceError(f"Fetch from source broker {self.node.id}", Errors.for_code(response.error_code))
        names = {topic.topic_id: topic.topic for topic in topics.values()} if version >= FIRST_VERSION_WITH_TOPIC_IDS else {}
        result = {}
        for answered in response.responses:
            name = names.get(answered.topic_id, answered.topic)
            for data in answered.partitions:
                result[TopicPartition(name, data.partition_index)] = FetchedPartition(
                    Errors.for_code(data.error_code),
                    data.high_watermark,
                    data.log_start_offset,
                    data.records or b"",
                    data.diverging_epoch.epoch,
                    data.diverging_epoch.end_offset,
                )
        return result

    async def _fetch_version(self, max_version: int) -> int:
        try:
            return await self._client.api_version(
                self.node.host, self.node.port, ApiKeys.FETCH, timeout_ms=self._config.request_timeout_ms, max_version=max_version
            )
        except (DisconnectError, RequestTimeoutError, UnsupportedVersionError) as error:
            raise SourceError(f"source broker {self.node.host}:{self.node.port}: {error}") from error

    async def _send(self, request: Any, *, version: int | None = None) -> Any:
        try:
            return await self._client.send(
                self.node.host, self.node.port, request, timeout_ms=self._config.request_timeout_ms, version=version
            )
        except (DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError) as error:
            raise SourceError(f"source broker {self.node.host}:{self.node.port}: {error}") from error
