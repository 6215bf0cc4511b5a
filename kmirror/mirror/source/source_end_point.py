"""A broker of a source cluster as a fetcher sees it: the remote `LeaderEndPoint`.

All requests are those of a consumer (RS14): replica id -1, so that the source keeps no follower
state for us; READ_COMMITTED, so that only decided data is mirrored (MFT); no MirrorLeaderEpoch. The
version is negotiated per connection (UPG8):

    Fetch v16   addresses of new leaders in the answer      v12   lastFetchedEpoch, diverging epochs, new leaders
    v13         topic ids; by name where a topic has none   v7    sessions        v9   current leader epochs

What an older source does not say in Fetch is found out with OffsetForLeaderEpoch, with Metadata and
by comparing batches (`log_verifier`). The preferred read replica (v11) is ignored: only leaders are
read.

`fetch` is the one long poll of a fetcher, in a session. Everything else is a question: one request
for all partitions that ask the same kind of thing, without a session, answered at once. A source
that throttles us (by a client quota on our client id, THR4) says for how long; until then nothing
is sent to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kmirror.common.addresses import address_text
from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, READ_COMMITTED, READ_UNCOMMITTED, UNKNOWN_OFFSET
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.source_cluster import SourceAuthenticationError, SourceError, SourceNode
from kmirror.mirror.source.source_fetch_session import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_SESSIONS,
    INVALID_SESSION_ID,
    SESSION_ERRORS,
    FetchPosition,
    SourceFetchSession,
)
from kmirror.mirror.source.throttle_spell import ThrottleSpell
from kmirror.network.client import AuthenticationError, DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.network.client_metrics import ClientMetrics
from kmirror.runtime.api import Runtime
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages import describe_producers, fetch, list_offsets, offset_for_leader_epoch
from kmirror.wire.primitives import ProtocolReadError

CONSUMER_REPLICA_ID = -1
FIRST_LIST_OFFSETS_VERSION_WITH_LOCAL_START = 8
MAX_FETCH_VERSION = 18
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_FETCHED_EPOCH = 12


class LeaderHint(NamedTuple):
    """The current leader of a partition as an answer names it; below Fetch v16 without its
    address.
    """

    leader_id: int
    leader_epoch: int
    node: SourceNode | None


class FetchedPartition(NamedTuple):
    """The source's answer for one partition."""

    error: Errors
    high_watermark: int
    log_start_offset: int
    records: Buffer
    diverging_epoch: int
    diverging_end_offset: int
    last_stable_offset: int = UNKNOWN_OFFSET
    leader: LeaderHint | None = None


class OpenProducer(NamedTuple):
    """A producer with an open transaction in a partition; `start_offset` is its first record."""

    producer_id: int
    start_offset: int
    last_timestamp: int


class EpochEnd(NamedTuple):
    """The largest epoch at or below the one asked that the source has, and its end offset; -1 and
    -1 when it has none.
    """

    epoch: int
    end_offset: int


class BatchQuestion(NamedTuple):
    """Asks for the batch at a position, expected to have `size` bytes."""

    position: FetchPosition
    size: int


