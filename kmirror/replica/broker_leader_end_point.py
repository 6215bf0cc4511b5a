"""A broker of this cluster as a fetcher's leader: Fetch with a session, and ListOffsets, over one
connection.

The client's half of KIP-227 is `_Session`: the first request is full and asks for a session; while
the leader keeps it, requests carry only partitions whose state changed or that were removed. After
any error of the session a new one begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.replica.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID, next_epoch
from kmirror.replica.leader_end_point import FetchData, LeaderUnavailableError, PartitionFetchState
from kmirror.replica.replica_types import DivergingEpoch, ReplicaConfig
from kmirror.wire.messages import fetch as messages
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.primitives import ProtocolReadError

_FAILURES = (DisconnectError, RequestTimeoutError, UnsupportedVersionError, ProtocolReadError)


class _Session:
    """What the leader's session has: its id, the epoch of the next request, and what was last sent
    (`names` by topic id).
    """

    def __init__(self) -> None:
        self.id = INVALID_SESSION_ID
        self.epoch = INITIAL_EPOCH
        self.sent: dict[TopicPartition, PartitionFetchState] = {}
        self.names: dict[Uuid, str] = {}

    def reset(self) -> None:
        """Has the next request close this session and begin a new one."""
        self.epoch = INITIAL_EPOCH

    def difference(
        self, partitions: Mapping[TopicPartition, PartitionFetchState], touched: Collection[TopicPartition] | None
    ) -> tuple[dict[TopicPartition, PartitionFetchState], dict[TopicPartition, PartitionFetchState]]:
        """The partitions that are asked differently than before, and those no longer asked; a topic
        with a new id is in both.
        """
        candidates = list({**self.sent, **partitions}) if touched is None else touched
        changed: dict[TopicPartition, PartitionFetchState] = {}
        forgotten: dict[TopicPartition, PartitionFetchState] = {}
        for topic_partition in candidates:
            sent, state = self.sent.get(topic_partition), partitions.get(topic_partition)
            if sent is not None and (state is None or state.topic_id != sent.topic_id):
                forgotten[topic_partition] = sent
            if state is not None and not _asks_alike(sent, state):
                changed[topic_partition] = state
        return changed, forgotten

    def note_sent(
        self, changed: Mapping[TopicPartition, PartitionFetchState], forgotten: Mapping[TopicPartition, PartitionFetchState]
    ) -> None:
        for topic_partition in forgotten:
            del self.sent[topic_partition]
        for topic_partition, state in changed.items():
            self.sent[topic_partition] = state
            self.names[state.topic_id] = topic_partition.topic

    def answered(self, session_id: int) -> None:
        if session_id == INVALID_SESSION_ID:
            self.id = INVALID_SESSION_ID
            self.reset()
            return
        self.id = session_id
        self.epoch = next_epoch(self.epoch)


class BrokerLeaderEndPoint:
    """Owns the connection and the session. `broker_epoch` is that of this broker (the fetcher); the
    leader checks it before it lets us into the ISR.
    """

    def __init__(
        self, client: NetworkClient, host: str, port: int, config: ReplicaConfig, *, broker_epoch: int, request_timeout_ms: int
    ) -> None:
        self._client = client
        self._host = host
        self._port = port
        self._config = config
        self._broker_epoch = broker_epoch
        self._request_timeout_ms = request_timeout_ms
        self._session = _Session()

    async def fetch(
        self,
        partitions: Mapping[TopicPartition, PartitionFetchState],
        touched: Collection[TopicPartition] | None,
        *,
        max_wait_ms: int | None,
    ) -> dict[TopicPartition, FetchData]:
        session = self._session
        if session.epoch == INITIAL_EPOCH:
            session.sent, session.names = {}, {}
            touched = None
        changed, forgotten = session.difference(partitions, touched)
        session.note_sent(changed, forgotten)
        is_answered = False
        try:
            response: messages.FetchResponse = await self._send(self._request(changed, forgotten, max_wait_ms))
            is_answered = True
        finally:
            if not is_answered:  # what the leader has heard is not known, whatever the reason
                session.reset()
        if response.error_code != Errors.NONE:
            session.reset()
            if response.error_code == Errors.FETCH_SESSION_ID_NOT_FOUND:
                session.id = INVALID_SESSION_ID
            raise LeaderUnavailableError(f"the leader refused the fetch: {Errors.for_code(response.error_code).name}")
        names = session.names
        session.answered(response.session_id)
        return {
            TopicPartition(names[topic.topic_id], data.partition_index): _fetched(data)
            for topic in response.responses
            if topic.topic_id in names
            for data in topic.partitions
        }

    def _request(
        self,
        changed: Mapping[TopicPartition, PartitionFetchState],
        forgotten: Mapping[TopicPartition, PartitionFetchState],
        max_wait_ms: int | None,
    ) -> messages.FetchRequest:
        topics: dict[Uuid, messages.FetchTopic] = {}
        for topic_partition, state in changed.items():
            topic = topics.setdefault(state.topic_id, messages.FetchTopic(topic=topic_partition.topic, topic_id=state.topic_id))
            topic.partitions.append(self._partition(topic_partition, state))
        gone: dict[Uuid, messages.ForgottenTopic] = {}
        for topic_partition, state in forgotten.items():
            topic_gone = gone.setdefault(state.topic_id, messages.ForgottenTopic(topic=topic_partition.topic, topic_id=state.topic_id))
            topic_gone.partitions.append(topic_partition.partition)
        config = self._config
        wait_ms = config.replica_fetch_wait_max_ms
        return messages.FetchRequest(
            replica_state=messages.ReplicaState(replica_id=config.broker_id, replica_epoch=self._broker_epoch),
            max_wait_ms=wait_ms if max_wait_ms is None else min(wait_ms, max_wait_ms),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session.id,
            session_epoch=self._session.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    def _partition(self, topic_partition: TopicPartition, state: PartitionFetchState) -> messages.FetchPartition:
        return messages.FetchPartition(
            partition=topic_partition.partition,
            current_leader_epoch=state.current_leader_epoch,
            fetch_offset=state.fetch_offset,
            last_fetched_epoch=-1 if state.last_fetched_epoch is None else state.last_fetched_epoch,
            log_start_offset=state.log_start_offset,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
            mirror_leader_epoch=state.mirror_leader_epoch,
        )

    async def fetch_earliest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return await self._list_offset(topic_partition, current_leader_epoch, EARLIEST_TIMESTAMP)

    async def fetch_latest_offset(self, topic_partition: TopicPartition, current_leader_epoch: int) -> int:
        return await self._list_offset(topic_partition, current_leader_epoch, LATEST_TIMESTAMP)

    async def _list_offset(self, topic_partition: TopicPartition, current_leader_epoch: int, timestamp: int) -> int:
        partition = ListOffsetsPartition(
            partition_index=topic_partition.partition, current_leader_epoch=current_leader_epoch, timestamp=timestamp
        )
        topic = ListOffsetsTopic(name=topic_partition.topic, partitions=[partition])
        response = await self._send(ListOffsetsRequest(replica_id=self._config.broker_id, topics=[topic]))
        row = response.topics[0].partitions[0]
        if row.error_code != Errors.NONE:
            error = Errors.for_code(row.error_code)
            raise ApiException(error, f"the leader answered ListOffsets for {topic_partition} with {error.name}")
        return int(row.offset)

    async def close(self) -> None:
        self._session.epoch = FINAL_EPOCH
        self._client.disconnect(self._host, self._port)

    async def _send(self, request: Any) -> Any:
        try:
            return await self._client.send(self._host, self._port, request, timeout_ms=self._request_timeout_ms)
        except _FAILURES as error:
            raise LeaderUnavailableError(f"{self._host}:{self._port}: {error}") from error


def _asks_alike(sent: PartitionFetchState | None, state: PartitionFetchState) -> bool:
    """Whether the leader's session already has our current request for a partition."""
    return sent is state or (
        sent is not None
        and sent.fetch_offset == state.fetch_offset
        and sent.log_start_offset == state.log_start_offset
        and sent.last_fetched_epoch == state.last_fetched_epoch
        and sent.current_leader_epoch == state.current_leader_epoch
        and sent.mirror_leader_epoch == state.mirror_leader_epoch
        and sent.topic_id == state.topic_id
    )


def _fetched(data: messages.PartitionData) -> FetchData:
    diverging = data.diverging_epoch
    records = data.records
    return FetchData(
        error=Errors.for_code(data.error_code),
        high_watermark=data.high_watermark,
        log_start_offset=data.log_start_offset,
        records=records if isinstance(records, (bytes, bytearray, memoryview)) else b"",
        diverging_epoch=DivergingEpoch(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        mirror_leader_epoch=data.mirror_leader_epoch,
    )
