"""Metadata (key 3). Served: v0-v13.

    v1   controller, rack, internal flag    v8   authorized operations
    v2   cluster id                         v10  topic ids in the response (KIP-516)
    v4   auto creation can be refused       v12  topics asked for by id
    v5   offline replicas                   v13  top-level error (KIP-1102)
    v7   leader epochs

Behaviour
* a null list of topics (in v0 an empty one) means all topics
* a topic with an unknown name is created when `auto.create.topics.enable` and the request allow it, and answers
  UNKNOWN_TOPIC_OR_PARTITION until it exists; an invalid name is INVALID_TOPIC_EXCEPTION; an unknown id is UNKNOWN_TOPIC_ID
* the controller id is the id of any live broker, since clients cannot talk to the controller (KRaft)
* v0 leaves out nothing: a partition with a dead replica is REPLICA_NOT_AVAILABLE; below v6 LISTENER_NOT_FOUND is LEADER_NOT_AVAILABLE
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.metadata.image import TopicImage
from kmirror.metadata.mirror_names import topic_name_problem
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.runtime.turns import in_turns
from kmirror.server.apis.topic_metadata import is_internal, view_partition
from kmirror.server.request import Request
from kmirror.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

FIRST_VERSION_WITH_TOPIC_ID_REQUESTS = 12
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
VERSIONS_WITH_CLUSTER_OPERATIONS = range(8, 11)


async def handle_metadata(apis: KafkaApis, request: Request) -> MetadataResponse:
    message: MetadataRequest = request.message
    is_all_topics = message.topics is None or (request.api_version == 0 and not message.topics)
    _check_topics(message, request.api_version)
    topics = await (_all_topics(apis, request) if is_all_topics else _asked_topics(apis, request))
    if request.api_version >= VERSIONS_WITH_CLUSTER_OPERATIONS.start and message.include_topic_authorized_operations:
        async for topic in in_turns(apis.runtime, topics):
            if topic.error_code != Errors.TOPIC_AUTHORIZATION_FAILED and topic.name is not None:
                topic.topic_authorized_operations = apis.auth.authorized_operations(request, ResourceType.TOPIC, topic.name)
    nodes = apis.metadata_cache.alive_nodes(request.listener_name)
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes],
        cluster_id=apis.cluster_id,
        controller_id=nodes[apis.runtime.random.randrange(len(nodes))].id if nodes else -1,
        topics=topics,
    )
    if message.include_cluster_authorized_operations and request.api_version in VERSIONS_WITH_CLUSTER_OPERATIONS:
        allowed = apis.auth.may_on_cluster(request, AclOperation.DESCRIBE)
        operations = apis.auth.authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME) if allowed else 0
        response.cluster_authorized_operations = operations
    return response


def _check_topics(message: MetadataRequest, api_version: int) -> None:
    for topic in message.topics or []:
        if topic.name is None and api_version < FIRST_VERSION_WITH_TOPIC_ID_REQUESTS:
            raise ApiException(Errors.INVALID_REQUEST, f"Topic name can not be null for version {api_version}")
        if topic.topic_id and api_version < FIRST_VERSION_WITH_TOPIC_ID_REQUESTS:
            raise ApiException(Errors.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {api_version}")


async def _all_topics(apis: KafkaApis, request: Request) -> list[MetadataResponseTopic]:
    topics = apis.metadata_cache.image.topics.by_name
    return [
        _describe(apis, request, image)
        async for name, image in in_turns(apis.runtime, topics.items())
        if apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    ]


async def _asked_topics(apis: KafkaApis, request: Request) -> list[MetadataResponseTopic]:
    message: MetadataRequest = request.message
    asked = message.topics or []
    uses_topic_ids = any(topic.topic_id for topic in asked)
    answers: dict[str | Uuid, MetadataResponseTopic] = {}
    missing: list[str] = []
    async for topic in in_turns(apis.runtime, asked):
        key = topic.topic_id if uses_topic_ids else topic.name
        if key is None or key == Uuid.ZERO or key in answers:
            continue
        if isinstance(key, Uuid):
            answers[key] = _by_id(apis, request, key)
        else:
            answers[key] = _by_name(apis, request, key)
            if answers[key].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(key)
    if message.allow_auto_topic_creation and apis.config.auto_create_topics_enable:
        turns = in_turns(apis.runtime, missing)
        allowed = {name: None async for name in turns if _may_create(apis, request, name)}
        apis.auto_topic_creation.create_topics(allowed, request)
        for name in missing:
            if name not in allowed:
                answers[name].error_code = Errors.TOPIC_AUTHORIZATION_FAILED
    return list(answers.values())


def _may_create(apis: KafkaApis, request: Request, name: str) -> bool:
    return apis.authorize(request, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or apis.authorize(
        request, AclOperation.CREATE, ResourceType.TOPIC, name
    )


def _by_id(apis: KafkaApis, request: Request, topic_id: Uuid) -> MetadataResponseTopic:
    image = apis.metadata_cache.image.topics.topic_by_id(topic_id)
    if image is None:
        return MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, image.name):
        return MetadataResponseTopic(error_code=Errors.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _describe(apis, request, image)


def _by_name(apis: KafkaApis, request: Request, name: str) -> MetadataResponseTopic:
    if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=Errors.TOPIC_AUTHORIZATION_FAILED, name=name)
    image = apis.metadata_cache.image.topics.topic(name)
    if image is not None:
        return _describe(apis, request, image)
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_name_problem(name) is None else Errors.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))


def _describe(apis: KafkaApis, request: Request, image: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=image.name,
        topic_id=image.id,
        is_internal=is_internal(image.name),
        partitions=[_partition(apis, request, number, image.partitions[number]) for number in sorted(image.partitions)],
    )


def _partition(apis: KafkaApis, request: Request, number: int, registration: PartitionRegistration) -> MetadataResponsePartition:
    cache = apis.metadata_cache
    listener_errors = request.api_version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND
    view = view_partition(cache, registration, request.listener_name, listener_errors=listener_errors)
    replicas, isr, error = list(registration.replicas), list(registration.isr), view.error
    if request.api_version == 0:
        alive = {node.id for node in cache.alive_nodes(request.listener_name)}
        if error is Errors.NONE and not alive.issuperset(replicas):
            error = Errors.REPLICA_NOT_AVAILABLE
        replicas = [replica for replica in replicas if replica in alive]
        isr = [replica for replica in isr if replica in alive]
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=view.leader_id,
        leader_epoch=registration.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas,
    )
