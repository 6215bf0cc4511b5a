"""Brokers of a `ScriptedCluster` that keep fetch sessions (KIP-227), as Kafka's do, and go wrong in
every way in which Fetch can: errors of the request and of partitions, leaders that move, sessions
that are lost, answers that end inside of a batch. Chance decides, from a seed.
"""

from __future__ import annotations

import random

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse, PartitionData
from kmirror.wire.messages.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic

BROKERS = 3
ERRORS_OF_REQUESTS = (Errors.FETCH_SESSION_ID_NOT_FOUND, Errors.INVALID_FETCH_SESSION_EPOCH, Errors.UNKNOWN_SERVER_ERROR)
ERRORS_OF_PARTITIONS = (
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.FENCED_LEADER_EPOCH,
    Errors.OFFSET_NOT_AVAILABLE,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.INCONSISTENT_TOPIC_ID,
    Errors.UNKNOWN_LEADER_EPOCH,
)
Asked = dict[TopicPartition, FetchPartition]


class ScriptedSessions:
    """Topics t0 and t1 with two partitions each; offsets have gaps, as after a compaction."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = cluster = ScriptedCluster(BROKERS, seed=seed)
        self.is_faulty = True
        self.offsets: dict[TopicPartition, list[int]] = {}
        self._batches: dict[TopicPartition, list[tuple[bytes, int, int]]] = {}  # bytes, next offset, leader epoch
        self._ends: dict[TopicPartition, int] = {}
        self._sessions: dict[tuple[int, int], tuple[int, Asked]] = {}
        self._last_session = 0
        self._names: dict[Uuid, str] = {}
        for number in range(2):
            topic_id, name = Uuid(bytes((number + 1,)) * 16), f"t{number}"
            cluster.topics[name] = ScriptedTopic({0: 0, 1: 1}, {0: 0, 1: 0}, topic_id=topic_id)
            self._names[topic_id] = name
            for partition in (TopicPartition(name, 0), TopicPartition(name, 1)):
                self.offsets[partition], self._batches[partition], self._ends[partition] = [], [], 0
        cluster.ranges[ApiKeys.FETCH] = (4, self.random.choice((12, 13, 18)))
        cluster.handlers[ApiKeys.FETCH] = self._fetch
        cluster.handlers[ApiKeys.OFFSET_FOR_LEADER_EPOCH] = self._epoch_ends

    def append(self, partition: TopicPartition) -> None:
        base = self._ends[partition]
        offsets = [offset for offset in range(base, base + self.random.randint(1, 5)) if self.random.random() > 0.2] or [base]
        epoch = self._epoch(partition)
        batch = build_batch([Record(one, 1, None, b"", []) for one in offsets], base_offset=offsets[0], partition_leader_epoch=epoch)
        self._ends[partition] = offsets[-1] + 1
        self._batches[partition].append((bytes(batch), self._ends[partition], epoch))
        self.offsets[partition] += offsets

    def go_wrong(self) -> None:
        """A leader moves, or a broker forgets its sessions."""
        partition = self.random.choice(list(self.offsets))
        if self.random.random() < 0.7:
            topic = self.cluster.topics[partition.topic]
            topic.leaders[partition.partition] = self.random.randrange(BROKERS)
            topic.epochs[partition.partition] += 1
        else:
            self._sessions.clear()

    def _epoch(self, partition: TopicPartition) -> int:
        return self.cluster.topics[partition.topic].epochs[partition.partition]

    def _error(self, node_id: int, partition: TopicPartition, epoch: int) -> Errors:
        if self.cluster.topics[partition.topic].leaders[partition.partition] != node_id:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if epoch != self._epoch(partition):
            return Errors.FENCED_LEADER_EPOCH if epoch < self._epoch(partition) else Errors.UNKNOWN_LEADER_EPOCH
        return self.random.choice(ERRORS_OF_PARTITIONS) if self.is_faulty and self.random.random() < 0.05 else Errors.NONE

    async def _fetch(self, node_id: int, request: FetchRequest) -> FetchResponse:
        await self.cluster.runtime.sleep_ms(self.random.randrange(30))
        if self.is_faulty and self.random.random() < 0.05:
            return FetchResponse(error_code=self.random.choice(ERRORS_OF_REQUESTS))
        session = self._session(node_id, request)
        if isinstance(session, Errors):
            return FetchResponse(error_code=session)
        session_id, wanted = session
        topics: dict[str, FetchableTopicResponse] = {}
        for partition in self.random.sample(list(wanted), len(wanted)):
            row = self._row(node_id, partition, wanted[partition])
            if row.records or row.error_code or request.session_epoch == 0:
                topic_id = self.cluster.topics[partition.topic].topic_id
                topic = topics.setdefault(partition.topic, FetchableTopicResponse(topic=partition.topic, topic_id=topic_id))
                topic.partitions.append(row)
        return FetchResponse(session_id=session_id, responses=list(topics.values()))

    def _session(self, node_id: int, request: FetchRequest) -> tuple[int, Asked] | Errors:
        asked = {
            TopicPartition(topic.topic or self._names[topic.topic_id], row.partition): row
            for topic in request.topics
            for row in topic.partitions
        }
        key = (node_id, request.session_id)
        if request.session_epoch == 0:
            self._sessions.pop(key, None)
            if self.random.random() < 0.2:
                return 0, asked  # the cache is full
            self._last_session += 1
            self._sessions[node_id, self._last_session] = (1, asked)
            return self._last_session, asked
        if key not in self._sessions:
            return Errors.FETCH_SESSION_ID_NOT_FOUND
        epoch, wanted = self._sessions[key]
        if epoch != request.session_epoch:
            return Errors.INVALID_FETCH_SESSION_EPOCH
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                del wanted[TopicPartition(forgotten.topic or self._names[forgotten.topic_id], number)]
        wanted |= asked
        self._sessions[key] = (epoch + 1, wanted)
        return request.session_id, wanted

    def _row(self, node_id: int, partition: TopicPartition, asked: FetchPartition) -> PartitionData:
        end = self._ends[partition]
        row = PartitionData(partition_index=partition.partition, high_watermark=end, last_stable_offset=end, log_start_offset=0)
        row.error_code = self._error(node_id, partition, asked.current_leader_epoch)
        if not row.error_code:
            left = [batch for batch, next_offset, _ in self._batches[partition] if next_offset > asked.fetch_offset]
            whole = left[: self.random.randint(0, 3)]
            cut_off = left[len(whole)][: self.random.randrange(40)] if whole and len(left) > len(whole) else b""
            row.records = b"".join(whole) + cut_off
        return row

    def _epoch_ends(self, node_id: int, request) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                partition = TopicPartition(topic.topic, asked.partition)
                error = self._error(node_id, partition, asked.current_leader_epoch)
                ends = [next_offset for _, next_offset, epoch in self._batches[partition] if epoch <= asked.leader_epoch]
                later = any(epoch > asked.leader_epoch for _, _, epoch in self._batches[partition])
                end = ends[-1] if later else self._ends[partition]
                rows.append(
                    EpochEndOffset(
                        partition=asked.partition, error_code=error, leader_epoch=asked.leader_epoch, end_offset=-1 if error else end
                    )
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        return OffsetForLeaderEpochResponse(topics=topics)
