"""A source cluster that the test scripts. There are no sockets, and time passes only when the test
advances it.

`ScriptedSource` answers Fetch (with sessions and long polls), Metadata, ListOffsets and
OffsetForLeaderEpoch as brokers of a given version do, from logs that are lists of batches. Every
request and answer is encoded and decoded in the version that both sides speak. A test moves
leaders, cuts logs, returns false answers (`override`), and looks at `fetches`.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import describe_mirrors, fetch, list_offsets, metadata, offset_for_leader_epoch
from support.brokers.broker_doubles import NOW_MS

NEWEST = {
    ApiKeys.FETCH: 18,
    ApiKeys.METADATA: 13,
    ApiKeys.LIST_OFFSETS: 10,
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKeys.DESCRIBE_MIRRORS: 0,
}
KAFKA_3_9 = {ApiKeys.FETCH: 17, ApiKeys.METADATA: 12, ApiKeys.LIST_OFFSETS: 9, ApiKeys.OFFSET_FOR_LEADER_EPOCH: 4}
KAFKA_2_8 = {ApiKeys.FETCH: 12, ApiKeys.METADATA: 11, ApiKeys.LIST_OFFSETS: 6, ApiKeys.OFFSET_FOR_LEADER_EPOCH: 4}
KAFKA_2_1 = {ApiKeys.FETCH: 10, ApiKeys.METADATA: 7, ApiKeys.LIST_OFFSETS: 4, ApiKeys.OFFSET_FOR_LEADER_EPOCH: 2}
FIRST_METADATA_WITH_IDS = 10
SOURCE_CLUSTER_ID = "lBq12jYZRp-9wF3M9MPopg"


def batch(offset: int, *values: bytes, epoch: int = 0, **options: Any) -> bytes:
    """Returns a batch of the source: `values` from `offset` on, written in leader epoch `epoch`."""
    records = [Record(offset + index, NOW_MS + offset + index, None, value) for index, value in enumerate(values)]
    return bytes(build_batch(records, base_offset=offset, partition_leader_epoch=epoch, **options))


def frame_of(parts: list[Any]) -> memoryview:
    return memoryview(b"".join(part if isinstance(part, (bytes, bytearray, memoryview)) else part.to_bytes() for part in parts))[4:]


@dataclass
class SourceLog:
    """A partition at the source.

    `high_watermark` and `last_stable_offset` are the log end while they are None.
    """

    leader: int = 1
    epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    error: Errors = Errors.NONE
    tells_leader: bool = True

    @property
    def end(self) -> int:
        if not self.batches:
            return self.start
        last = self.batches[-1]
        return int.from_bytes(last[:8], "big") + 1 if last[16] < 2 else RecordBatch(last).next_offset

    @property
    def decided(self) -> int:
        visible = self.end if self.high_watermark is None else self.high_watermark
        return visible if self.last_stable_offset is None else min(visible, self.last_stable_offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Returns the epoch and end offset of Kafka's answer to OffsetForLeaderEpoch."""
        if epoch == self.epoch:
            return epoch, self.end
        known = [int.from_bytes(each[12:16], "big") for each in self.batches]
        at_most = [each for each in known if each <= epoch]
        if epoch > self.epoch or not at_most:
            return -1, -1
        above = [index for index, each in enumerate(known) if each > epoch]
        return max(at_most), RecordBatch(self.batches[above[0]]).base_offset if above else self.end


@dataclass
class _Session:
    epoch: int
    partitions: dict[tuple[Any, int], Any]
    told: dict[tuple[Any, int], tuple[int, int]] = field(default_factory=dict)


