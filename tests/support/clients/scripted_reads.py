"""What a consumer asks of a `ScriptedCluster`: logs to fetch, offsets, and a group whose only member
it is, in both protocols.

A test sets what is assigned and calls `rebalance`. `fail` makes the next requests of an API fail,
and `hold` makes one wait until the test lets it go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kmirror.clients.consumer.consumer_protocol import serialize_assignment
from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from kmirror.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kmirror.wire.messages.heartbeat import HeartbeatResponse
from kmirror.wire.messages.join_group import JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupResponse
from kmirror.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse
from kmirror.wire.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic
from kmirror.wire.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kmirror.wire.messages.sync_group import SyncGroupResponse
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.waiting import REACHED_S

FETCH_WAIT_MS = 50
MEMBER = "member-1"


def consumer(cluster: ScriptedCluster, protocol: str, **settings: object) -> KafkaConsumer:
    """A member of the group g; an underscore in a setting's name stands for a dot."""
    own = {"group.id": "g", "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    if protocol == "classic":
        own |= {"heartbeat.interval.ms": "100"}
    return KafkaConsumer(cluster.runtime, cluster.props(0) | own | {name.replace("_", "."): value for name, value in settings.items()})


async def read(reader: KafkaConsumer, count: int) -> list[tuple[int, int]]:
    """(partition, offset) of the next records."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(REACHED_S):
        while len(found) < count:
            found += [(record.partition, record.offset) for record in await reader.poll(1_000)]
    return found


class ScriptedReads:
    """Serves topics with ids, each partition a list of values that begins at offset 0."""

    def __init__(self, cluster: ScriptedCluster, **topics: int) -> None:
        """`topics`: how many partitions each has."""
        self.cluster = cluster
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self._names: dict[Uuid, str] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.commits: list[dict[TopicPartition, int]] = []
        self.assigned: list[TopicPartition] = []
        self.epoch = 1
        self.heartbeat_ms = 100
        self._told: tuple[int, tuple[TopicPartition, ...]] | None = None
        self._errors: dict[int, list[Errors]] = {}
        self._held: dict[int, tuple[asyncio.Future[None], asyncio.Future[None]]] = {}
        for name, count in topics.items():
            self.add_topic(name, count)
        handlers: dict[int, Callable] = {
            ApiKeys.FETCH: self._fetch,
            ApiKeys.LIST_OFFSETS: self._list_offsets,
            ApiKeys.OFFSET_FETCH: self._offset_fetch,
            ApiKeys.OFFSET_COMMIT: self._offset_commit,
            ApiKeys.JOIN_GROUP: self._join,
            ApiKeys.SYNC_GROUP: self._sync,
            ApiKeys.HEARTBEAT: self._heartbeat,
            ApiKeys.LEAVE_GROUP: lambda node_id, request: LeaveGroupResponse(),
            ApiKeys.CONSUMER_GROUP_HEARTBEAT: self._consumer_heartbeat,
        }
        for key, handler in handlers.items():
            cluster.handlers[key] = self._served(key, handler)

    def add_topic(self, name: str, partitions: int = 1) -> None:
        number = len(self.cluster.topics) + 1
        topic_id = Uuid(number.to_bytes(16, "big"))
        self.cluster.topics[name] = ScriptedTopic(dict.fromkeys(range(partitions), 0), topic_id=topic_id)
        self._names[topic_id] = name
        for partition in range(partitions):
            self.logs[TopicPartition(name, partition)] = []

    def fill(self, partition: TopicPartition, count: int) -> None:
        log = self.logs[partition]
        log += [b"%d" % (len(log) + index) for index in range(count)]

    def rebalance(self, *partitions: TopicPartition) -> None:
        """The member is to have these from now on."""
        self.assigned = list(partitions)
        self.epoch += 1

    def fail(self, api_key: int, *errors: Errors) -> None:
        self._errors.setdefault(api_key, []).extend(errors)

    def hold(self, api_key: int) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        """(set when the next request of this API is there, set by the test to let it go on)."""
        runtime = self.cluster.runtime
        self._held[api_key] = held = runtime.create_future(), runtime.create_future()
        return held

    def _served(self, api_key: int, handler: Callable) -> Callable:
        async def serve(node_id: int, request):
            held = self._held.pop(api_key, None)
            if held is not None:
                held[0].set_result(None)
                await held[1]
            errors = self._errors.get(api_key)
            self.error = errors.pop(0) if errors else Errors.NONE
            answer = handler(node_id, request)
            return await answer if hasattr(answer, "__await__") else answer

        return serve

    def _name(self, topic) -> str:
        """Of a topic that is there, or was."""
        return topic.topic or self._names[topic.topic_id]

    async def _fetch(self, node_id: int, request) -> FetchResponse:
        responses, has_data = [], False
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                if self._name(topic) not in self.cluster.topics:
                    rows.append(PartitionData(partition_index=asked.partition, error_code=Errors.UNKNOWN_TOPIC_ID))
                    continue
                log = self.logs[TopicPartition(self._name(topic), asked.partition)]
                records = [Record(offset, 1000, None, log[offset], []) for offset in range(asked.fetch_offset, len(log))]
                data = bytes(build_batch(records, base_offset=asked.fetch_offset, partition_leader_epoch=0)) if records else b""
                error = Errors.NONE if asked.fetch_offset <= len(log) else Errors.OFFSET_OUT_OF_RANGE
                has_data = has_data or bool(data or error)
                rows.append(
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=error,
                        records=data,
                        high_watermark=len(log),
                        last_stable_offset=len(log),
                        log_start_offset=0,
                    )
                )
            responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=rows))
        if not has_data:
            await self.cluster.runtime.sleep_ms(FETCH_WAIT_MS)
        return FetchResponse(responses=responses)

    def _list_offsets(self, node_id: int, request) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                end = len(self.logs[TopicPartition(topic.name, asked.partition_index)])
                offset = 0 if asked.timestamp == -2 else end
                rows.append(ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=offset, leader_epoch=0))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _offset_fetch(self, node_id: int, request) -> OffsetFetchResponse:
        (group,) = request.groups
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=number, committed_offset=self.committed.get(TopicPartition(topic.name, number), -1)
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics
        ]
        error = self.error
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=error)])

    def _offset_commit(self, node_id: int, request) -> OffsetCommitResponse:
        error = self.error
        offsets = {
            TopicPartition(topic.name, row.partition_index): row.committed_offset for topic in request.topics for row in topic.partitions
        }
        if not error:
            self.commits.append(offsets)
            self.committed |= offsets
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error) for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    # The classic protocol: another member leads, so this one is only told what it gets

    def _join(self, node_id: int, request) -> JoinGroupResponse:
        self._told = self.epoch, tuple(self.assigned)
        return JoinGroupResponse(
            error_code=self.error,
            generation_id=self.epoch,
            protocol_type="consumer",
            protocol_name=request.protocols[0].name,
            leader="another",
            member_id=MEMBER,
        )

    def _sync(self, node_id: int, request) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=self.error, assignment=serialize_assignment(self.assigned))

    def _heartbeat(self, node_id: int, request) -> HeartbeatResponse:
        error = self.error
        if not error and request.generation_id != self.epoch:
            error = Errors.REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=error)

    # KIP-848

    def _consumer_heartbeat(self, node_id: int, request) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        if self.error:
            return ConsumerGroupHeartbeatResponse(error_code=self.error)
        now = self.epoch, tuple(self.assigned)
        assignment = None
        if now != self._told or request.member_epoch == 0:
            numbers: dict[str, list[int]] = {}
            for partition in self.assigned:
                numbers.setdefault(partition.topic, []).append(partition.partition)
            rows = [
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=self.cluster.topics[name].topic_id, partitions=partitions)
                for name, partitions in numbers.items()
            ]
            assignment = Assignment(topic_partitions=rows)
        self._told = now
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=self.epoch, heartbeat_interval_ms=self.heartbeat_ms, assignment=assignment
        )
