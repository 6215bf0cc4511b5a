"""Fetch (key 1).

Served: v4-v18, v19 with mirroring.

    v4   isolation level (KIP-98)           v13  topics by id (KIP-516)
    v5   log start offset                   v14  tiered storage error (none here)
    v7   fetch sessions (KIP-227)           v15  replica state (KIP-903)
    v9   leader epochs (KIP-320)            v16  current leader, node endpoints (KIP-951)
    v10  zstd (KIP-110)                     v17  replica directory id (KIP-853)
    v11  rack, preferred replica (KIP-392)  v18  high watermark of the fetcher (KIP-1166, for the metadata log)
    v12  last fetched epoch, divergence     v19  mirror leader epochs (KIP-1279)

Behaviour
* records are sent as slices of the log's files; this module never reads them
* below v10 a topic whose broker compression is zstd answers UNSUPPORTED_COMPRESSION_TYPE
* up to v5 KAFKA_STORAGE_ERROR becomes NOT_LEADER_OR_FOLLOWER, which those clients know
* a session error is the only content of its response
* a consumer above its quota is answered at once, without data and with the throttle time; no answer is larger than the window of the
  quota, because such an answer would always be throttled
* a consumer is told no leader epoch above the partition's own (`replica.client_epochs`). A client that keeps or compares the log gets it
  unchanged: a replica, a client that marks its request (`wire.log_reader_tag`) or sends its last fetched epoch, and one whose client id is
  that of a mirror fetcher in the KIP
* from v11 on a consumer may read from a follower; the leader names a better replica if `replica.selector.class` finds one
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.common.sentinels import READ_COMMITTED
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.replica.fetch_session import FetchSelection
from kmirror.replica.replica_types import CONSUMER_REPLICA_ID, ClientMetadata, FetchInfos, FetchParams, FetchPartitionData, FetchResults
from kmirror.replica.replica_types import FetchPartition as PartitionFetch
from kmirror.server.apis.isolation import check_isolation_level
from kmirror.server.apis.leaders import LeaderEndpoints
from kmirror.server.request import Request
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.wire.framing import encode_response
from kmirror.wire.log_reader_tag import is_log_reader
from kmirror.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

FIRST_VERSION_WITH_ZSTD = 10
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_LEADER = 16
LAST_VERSION_WITHOUT_STORAGE_ERROR = 5
_MIRROR_FETCHER = re.compile(r"broker-\d+-fetcher-\d+-mirror-.+")
"""Client id of a mirror's fetcher, as in the KIP's example of a quota at the source (A12)."""
MAX_INT = 2**31 - 1


async def handle_fetch(apis: KafkaApis, request: Request) -> FetchResponse:
    message: FetchRequest = request.message
    replica_id, replica_epoch = _replica(message, request.api_version)
    topic_names = _topic_names(apis, message) if request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS else {}
    context = apis.fetch_manager.new_context(
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        is_from_follower=replica_id >= 0,
        uses_topic_ids=request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS,
        fetch_infos=_fetch_infos(message, topic_names),
        forgotten=[
            TopicIdPartition(topic.topic_id, topic_names.get(topic.topic_id, topic.topic), partition)
            for topic in message.forgotten_topics_data
            for partition in topic.partitions
        ],
    )
    interesting: FetchInfos = []
    erroneous: FetchResults = []
    for topic, fetch in context.fetch_infos(topic_names):
        error = _error_before_read(apis, request, topic, is_from_follower=replica_id >= 0)
        if error is Errors.NONE:
            interesting.append((topic, fetch))
        else:
            erroneous.append((topic, FetchPartitionData(error, aborted_transactions=[])))
    if interesting:
        check_isolation_level(message.isolation_level)
    results: FetchResults = []
    may_follow = replica_id >= 0 and apis.authorize(request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    if interesting or (may_follow and context.followed is not None):
        max_bytes = min(message.max_bytes, apis.config.fetch_max_bytes, _quota_limit(apis, request, replica_id))
        params = FetchParams(
            replica_id=replica_id,
            replica_epoch=replica_epoch,
            max_wait_ms=message.max_wait_ms,
            min_bytes=min(message.min_bytes, max_bytes),
            max_bytes=max_bytes,
            isolation=_isolation(replica_id, message.isolation_level),
            client_metadata=_client_metadata(request, message) if replica_id < 0 else None,
            hides_epochs=replica_id == CONSUMER_REPLICA_ID and not _is_log_reader(request, message),
        )
        followed = context.followed if may_follow else None
        results = await apis.replica_manager.fetch_messages(params, interesting, followed)
    results += erroneous
    if replica_id < 0 and apis.quotas.enabled:
        throttle_time_ms = apis.throttler.throttle_fetch(request, _response_size(apis, request, results, is_full=not message.session_epoch))
        if throttle_time_ms:
            apis.replica_manager.stats.not_sent(results)
            response = _answer(apis, request, context.throttled())
            response.throttle_time_ms = throttle_time_ms
            return response
    selection = context.select(results)
    if replica_id >= 0:
        apis.replica_manager.reads.record_throttled_replication(selection.results)
    return _answer(apis, request, selection)


def _client_metadata(request: Request, message: FetchRequest) -> ClientMetadata | None:
    """Returns who the consumer is; None below v11, whose consumers read from leaders only."""
    if request.api_version < FIRST_VERSION_WITH_RACK:
        return None
    return ClientMetadata(
        rack_id=message.rack_id,
        client_id=request.client_id or "",
        client_address=request.client_address,
        principal=str(request.principal),
        listener_name=request.listener_name,
    )


def _is_log_reader(request: Request, message: FetchRequest) -> bool:
    return is_log_reader(message.unknown_tagged_fields) or _MIRROR_FETCHER.fullmatch(request.client_id or "") is not None


def _quota_limit(apis: KafkaApis, request: Request, replica_id: int) -> int:
    """Returns the most bytes that a consumer can be sent without certain throttling.

    A larger response would never get through a quota.
    """
    limit = apis.throttler.fetch_limit(request) if replica_id < 0 and apis.quotas.enabled else None
    return MAX_INT if limit is None else min(int(limit), MAX_INT)


def _response_size(apis: KafkaApis, request: Request, results: FetchResults, *, is_full: bool) -> int:
    """Returns the bytes of the response that would be sent.

    In a session's response only partitions with data or an error count.
    """
    sent = results if is_full else [(topic, data) for topic, data in results if data.error is not Errors.NONE or data.records is not None]
    response = _answer(apis, request, FetchSelection(Errors.NONE, 0, sent))
    parts = encode_response(request.api_key, request.api_version, request.correlation_id, response)
    return sum(len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size for part in parts)


def _replica(message: FetchRequest, api_version: int) -> tuple[int, int]:
    if api_version >= FIRST_VERSION_WITH_REPLICA_STATE:
        return message.replica_state.replica_id, message.replica_state.replica_epoch
    return message.replica_id, -1


def _topic_names(apis: KafkaApis, message: FetchRequest) -> dict[Uuid, str]:
    """Returns the names of the topic ids that the request or an earlier one of its session uses."""
    by_id = apis.metadata_cache.image.topics.by_id
    session = apis.fetch_manager.cache.get(message.session_id) if message.session_id else None
    ids = [topic.topic_id for topic in message.topics] + [topic.topic_id for topic in message.forgotten_topics_data]
    if session is not None:
        ids += [session.partitions[key].topic.topic_id for key in session.nameless]
    return {topic_id: by_id[topic_id].name for topic_id in ids if topic_id in by_id}


def _fetch_infos(message: FetchRequest, topic_names: dict[Uuid, str]) -> FetchInfos:
    """Of a partition that comes twice, the last one counts, at the place of the first."""
    infos: dict[TopicIdPartition, PartitionFetch] = {}
    for topic in message.topics:
        name = topic_names.get(topic.topic_id, topic.topic)
        for partition in topic.partitions:
            infos[TopicIdPartition(topic.topic_id, name, partition.partition)] = _partition_fetch(topic.topic_id, partition)
    return list(infos.items())


def _partition_fetch(topic_id: Uuid, partition: FetchPartition) -> PartitionFetch:
    return PartitionFetch(
        topic_id,
        partition.fetch_offset,
        partition.log_start_offset,
        partition.partition_max_bytes,
        None if partition.current_leader_epoch < 0 else partition.current_leader_epoch,
        None if partition.last_fetched_epoch < 0 else partition.last_fetched_epoch,
        partition.mirror_leader_epoch,
    )


def _isolation(replica_id: int, isolation_level: int) -> FetchIsolation:
    if replica_id >= 0:
        return FetchIsolation.LOG_END
    return FetchIsolation.TXN_COMMITTED if isolation_level == READ_COMMITTED else FetchIsolation.HIGH_WATERMARK


def _error_before_read(apis: KafkaApis, request: Request, topic: TopicIdPartition, *, is_from_follower: bool) -> Errors:
    if is_from_follower and not apis.authorize(request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return Errors.TOPIC_AUTHORIZATION_FAILED
    if not topic.topic and request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return Errors.UNKNOWN_TOPIC_ID
    if not is_from_follower and not apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic.topic):
        return Errors.TOPIC_AUTHORIZATION_FAILED
    if not apis.metadata_cache.contains(topic.topic_partition):
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if request.api_version < FIRST_VERSION_WITH_ZSTD:
        partition = apis.replica_manager.get_partition(topic.topic_partition)
        if partition is not None and partition.log is not None and partition.log.config.compression_type == "zstd":
            return Errors.UNSUPPORTED_COMPRESSION_TYPE
    return Errors.NONE


def _answer(apis: KafkaApis, request: Request, selection: FetchSelection) -> FetchResponse:
    leaders = LeaderEndpoints(apis.metadata_cache, request.listener_name)
    topics: list[FetchableTopicResponse] = []
    for topic, data in selection.results:
        if not topics or topics[-1].topic != topic.topic or topics[-1].topic_id != topic.topic_id:
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id))
        topics[-1].partitions.append(_partition_data(request.api_version, topic, data, leaders))
    return FetchResponse(
        error_code=selection.error,
        session_id=selection.session_id,
        responses=topics,
        node_endpoints=[NodeEndpoint(node.id, node.host, node.port, node.rack) for node in leaders.nodes],
    )


def _partition_data(api_version: int, topic: TopicIdPartition, data: FetchPartitionData, leaders: LeaderEndpoints) -> PartitionData:
    error = data.error
    if error is Errors.KAFKA_STORAGE_ERROR and api_version <= LAST_VERSION_WITHOUT_STORAGE_ERROR:
        error = Errors.NOT_LEADER_OR_FOLLOWER
    aborted = data.aborted_transactions
    answer = PartitionData(
        partition_index=topic.partition,
        error_code=error,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=None if aborted is None else [AbortedTransaction(txn.producer_id, txn.first_offset) for txn in aborted],
        preferred_read_replica=data.preferred_read_replica,
        records=b"" if data.records is None else data.records,
    )
    if data.mirror_leader_epoch >= 0:
        answer.mirror_leader_epoch = data.mirror_leader_epoch
    if data.diverging_epoch is not None:
        answer.diverging_epoch = EpochEndOffset(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
    if error in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH) and api_version >= FIRST_VERSION_WITH_LEADER:
        answer.current_leader = LeaderIdAndEpoch(*leaders.add(topic.topic_partition))
    return answer