class ScriptedSource:
    """The source cluster. `versions` has the highest version of each API that its brokers serve."""

    def __init__(self, runtime: Any, versions: dict[ApiKeys, int] | None = None, *, brokers: int = 1, sessions: int = 1000) -> None:
        self.runtime = runtime
        self.versions = dict(versions or NEWEST)
        self.cluster_id = SOURCE_CLUSTER_ID
        self.addresses = {number: (f"source-{number}", 9092) for number in range(1, brokers + 1)}
        self.down: set[tuple[str, int]] = set()
        self.topic_ids: dict[str, Uuid] = {}
        self.logs: dict[TopicPartition, SourceLog] = {}
        self.mirrored_topics: set[str] = set()
        self.requests: list[tuple[tuple[str, int], str, int, Any]] = []
        self.throttle_time_ms = 0
        self.override: Callable[[Any], Any] | None = None
        """Answers a request in place of the source, unless it returns None.

        An exception that it returns is raised in the client.
        """
        self._room_for_sessions = sessions
        self._sessions: dict[int, _Session] = {}
        self._waiters: list[asyncio.Future[None]] = []

    def create(self, topic: str, *, partitions: int = 1, leader: int = 1) -> None:
        self.topic_ids[topic] = Uuid.random(self.runtime.random)
        for number in range(partitions):
            self.logs[TopicPartition(topic, number)] = SourceLog(leader=leader)

    def log(self, topic: str, number: int = 0) -> SourceLog:
        return self.logs[TopicPartition(topic, number)]

    def append(self, topic: str, *values: bytes, partition: int = 0, epoch: int | None = None) -> None:
        log = self.log(topic, partition)
        log.batches.append(batch(log.end, *values, epoch=log.epoch if epoch is None else epoch))
        self.notify()

    def notify(self) -> None:
        """Lets waiting long polls look at the logs again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def elect(self, topic: str, number: int = 0, *, leader: int, epoch: int) -> None:
        log = self.log(topic, number)
        log.leader, log.epoch = leader, epoch
        self.notify()

    def forget_sessions(self) -> None:
        self._sessions.clear()

    def fetches(self, *, long_polls: bool = True) -> list[Any]:
        """Returns the Fetch requests of fetchers.

        Without `long_polls` it returns those that read single batches for a comparison instead.
        """
        return [
            request
            for _, _, _, request in self.requests
            if isinstance(request, fetch.FetchRequest) and (request.isolation_level == 1) == long_polls
        ]

    def count(self, kind: type) -> int:
        return sum(isinstance(request, kind) for _, _, _, request in self.requests)

    async def answer(self, address: tuple[str, int], request: Any, version: int) -> Any:
        if self.override is not None:
            given = self.override(request)
            if isinstance(given, Exception):
                raise given
            if given is not None:
                return given
        if isinstance(request, metadata.MetadataRequest):
            return self._metadata(request, version)
        if isinstance(request, list_offsets.ListOffsetsRequest):
            return self._list_offsets(request)
        if isinstance(request, offset_for_leader_epoch.OffsetForLeaderEpochRequest):
            return self._end_of_epochs(request)
        if isinstance(request, describe_mirrors.DescribeMirrorsRequest):
            topics = [describe_mirrors.TopicPartitions(topic_name=name, partitions=[]) for name in sorted(self.mirrored_topics)]
            return describe_mirrors.DescribeMirrorsResponse(
                mirrors=[describe_mirrors.DescribedMirror(error_code=0, mirror_name="upstream", topics=topics)]
            )
        return await self._fetch(address, request, version)

    def _metadata(self, request: metadata.MetadataRequest, version: int) -> Any:
        names = sorted(self.topic_ids) if request.topics is None else [topic.name for topic in request.topics]
        topics = []
        for name in names:
            if name not in self.topic_ids:
                topics.append(metadata.MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[]))
                continue
            rows = [
                metadata.MetadataResponsePartition(
                    error_code=0,
                    partition_index=tp.partition,
                    leader_id=log.leader,
                    leader_epoch=log.epoch if version >= 7 else -1,
                    replica_nodes=[log.leader],
                    isr_nodes=[log.leader],
                    offline_replicas=[],
                )  # fmt: skip
                for tp, log in self.logs.items()
                if tp.topic == name
            ]
            topic_id = self.topic_ids[name] if version >= FIRST_METADATA_WITH_IDS else Uuid.ZERO
            topics.append(metadata.MetadataResponseTopic(error_code=0, name=name, topic_id=topic_id, partitions=rows))
        brokers = [
            metadata.MetadataResponseBroker(node_id=number, host=host, port=port)
            for number, (host, port) in self.addresses.items()
        ]  # fmt: skip
        return metadata.MetadataResponse(cluster_id=self.cluster_id, controller_id=1, brokers=brokers, topics=topics)

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest) -> Any:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                log = self.log(topic.name, asked.partition_index)
                rows.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=0, timestamp=-1, offset=log.start, leader_epoch=-1
                    )
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return list_offsets.ListOffsetsResponse(topics=topics)

    def _end_of_epochs(self, request: offset_for_leader_epoch.OffsetForLeaderEpochRequest) -> Any:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                epoch, end = self.log(topic.topic, asked.partition).end_of_epoch(asked.leader_epoch)
                rows.append(
                    offset_for_leader_epoch.EpochEndOffset(
                        error_code=0, partition=asked.partition, leader_epoch=epoch, end_offset=end
                    )
                )  # fmt: skip
            topics.append(offset_for_leader_epoch.OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        return offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=topics)

    async def _fetch(self, address: tuple[str, int], request: fetch.FetchRequest, version: int) -> Any:
        if self.throttle_time_ms:
            return fetch.FetchResponse(throttle_time_ms=self.throttle_time_ms, responses=[])
        session_id, partitions, told, error = self._session(request, version)
        if error is not Errors.NONE:
            return fetch.FetchResponse(error_code=error, responses=[])
        deadline_ms = self.runtime.clock.monotonic_ms() + request.max_wait_ms
        while True:
            rows, has_data = self._read(address, request, version, partitions, told)
            now_ms = self.runtime.clock.monotonic_ms()
            if has_data or now_ms >= deadline_ms:
                break
            waiter = self.runtime.create_future()
            self._waiters.append(waiter)
            timer = self.runtime.call_later_ms(deadline_ms - now_ms, lambda waiter=waiter: waiter.done() or waiter.set_result(None))
            await waiter
            timer.cancel()
        topics: dict[Any, fetch.FetchableTopicResponse] = {}
        for (topic, number), row in rows:
            key = {"topic_id": topic} if version >= 13 else {"topic": topic}
            answered = topics.setdefault(topic, fetch.FetchableTopicResponse(**key, partitions=[]))
            answered.partitions.append(row)
            told[topic, number] = (row.high_watermark, row.log_start_offset)
        endpoints = []
        if version >= 16:
            named = sorted({row.current_leader.leader_id for _, row in rows if row.current_leader.leader_id in self.addresses})
            endpoints = [
                fetch.NodeEndpoint(node_id=number, host=self.addresses[number][0], port=self.addresses[number][1]) for number in named
            ]
        return fetch.FetchResponse(session_id=session_id, responses=list(topics.values()), node_endpoints=endpoints)

    def _session(self, request: fetch.FetchRequest, version: int) -> tuple[int, dict[tuple[Any, int], Any], dict[Any, Any], Errors]:
        asked = {
            (topic.topic_id if version >= 13 else topic.topic, row.partition): row for topic in request.topics for row in topic.partitions
        }
        if request.session_epoch == -1:
            return 0, asked, {}, Errors.NONE
        if request.session_epoch == 0:
            self._sessions.pop(request.session_id, None)
            if len(self._sessions) >= self._room_for_sessions:
                return 0, asked, {}, Errors.NONE
            session_id = 1000 + len(self.requests)
            session = self._sessions[session_id] = _Session(1, asked)
            return session_id, session.partitions, session.told, Errors.NONE
        session = self._sessions.get(request.session_id)
        if session is None:
            return 0, {}, {}, Errors.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return 0, {}, {}, Errors.INVALID_FETCH_SESSION_EPOCH
        session.epoch += 1
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                session.partitions.pop((gone.topic_id if version >= 13 else gone.topic, number), None)
        session.partitions.update(asked)
        return request.session_id, session.partitions, session.told, Errors.NONE

    def _read(
        self,
        address: tuple[str, int],
        request: fetch.FetchRequest,
        version: int,
        partitions: dict[tuple[Any, int], Any],
        told: dict[Any, Any],
    ) -> tuple[list[tuple[tuple[Any, int], Any]], bool]:
        rows, has_data, room = [], False, request.max_bytes
        is_full = request.session_epoch <= 0
        for (topic, number), asked in partitions.items():
            row = self._read_partition(address, request, version, topic, asked, room)
            room -= len(row.records)
            news = bool(row.records) or row.error_code != 0 or row.diverging_epoch.epoch >= 0
            has_data |= news
            if is_full or news or told.get((topic, number)) != (row.high_watermark, row.log_start_offset):
                rows.append(((topic, number), row))
        return rows, has_data

    def _read_partition(self, address: tuple[str, int], request: Any, version: int, topic: Any, asked: Any, room: int) -> Any:
        def row(error: Errors, log: SourceLog | None = None, records: bytes = b"", **more: Any) -> Any:
            leader = fetch.LeaderIdAndEpoch()
            if (
                error in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)
                and log is not None
                and log.tells_leader
                and version >= 12
            ):
                leader = fetch.LeaderIdAndEpoch(leader_id=log.leader, leader_epoch=log.epoch)
            high_watermark = -1 if log is None or error else (log.end if log.high_watermark is None else log.high_watermark)
            return fetch.PartitionData(
                partition_index=asked.partition, error_code=error, high_watermark=high_watermark,
                last_stable_offset=-1 if log is None or error else log.decided, log_start_offset=-1 if log is None or error else log.start,
                current_leader=leader, records=records, **more,
            )  # fmt: skip

        names = {topic_id: name for name, topic_id in self.topic_ids.items()} if version >= 13 else {name: name for name in self.topic_ids}
        name = names.get(topic)
        if name is None:
            return row(Errors.UNKNOWN_TOPIC_ID if version >= 13 else Errors.UNKNOWN_TOPIC_OR_PARTITION)
        log = self.log(name, asked.partition)
        if log.error is not Errors.NONE:
            return row(log.error, log)
        if self.addresses.get(log.leader) != address:
            return row(Errors.NOT_LEADER_OR_FOLLOWER, log)
        if version >= 9 and asked.current_leader_epoch >= 0 and asked.current_leader_epoch != log.epoch:
            return row(Errors.FENCED_LEADER_EPOCH if asked.current_leader_epoch < log.epoch else Errors.UNKNOWN_LEADER_EPOCH, log)
        if version >= 12 and asked.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                return row(Errors.NONE, log, diverging_epoch=fetch.EpochEndOffset(epoch=epoch, end_offset=end))
        if not log.start <= asked.fetch_offset <= log.end:
            return row(Errors.OFFSET_OUT_OF_RANGE, log)
        limit = log.decided if request.isolation_level == 1 else (log.end if log.high_watermark is None else log.high_watermark)
        records, size_limit = b"", min(asked.partition_max_bytes, max(room, 1))
        starts = [int.from_bytes(each[:8], "big") for each in log.batches]
        for each in log.batches[max(0, bisect.bisect_right(starts, asked.fetch_offset) - 1) :]:
            if records and len(records) + len(each) > size_limit:
                break
            if each[16] < 2 or asked.fetch_offset <= RecordBatch(each).last_offset < limit:
                records += each
        return row(Errors.NONE, log, records)


def read_log(log: Any) -> bytes:
    """Returns every batch of a log, byte for byte as on disk."""
    if log.log_end_offset == log.log_start_offset:
        return b""
    return bytes(log.read(log.log_start_offset, 1 << 30, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes())


def offsets(data: bytes) -> list[int]:
    """Returns the base offsets of the batches in `data`."""
    found, position = [], 0
    while position < len(data):
        each = RecordBatch(data, position)
        found.append(each.base_offset)
        position += each.size_in_bytes
    return found
