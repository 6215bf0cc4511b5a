"""Offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete.

| API | versions | remarks |
|---|---|---|
| OffsetCommit | 2-10 | v10 topic ids (KIP-848); v2-4 retention time |
| OffsetFetch | 1-10 | v2 all topics, v7 require_stable, v8 several groups, v9 member and epoch, v10 topic ids |
| OffsetDelete | 0 | KIP-496 |

A committed leader epoch is stored unchanged. For a topic with a `mirror.name`, OffsetFetch returns
no epoch above the partition's own (`replica.client_epochs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.group_records import OffsetAndMetadata
from kmirror.coordinator.group.offset_metadata_manager import UNSTABLE, FetchedOffset
from kmirror.metadata.image import TopicImage, TopicsImage
from kmirror.metadata.mirror_names import association_of
from kmirror.replica.client_epochs import ClientEpochs
from kmirror.runtime.api import run_together
from kmirror.server.apis.by_topic import TopicAnswers, split_known
from kmirror.server.apis.group_coordinators import authorize_group, coordinator_of
from kmirror.server.request import Request
from kmirror.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kmirror.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kmirror.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

INVALID_OFFSET = -1
OFFSET_TOPIC_ID_VERSION = 10
OFFSET_FETCH_GROUPS_VERSION = 8
OFFSET_FETCH_TOP_ERROR_VERSION = 2
MAX_INT = 2**31 - 1


def _is_brokers_own(apis: KafkaApis, request: Request) -> bool:
    """Whether a broker asks on its own behalf, which only the sync of a mirror's group offsets
    does.

    Such a request needs CLUSTER_ACTION and nothing more.
    """
    if apis.auth.authorizer is None or request.listener_name != apis.config.inter_broker_listener_name:
        return False
    return apis.auth.may_on_cluster(request, AclOperation.CLUSTER_ACTION, log_if_denied=False)


def _topics(apis: KafkaApis) -> TopicsImage:
    return apis.metadata_cache.image.topics


async def handle_offset_commit(apis: KafkaApis, request: Request) -> OffsetCommitResponse:
    """Answers for unknown topics and partitions and for topics that the client may not read; the
    coordinator gets the rest.
    """
    message: OffsetCommitRequest = request.message
    is_own = _is_brokers_own(apis, request)
    if not is_own and not apis.authorize(request, AclOperation.READ, ResourceType.GROUP, message.group_id):
        return _commit_error(message.topics, Errors.GROUP_AUTHORIZATION_FAILED)
    topics = _topics(apis)
    answers = TopicAnswers()
    accepted: list[OffsetCommitRequestTopic] = []
    for topic in message.topics:
        by_id = request.api_version >= OFFSET_TOPIC_ID_VERSION
        image = topics.topic_by_id(topic.topic_id) if by_id else topics.topic(topic.name)
        known, unknown = split_known(topic.partitions, image)
        error = Errors.UNKNOWN_TOPIC_ID if by_id and image is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
        name = topic.name if image is None else image.name
        is_allowed = is_own or error is Errors.UNKNOWN_TOPIC_ID or apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, name)
        if not is_allowed:
            known, unknown, error = [], topic.partitions, Errors.TOPIC_AUTHORIZATION_FAILED
        if unknown or image is None or not is_allowed:
            partitions = [OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in unknown]
            answers.add(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        if image is not None and known:
            accepted.append(OffsetCommitRequestTopic(name=image.name, topic_id=image.id, partitions=known))
    message.topics = accepted
    try:
        response = await coordinator_of(apis).commit_offsets(message, request.api_version) if accepted else OffsetCommitResponse()
    except ApiException as error_of_all:
        response = _commit_error(accepted, error_of_all.error)
    for answered in response.topics:
        if request.api_version >= OFFSET_TOPIC_ID_VERSION:
            answered.name = ""
        else:
            answered.topic_id = Uuid.ZERO
    response.topics = answers.merged(response.topics)
    return response


def _commit_error(topics: list[OffsetCommitRequestTopic], error: Errors) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in topic.partitions],
            )
            for topic in topics
        ]
    )


async def handle_offset_fetch(apis: KafkaApis, request: Request) -> OffsetFetchResponse:
    message: OffsetFetchRequest = request.message
    if request.api_version < OFFSET_FETCH_GROUPS_VERSION:
        topics = (
            None
            if message.topics is None
            else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in message.topics]
        )
        group = await _fetch_group(apis, request, OffsetFetchRequestGroup(group_id=message.group_id, topics=topics))
        return _as_single_group(group, request.api_version, topics)
    fetches = [_fetch_group(apis, request, group) for group in message.groups]
    return OffsetFetchResponse(groups=await run_together(apis.runtime, "fetch-offsets", fetches))


async def _fetch_group(apis: KafkaApis, request: Request, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """Refuses a named topic that the client may not describe; "all topics" omits such topics."""
    is_own = _is_brokers_own(apis, request)
    if not is_own and not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=Errors.GROUP_AUTHORIZATION_FAILED)
    by_id = request.api_version >= OFFSET_TOPIC_ID_VERSION
    topics = _topics(apis)
    asked: list[tuple[str, list[int]]] = []
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        for topic in group.topics:
            image = topics.topic_by_id(topic.topic_id) if by_id else None
            name = image.name if image is not None else topic.name
            if by_id and image is None:
                unknown.append(_refused_topic(topic, Errors.UNKNOWN_TOPIC_ID))
            elif not is_own and not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                unknown.append(_refused_topic(topic, Errors.TOPIC_AUTHORIZATION_FAILED))
            else:
                asked.append((name, topic.partition_indexes))
    try:
        found = await coordinator_of(apis).fetch_offsets(
            group.group_id,
            None if group.topics is None else _by_name(asked),
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            require_stable=request.message.require_stable,
        )
    except ApiException as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.error)
    if group.topics is None:
        seen = found if is_own else apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, found)
        asked = [(name, list(partitions)) for name, partitions in found.items() if name in seen]
    answers = []
    for name, partitions in asked:
        image = topics.topic(name)
        if by_id and image is None:
            continue
        answers.append(
            OffsetFetchResponseTopics(
                name="" if by_id else name,
                topic_id=image.id if by_id and image is not None else Uuid.ZERO,
                partitions=[
                    _offset(index, _of_topic(found[name][index], image if by_id else None), _largest_epoch(apis, name, index))
                    for index in partitions
                ],
            )
        )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=answers + unknown)


def _by_name(asked: list[tuple[str, list[int]]]) -> dict[str, list[int]]:
    wanted: dict[str, list[int]] = {}
    for name, partitions in asked:
        wanted.setdefault(name, []).extend(partitions)
    return wanted


def _of_topic(committed: FetchedOffset, image: TopicImage | None) -> FetchedOffset:
    """Returns None for an offset that was committed for another topic of the same name."""
    if image is None or not isinstance(committed, OffsetAndMetadata):
        return committed
    return committed if committed.topic_id in (Uuid.ZERO, image.id) else None


def _largest_epoch(apis: KafkaApis, topic: str, partition: int) -> int:
    """Returns the largest committed epoch that a client is told: for a mirror the partition's own.

    Elsewhere the client is told what was committed, as in Kafka.
    """
    image = apis.metadata_cache.image
    if association_of(image.configs.topic(topic)) is None:
        return MAX_INT
    registration = image.topics.partition(topic, partition)
    return MAX_INT if registration is None else registration.leader_epoch


def _offset(index: int, committed: FetchedOffset, largest_epoch: int) -> OffsetFetchResponsePartitions:
    if committed is UNSTABLE:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=INVALID_OFFSET, metadata="", error_code=Errors.UNSTABLE_OFFSET_COMMIT
        )
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=ClientEpochs.told(committed.leader_epoch, largest_epoch),
        metadata=committed.metadata,
    )


def _refused_topic(topic: OffsetFetchRequestTopics, error: Errors) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, error_code=error)
            for index in topic.partition_indexes
        ],
    )


def _as_single_group(
    group: OffsetFetchResponseGroup, api_version: int, asked: list[OffsetFetchRequestTopics] | None
) -> OffsetFetchResponse:
    """Builds the response of every version: below v8 there is one group, and below v2 each
    partition holds its error.
    """
    if group.error_code and api_version < OFFSET_FETCH_TOP_ERROR_VERSION:
        group.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, error_code=group.error_code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked or []
        ]
    return OffsetFetchResponse(
        error_code=group.error_code if api_version >= OFFSET_FETCH_TOP_ERROR_VERSION else 0,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


async def handle_offset_delete(apis: KafkaApis, request: Request) -> OffsetDeleteResponse:
    """Answers for topics that may not be read and partitions that do not exist; the coordinator
    gets the rest.
    """
    message: OffsetDeleteRequest = request.message
    answers = TopicAnswers()
    accepted: list[OffsetDeleteRequestTopic] = []
    try:
        authorize_group(apis, request, AclOperation.DELETE, message.group_id)
        for topic in message.topics:
            image = _topics(apis).topic(topic.name)
            known, unknown = split_known(topic.partitions, image)
            error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            is_allowed = apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic.name)
            if not is_allowed:
                known, unknown, error = [], topic.partitions, Errors.TOPIC_AUTHORIZATION_FAILED
            if unknown or image is None or not is_allowed:
                rows = [OffsetDeleteResponsePartition(p.partition_index, error) for p in unknown]
                answers.add(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
            if known:
                accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))
        message.topics = accepted
        response = await coordinator_of(apis).delete_offsets(message)
    except ApiException as failure:
        return OffsetDeleteResponse(error_code=failure.error)
    response.topics = answers.merged(response.topics)
    return response