class SourceEndPoint:
    """One source broker, over the connections of one fetcher: owns its fetch session and its
    throttle. SourceError: no answer.
    """

    def __init__(self, runtime: Runtime, client: NetworkClient, node: SourceNode, config: MirrorConfig) -> None:
        self.node = node
        self.session = SourceFetchSession()
        self.asks_by_name = False
        """Whether the last fetch had no topic ids: then the source does not notice that a topic was
        recreated under its name.
        """
        self._runtime = runtime
        self._client = client
        self._config = config
        self._throttled_until_ms = 0
        self.is_withheld = False
        """Whether the last fetch was answered with nothing because of a quota: such an answer says nothing of
        any partition.
        """
        self.throttle = ThrottleSpell()
        """When and for how long the source held us back by a quota."""

    @property
    def client_id(self) -> str:
        """What operators of the source set quotas on."""
        return self._client.client_id

    @property
    def client_metrics(self) -> ClientMetrics:
        """What its connection counts (MET11)."""
        return self._client.metrics

    async def fetch(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int,
        max_bytes: int,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Fetches decided data from `positions` on; returns the partitions that have news. Waits up
        to `max_wait_ms` for replica.fetch.min.bytes.

        `touched`: the partitions whose position may differ from the last call (None: all). If the
        source no longer has the session, a new one is begun at once, one time; a request error
        after that is a SourceError. Without topic ids it is a SourceError at once: topics of the
        session may have been recreated since.
        """
        try:
            return await self._fetch_in_session(positions, touched, max_wait_ms=max_wait_ms, max_bytes=max_bytes)
        except SourceError as error:
            if error.error not in SESSION_ERRORS or self.asks_by_name:
                raise
        return await self._fetch_in_session(positions, None, max_wait_ms=max_wait_ms, max_bytes=max_bytes)

    async def _fetch_in_session(
        self,
        positions: Mapping[TopicPartition, FetchPosition],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int,
        max_bytes: int,
    ) -> dict[TopicPartition, FetchedPartition]:
        version = await self._fetch_version(positions)
        session = self.session
        difference = session.difference(
            positions, touched, uses_topic_ids=not self.asks_by_name, sessions=version >= FIRST_VERSION_WITH_SESSIONS
        )
        request = fetch.FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=max_wait_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=READ_COMMITTED,
            session_id=difference.session_id,
            session_epoch=difference.epoch,
            topics=_topics(difference.changed, version, dict.fromkeys(difference.changed, self._config.replica_fetch_max_bytes)),
            forgotten_topics_data=_forgotten(difference.forgotten),
            unknown_tagged_fields=log_reader_tag(version),
        )
        try:
            response = await self._send(request, version=version)
        except SourceError:
            session.lost()
            raise
        if response.error_code:
            error = Errors.for_code(response.error_code)
            session.refused(error)
            raise SourceError(f"source broker {self.node.id} refused the fetch: {error.name}", error)
        answers = _answers(response, version, session.names)
        self.is_withheld = response.throttle_time_ms > 0 and not answers
        if session.is_full and response.throttle_time_ms > 0 and not answers:
            session.lost()  # a source that throttles us answers without anything
            return answers
        wrong = session.answered(response.session_id, answers)
        if wrong is not None:
            raise SourceError(f"source broker {self.node.id}: the fetch response does not match the request: {wrong}")
        return answers

    async def fetch_batches(self, questions: Mapping[TopicPartition, BatchQuestion]) -> dict[TopicPartition, FetchedPartition]:
        """The batches at these positions, decided or not, only for comparison with ours."""
        positions = {topic_partition: question.position for topic_partition, question in questions.items()}
        version = await self._fetch_version(positions)
        sizes = {topic_partition: question.size for topic_partition, question in questions.items()}
        request = fetch.FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max(self._config.replica_fetch_response_max_bytes, sum(sizes.values())),
            isolation_level=READ_UNCOMMITTED,
            session_id=INVALID_SESSION_ID,
            session_epoch=FINAL_EPOCH,
            topics=_topics(positions, version, sizes),
            unknown_tagged_fields=log_reader_tag(version),
        )
        response = await self._send(request, version=version)
        if response.error_code:
            error = Errors.for_code(response.error_code)
            raise SourceError(f"source broker {self.node.id} refused the fetch of single batches: {error.name}", error)
        return _answers(response, version, {position.topic_id: topic.topic for topic, position in positions.items()})

    async def earliest_offsets(
        self, source_epochs: Mapping[TopicPartition, int], *, local: bool = False
    ) -> dict[TopicPartition, int | Errors]:
        """The source's log start offsets, or errors.

        `local`: the start of what is not only in remote storage, if the source can say so.
        """
        timestamp = EARLIEST_TIMESTAMP
        if local and await self._version(ApiKeys.LIST_OFFSETS) >= FIRST_LIST_OFFSETS_VERSION_WITH_LOCAL_START:
            timestamp = EARLIEST_LOCAL_TIMESTAMP
        topics: dict[str, list_offsets.ListOffsetsTopic] = {}
        for (name, number), epoch in source_epochs.items():
            topic = topics.setdefault(name, list_offsets.ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(
                list_offsets.ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=timestamp)
            )
        request = list_offsets.ListOffsetsRequest(
            replica_id=CONSUMER_REPLICA_ID, isolation_level=READ_UNCOMMITTED, topics=list(topics.values())
        )
        response = await self._send(request)
        return {
            TopicPartition(answered.name, row.partition_index): Errors.for_code(row.error_code) if row.error_code else int(row.offset)
            for answered in response.topics
            for row in answered.partitions
        }

    async def epoch_ends(self, asked: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, EpochEnd | Errors]:
        """Where epochs end at the source.

        `asked`: (the source's current epoch, the epoch asked for) of each partition.
        """
        topics: dict[str, offset_for_leader_epoch.OffsetForLeaderTopic] = {}
        for (name, number), (source_epoch, leader_epoch) in asked.items():
            topic = topics.setdefault(name, offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[]))
            topic.partitions.append(
                offset_for_leader_epoch.OffsetForLeaderPartition(
                    partition=number, current_leader_epoch=source_epoch, leader_epoch=leader_epoch
                )
            )
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))
        response = await self._send(request)
        return {
            TopicPartition(answered.topic, row.partition): Errors.for_code(row.error_code)
            if row.error_code
            else EpochEnd(int(row.leader_epoch), int(row.end_offset))
            for answered in response.topics
            for row in answered.partitions
        }

    async def open_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[OpenProducer]]:
        """The producers that keep transactions open. SourceError also when the source is too old to
        say; partitions with an error are left out.
        """
        topics: dict[str, describe_producers.TopicRequest] = {}
        for name, number in partitions:
            topics.setdefault(name, describe_producers.TopicRequest(name=name)).partition_indexes.append(number)
        response = await self._send(describe_producers.DescribeProducersRequest(topics=list(topics.values())))
        return {
            TopicPartition(answered.name, row.partition_index): [
                OpenProducer(producer.producer_id, producer.current_txn_start_offset, producer.last_timestamp)
                for producer in row.active_producers
                if producer.current_txn_start_offset >= 0
            ]
            for answered in response.topics
            for row in answered.partitions
            if not row.error_code
        }

    def close(self) -> None:
        self._client.close()

    async def _fetch_version(self, positions: Mapping[TopicPartition, FetchPosition]) -> int:
        """The version of a fetch; also notes whether it names topics instead of using ids."""
        max_version = MAX_FETCH_VERSION
        if not all(position.topic_id for position in positions.values()):
            max_version = FIRST_VERSION_WITH_TOPIC_IDS - 1
        version = await self._version(ApiKeys.FETCH, max_version)
        self.asks_by_name = version < FIRST_VERSION_WITH_TOPIC_IDS
        return version

    async def _version(self, api_key: ApiKeys, max_version: int | None = None) -> int:
        try:
            return await self._client.api_version(
                self.node.host, self.node.port, api_key, timeout_ms=self._config.request_timeout_ms, max_version=max_version
            )
        except (DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError) as error:
            raise self._failure(error) from error

    async def _send(self, request: Any, *, version: int | None = None) -> Any:
        wait_ms = self._throttled_until_ms - self._runtime.clock.monotonic_ms()
        if wait_ms > 0:
            await self._runtime.sleep_ms(wait_ms)
        try:
            response = await self._client.send(
                self.node.host, self.node.port, request, timeout_ms=self._config.request_timeout_ms, version=version
            )
        except (DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError) as error:
            raise self._failure(error) from error
        if response.throttle_time_ms > 0:
            now_ms = self._runtime.clock.monotonic_ms()
            self._throttled_until_ms = now_ms + response.throttle_time_ms
            self.throttle.note(now_ms, response.throttle_time_ms)
        return response

    def _failure(self, error: KmirrorError) -> SourceError:
        kind = SourceAuthenticationError if isinstance(error, AuthenticationError) else SourceError
        return kind(f"source broker {address_text(self.node.host, self.node.port)}: {str(error) or type(error).__name__}")


def _topics(positions: Mapping[TopicPartition, FetchPosition], version: int, sizes: Mapping[TopicPartition, int]) -> list[fetch.FetchTopic]:
    topics: dict[str, fetch.FetchTopic] = {}
    tells_fetched_epoch = version >= FIRST_VERSION_WITH_FETCHED_EPOCH
    for topic_partition, position in positions.items():
        topic = topics.get(topic_partition.topic)
        if topic is None:
            topic = topics[topic_partition.topic] = fetch.FetchTopic(topic=topic_partition.topic, topic_id=position.topic_id, partitions=[])
        topic.partitions.append(
            fetch.FetchPartition(
                partition=topic_partition.partition,
                current_leader_epoch=position.source_epoch,
                fetch_offset=position.offset,
                last_fetched_epoch=position.last_fetched_epoch if tells_fetched_epoch else -1,
                partition_max_bytes=sizes[topic_partition],
            )
        )
    return list(topics.values())


def _forgotten(positions: Mapping[TopicPartition, FetchPosition]) -> list[fetch.ForgottenTopic]:
    topics: dict[tuple[str, Uuid], fetch.ForgottenTopic] = {}
    for (name, number), position in positions.items():
        topic = topics.setdefault((name, position.topic_id), fetch.ForgottenTopic(topic=name, topic_id=position.topic_id, partitions=[]))
        topic.partitions.append(number)
    return list(topics.values())


def _answers(response: Any, version: int, names: Mapping[Uuid, str]) -> dict[TopicPartition, FetchedPartition]:
    """The answers by partition. Topics with ids that we did not ask for are kept under the id's
    text, so that the session refuses them.
    """
    nodes = {node.node_id: SourceNode(node.node_id, node.host, node.port) for node in response.node_endpoints}
    answers = {}
    for topic in response.responses:
        name = topic.topic if version < FIRST_VERSION_WITH_TOPIC_IDS else names.get(topic.topic_id, str(topic.topic_id))
        for data in topic.partitions:
            leader = data.current_leader
            hint = LeaderHint(leader.leader_id, leader.leader_epoch, nodes.get(leader.leader_id)) if leader.leader_id >= 0 else None
            answers[TopicPartition(name, data.partition_index)] = FetchedPartition(
                Errors.for_code(data.error_code),
                data.high_watermark,
                data.log_start_offset,
                data.records or b"",
                data.diverging_epoch.epoch,
                data.diverging_epoch.end_offset,
                data.last_stable_offset,
                hint,
            )
    return answers
