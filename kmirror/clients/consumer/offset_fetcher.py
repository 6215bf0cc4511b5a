"""Questions to leaders about offsets: ListOffsets, and OffsetForLeaderEpoch (Kafka's
`OffsetFetcher`).

One request per leader, all leaders at once. Partitions that fail in a way that another try may mend
come back as not answered; the caller asks again. What no try mends is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kmirror.clients.cluster_client import ClusterClient, LeaderAndEpoch, Node
from kmirror.clients.consumer.fetch_state import FetchPosition
from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, run_together
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic

CONSUMER_REPLICA: Final = -1
FIRST_EPOCH_VERSION_FOR_CONSUMERS: Final = 3
"""Below it OffsetForLeaderEpoch needs the right to alter the cluster (KIP-320)."""
AGAIN: Final = frozenset(
    (
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.OFFSET_NOT_AVAILABLE,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    )
)


class FoundOffset(NamedTuple):
    """An answer of ListOffsets; offset -1: there is no such record."""

    offset: int
    timestamp: int
    leader_epoch: int


class FoundEnd(NamedTuple):
    """An answer of OffsetForLeaderEpoch; -1 where the leader does not know."""

    leader_epoch: int
    end_offset: int


class OffsetFetcher:
    """Asks; keeps nothing."""

    def __init__(self, runtime: Runtime, cluster: ClusterClient, *, isolation_level: int, request_timeout_ms: int) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._request_timeout_ms = request_timeout_ms

    async def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """One try for the offsets of these timestamps (ms, or -1 and -2). Partitions that are
        missing in the result are to be asked again."""
        found: dict[TopicPartition, FoundOffset] = {}

        async def ask(node: Node, partitions: dict[TopicPartition, LeaderAndEpoch]) -> None:
            topics: dict[str, ListOffsetsTopic] = {}
            for partition, leader in partitions.items():
                row = ListOffsetsPartition(
                    partition_index=partition.partition, current_leader_epoch=leader.epoch, timestamp=timestamps[partition]
                )
                topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic)).partitions.append(row)
            request = ListOffsetsRequest(
                replica_id=CONSUMER_REPLICA,
                isolation_level=self._isolation_level,
                topics=list(topics.values()),
                timeout_ms=self._request_timeout_ms,
            )
            response = await self._cluster.ask(node, request)
            for topic in response.topics:
                for answer in topic.partitions:
                    partition = TopicPartition(topic.name, answer.partition_index)
                    if answer.error_code == Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                        found[partition] = FoundOffset(-1, -1, NO_EPOCH)
                    elif self._is_usable(partition, Errors.for_code(answer.error_code), partitions):
                        found[partition] = FoundOffset(answer.offset, answer.timestamp, answer.leader_epoch)

        await self._ask_leaders(timestamps, ask)
        return found

    async def list_all_offsets(self, timestamps: Mapping[TopicPartition, int], timeout_ms: int) -> dict[TopicPartition, FoundOffset]:
        """Asks until every partition is answered. ApiException with REQUEST_TIMED_OUT."""
        found: dict[TopicPartition, FoundOffset] = {}

        async def attempt() -> None:
            missing = {partition: timestamp for partition, timestamp in timestamps.items() if partition not in found}
            found.update(await self.list_offsets(missing))
            if len(found) < len(timestamps):
                raise ApiException(Errors.REQUEST_TIMED_OUT, f"Failed to get offsets by times in {timeout_ms}ms")

        await self._cluster.retry(attempt, timeout_ms)
        return {partition: found[partition] for partition in timestamps}

    async def epoch_ends(self, positions: Mapping[TopicPartition, FetchPosition]) -> dict[TopicPartition, FoundEnd | None]:
        """One try for where the leaders' logs end the epochs of these positions. None for a
        partition whose leader cannot tell; missing ones are to be asked again."""
        found: dict[TopicPartition, FoundEnd | None] = {}

        async def ask(node: Node, partitions: dict[TopicPartition, LeaderAndEpoch]) -> None:
            version = await self._cluster.api_version(node, OffsetForLeaderEpochRequest.API_KEY)
            if version < FIRST_EPOCH_VERSION_FOR_CONSUMERS:
                found.update(dict.fromkeys(partitions))
                return
            topics: dict[str, OffsetForLeaderTopic] = {}
            for partition in partitions:
                position = positions[partition]
                row = OffsetForLeaderPartition(
                    partition=partition.partition, current_leader_epoch=position.leader.epoch, leader_epoch=position.offset_epoch
                )
                topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic)).partitions.append(row)
            request = OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA, topics=list(topics.values()))
            response = await self._cluster.ask(node, request, version=version)
            for topic in response.topics:
                for answer in topic.partitions:
                    partition = TopicPartition(topic.topic, answer.partition)
                    if self._is_usable(partition, Errors.for_code(answer.error_code), partitions):
                        found[partition] = FoundEnd(answer.leader_epoch, answer.end_offset)

        await self._ask_leaders(positions, ask)
        return found

    def _is_usable(self, partition: TopicPartition, error: Errors, asked: Mapping[TopicPartition, LeaderAndEpoch]) -> bool:
        if error is Errors.NONE:
            return partition in asked
        if error is Errors.TOPIC_AUTHORIZATION_FAILED:
            raise ApiException(error, f"Not authorized to access topics: [{partition.topic}]")
        if error not in AGAIN and not error.retriable:
            raise ApiException(error, f"{partition}: {error.message}")
        if partition in asked:
            self._cluster.forget_leader(partition, asked[partition])
        return False

    async def _ask_leaders(self, partitions: Iterable[TopicPartition], ask: Any) -> None:
        wanted = list(partitions)
        unknown = sorted({partition.topic for partition in wanted if self._cluster.known_leader(partition) is None})
        if unknown:
            await self._cluster.request_update(unknown)
        by_node: dict[int, tuple[Node, dict[TopicPartition, LeaderAndEpoch]]] = {}
        for partition in wanted:
            leader = self._cluster.known_leader(partition)
            if leader is None:
                error = self._cluster.topic_error(partition.topic)
                if error is not Errors.NONE and not error.retriable:
                    self._is_usable(partition, error, {})
                continue
            by_node.setdefault(leader.leader.id, (leader.leader, {}))[1][partition] = leader

        async def ask_one(node: Node, of_node: dict[TopicPartition, LeaderAndEpoch]) -> None:
            try:
                await ask(node, of_node)
            except ApiException as error:
                if not error.error.retriable:
                    raise
                for partition, leader in of_node.items():
                    self._cluster.forget_leader(partition, leader)

        if by_node:
            await run_together(self._runtime, "ask-leaders", [ask_one(node, of_node) for node, of_node in by_node.values()])
