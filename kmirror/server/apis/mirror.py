"""Handlers of the mirroring APIs of clients: 94 to 96, 98, 99, 102 to 104; version 0 (KIP-1279).

    94 CreateMirror   95 AddTopicsToMirror   96 RemoveTopicsFromMirror   102 PauseMirrorTopics   103 ResumeMirrorTopics
    104 DeleteMirror  checked here, then forwarded to the controller
    98 ListMirrors    from the metadata image, any broker
    99 DescribeMirrors  only partitions that this broker leads; clients ask every broker and merge

The checks have a fixed order (A15): feature (UNSUPPORTED_VERSION), permission on the mirror (143),
mirror name or existence (135, 136), then for each topic Read (29), existence (3; AddTopicsToMirror
creates a topic that the source has), topic id (103), `mirror.name` and partition states
(`mirror.topic_requests`; each coordinator is asked once for all topics). A topic that fails here is
not forwarded. Every requested topic gets one result. A topic that is named twice, or both by name
and by id, also gets one; an unknown id gets one without a name.

Every mirror that DescribeMirrors names gets an entry (C7). The entry has error 143 if the client
may not see the mirror, so that a missing ACL never looks like "no last mirror epoch". It has 136 if
the mirror does not exist, and COORDINATOR_NOT_AVAILABLE while a state is not loaded. There is one
exception: a Java client that names a single unknown mirror gets 136 as the response's ErrorCode,
without an entry. The Java clients that know this API are the KIP's reference implementation, which
reads entries only. It takes a missing entry for "no such mirror there", but an entry with an error
makes it ask again for ever, so that it could never begin to mirror from us. The reason why a
partition does not move, and the last known lag, are tagged fields outside the KIP's schema
(`wire.mirror_tags`). IncludeAuthorizedOperations is accepted and ignored (B24). The gate MIRRORING
in `broker_api_table` checks the feature. The inter-broker APIs 100 and 101 are in `mirror_states`,
and 105 is forwarded without checks. `mirror_guard` has the checks for deleting and growing topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors, unknown_mirror
from kmirror.common.uuid import Uuid
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_names import association_of, validate_mirror_name
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.topic_creation import create_missing_topics
from kmirror.mirror.topic_requests import ANY_STATE, StateSet, TopicRequest, name_check, states_error
from kmirror.server.apis.mirror_states import mirror_of
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import (
    add_topics_to_mirror,
    describe_mirrors,
    list_mirrors,
    pause_mirror_topics,
    remove_topics_from_mirror,
    resume_mirror_topics,
)
from kmirror.wire.mirror_tags import last_known_lag_tag, reason_tag

JAVA_CLIENT = "apache-kafka-java"


class _StateCheck(NamedTuple):
    """The partitions of `topic`, under the mirror that it belongs to, must be in one of the states
    `allowed`.
    """

    topic: str
    mirror_name: str
    allowed: StateSet


class _Kind(NamedTuple):
    """What distinguishes the four topic requests on the wire."""

    request: TopicRequest
    response: Any
    result: Any


_KINDS = {
    ApiKeys.ADD_TOPICS_TO_MIRROR: _Kind(TopicRequest.ADD, add_topics_to_mirror.AddTopicsToMirrorResponse, add_topics_to_mirror.TopicResult),
    ApiKeys.REMOVE_TOPICS_FROM_MIRROR: _Kind(
        TopicRequest.REMOVE, remove_topics_from_mirror.RemoveTopicsFromMirrorResponse, remove_topics_from_mirror.TopicResult
    ),
    ApiKeys.PAUSE_MIRROR_TOPICS: _Kind(TopicRequest.PAUSE, pause_mirror_topics.PauseMirrorTopicsResponse, pause_mirror_topics.TopicResult),
    ApiKeys.RESUME_MIRROR_TOPICS: _Kind(
        TopicRequest.RESUME, resume_mirror_topics.ResumeMirrorTopicsResponse, resume_mirror_topics.TopicResult
    ),
}


async def handle_create_mirror(apis: KafkaApis, request: Request) -> Any:
    _authorize_mirror(apis, request, AclOperation.CREATE, request.message.mirror_name)
    validate_mirror_name(request.message.mirror_name)
    return await apis.controller.forward(request)


async def handle_delete_mirror(apis: KafkaApis, request: Request) -> Any:
    manager = mirror_of(apis)
    name = request.message.mirror_name
    _authorize_mirror(apis, request, AclOperation.ALTER, name)
    _check_exists(manager, name)
    checks: list[_StateCheck] = []
    for topic in manager.topics_of(name):
        allowed = name_check(TopicRequest.DELETE, association_of(manager.image().configs.topic(topic)), name)
        if isinstance(allowed, Errors):
            raise ApiException(allowed)
        checks.append(_StateCheck(topic, name, allowed))
    for error in (await _states_errors(manager, TopicRequest.DELETE, checks)).values():
        raise ApiException(error)
    return await apis.controller.forward(request)


async def handle_topics(apis: KafkaApis, request: Request) -> Any:
    """AddTopicsToMirror, RemoveTopicsFromMirror, PauseMirrorTopics and ResumeMirrorTopics."""
    manager = mirror_of(apis)
    kind = _KINDS[request.api_key]
    mirror_name = request.message.mirror_name
    _authorize_mirror(apis, request, AclOperation.ALTER, mirror_name)
    _check_exists(manager, mirror_name)
    named = {_topic_name(manager.image(), topic): topic for topic in request.message.topics}
    named.pop("", None)
    unknown_ids = {topic.topic_id for topic in request.message.topics if not _topic_name(manager.image(), topic)}
    errors = {name: Errors.TOPIC_AUTHORIZATION_FAILED for name in named if not _may_read(apis, request, name)}
    if kind.request is TopicRequest.ADD:
        wanted = [name for name in named if name not in errors]
        errors |= await create_missing_topics(
            manager, apis.runtime, apis.controller, mirror_name, wanted, timeout_ms=apis.config.request_timeout_ms
        )
    asked = {name: topic.topic_id for name, topic in named.items() if name not in errors}
    errors |= await _topic_errors(manager, kind.request, mirror_name, asked)
    wrong_state = [name for name, error in errors.items() if error is Errors.INVALID_REQUEST]
    if wrong_state and kind.request is TopicRequest.ADD:
        text = f"partitions of topic {', '.join(wrong_state)} are in a state in which the topic cannot be added"
        raise ApiException(Errors.INVALID_REQUEST, text)
    answered = await _forward_topics(apis, request, kind, [topic for name, topic in named.items() if name not in errors])
    if answered.error_code:
        return answered
    errors |= {row.name: Errors.for_code(row.error_code) for row in answered.topics}
    results = [kind.result(name=name, error_code=errors.get(name, Errors.UNKNOWN_SERVER_ERROR)) for name in named]
    results += [kind.result(name="", error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION) for _ in unknown_ids]
    return kind.response(mirror_name=mirror_name, topics=results, throttle_time_ms=answered.throttle_time_ms)


async def handle_list_mirrors(apis: KafkaApis, request: Request) -> list_mirrors.ListMirrorsResponse:
    manager = mirror_of(apis)
    rows = [
        list_mirrors.ListedMirror(
            mirror_name=name,
            source_bootstrap=manager.image().configs.mirror(name).get("bootstrap.servers", ""),
            source_cluster_id=manager.source_cluster_id(name),
            topic_count=manager.topic_count(name),
        )
        for name in manager.image().configs.mirror_names()
        if apis.authorize(request, AclOperation.DESCRIBE, ResourceType.CLUSTER_MIRROR, name)
    ]
    return list_mirrors.ListMirrorsResponse(mirrors=rows)


async def handle_describe_mirrors(apis: KafkaApis, request: Request) -> describe_mirrors.DescribeMirrorsResponse:
    manager = mirror_of(apis)
    named = list(dict.fromkeys(request.message.mirror_names))
    known = manager.image().configs.mirror_names()
    rows = []
    for name in named or known:
        allowed = apis.authorize(request, AclOperation.DESCRIBE, ResourceType.CLUSTER_MIRROR, name)
        if allowed and name in known:
            rows.append(_described(manager, name))
        elif allowed and len(named) == 1 and request.client_information.software_name == JAVA_CLIENT:
            _check_exists(manager, name)
        elif named:
            error = Errors.UNKNOWN_MIRROR if allowed else Errors.MIRROR_AUTHORIZATION_FAILED
            rows.append(describe_mirrors.DescribedMirror(error_code=error, mirror_name=name))
    return describe_mirrors.DescribeMirrorsResponse(mirrors=rows)


def _described(manager: MirrorManager, name: str) -> describe_mirrors.DescribedMirror:
    try:
        partitions = manager.describe(name)
    except ApiException as error:
        return describe_mirrors.DescribedMirror(error_code=error.error, mirror_name=name)
    topics: dict[str, list[describe_mirrors.PartitionDetail]] = {}
    for row in partitions:
        detail = describe_mirrors.PartitionDetail(
            partition_index=row.partition,
            source_offset=row.source_offset,
            destination_offset=row.destination_offset,
            lag=row.lag,
            state=row.state.name,
            last_mirror_epoch=row.last_mirror_epoch,
            unknown_tagged_fields=reason_tag(row.reason) + last_known_lag_tag(row.last_lag.records, row.last_lag.age_ms),
        )
        topics.setdefault(row.topic, []).append(detail)
    described = [describe_mirrors.TopicPartitions(topic_name=topic, partitions=details) for topic, details in topics.items()]
    return describe_mirrors.DescribedMirror(mirror_name=name, topics=described)


async def _topic_errors(manager: MirrorManager, kind: TopicRequest, mirror_name: str, topics: Mapping[str, Uuid]) -> dict[str, Errors]:
    """Checks existence, topic id, `mirror.name` and states of the topics (5 to 8 in A15).

    `topics` maps names to ids, zero where the request has none. Returns the errors found, by topic.
    """
    image = manager.image()
    errors: dict[str, Errors] = {}
    checks: list[_StateCheck] = []
    for name, topic_id in topics.items():
        topic = image.topics.topic(name)
        if topic is None:
            errors[name] = Errors.UNKNOWN_TOPIC_OR_PARTITION
            continue
        if topic_id and topic_id != topic.id:
            errors[name] = Errors.INCONSISTENT_TOPIC_ID
            continue
        association = association_of(image.configs.topic(name))
        allowed = name_check(kind, association, mirror_name)
        if isinstance(allowed, Errors):
            errors[name] = allowed
        else:
            checks.append(_StateCheck(name, mirror_name if association is None else association.mirror_name, allowed))
    return errors | await _states_errors(manager, kind, checks)


async def _states_errors(manager: MirrorManager, kind: TopicRequest, checks: Sequence[_StateCheck]) -> dict[str, Errors]:
    """Returns the error of each topic with a partition whose state is not allowed or cannot be
    read.
    """
    allowed = {check.topic: check.allowed for check in checks if check.allowed != ANY_STATE}
    wanted = [
        partition
        for check in checks
        if check.allowed != ANY_STATE
        for partition in manager.mirror_partitions(check.mirror_name, [check.topic])
    ]
    errors: dict[str, Errors] = {}
    if not wanted:
        return errors
    for (topic, _), stored in (await manager.states.read(wanted)).items():
        error = stored if isinstance(stored, Errors) else states_error(kind, allowed[topic], [stored.state])
        if error is not Errors.NONE:
            errors.setdefault(topic, error)
    return errors


async def _forward_topics(apis: KafkaApis, request: Request, kind: _Kind, topics: list[Any]) -> Any:
    if not topics:
        return kind.response(mirror_name=request.message.mirror_name)
    message = type(request.message)(mirror_name=request.message.mirror_name, topics=topics)
    return await apis.controller.forward(replace(request, message=message))


def _authorize_mirror(apis: KafkaApis, request: Request, operation: AclOperation, name: str) -> None:
    if not apis.authorize(request, operation, ResourceType.CLUSTER_MIRROR, name):
        raise ApiException(Errors.MIRROR_AUTHORIZATION_FAILED)


def _may_read(apis: KafkaApis, request: Request, topic: str) -> bool:
    return apis.authorize(request, AclOperation.READ, ResourceType.TOPIC, topic)


def _check_exists(manager: MirrorManager, name: str) -> None:
    if name not in manager.image().configs.mirror_names():
        raise unknown_mirror(name)


def _topic_name(image: MetadataImage, topic: Any) -> str:
    """Returns the name of a topic of the request, which may give only its id (RS2)."""
    if topic.topic_name:
        return str(topic.topic_name)
    found = image.topics.topic_by_id(topic.topic_id)
    return "" if found is None else found.name
