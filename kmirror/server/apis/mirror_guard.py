"""DeleteTopics (20) and CreatePartitions (37) on a cluster with mirrors: READ_ONLY_TOPIC until a removed topic is STOPPED (B30, D3-34).

The controller refuses both for a topic whose `mirror.name` is `X` or `X.paused`. Of `X.removed` it cannot tell whether the
partitions are STOPPED yet; the broker that takes the request can, so it looks before it forwards. Brokers' own requests go to
the controller directly and are exempt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.metadata.mirror_names import association_of
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.server.kafka_apis import Handler, KafkaApis
from kmirror.server.request_context import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.create_partitions import CreatePartitionsTopicResult
from kmirror.wire.messages.delete_topics import DeletableTopicResult


async def handle_delete_topics(apis: KafkaApis, request: Request) -> Any:
    message = request.message
    manager = _enabled_mirror(apis)
    if manager is None:
        return await apis.controller.forward(request)
    refused: list[DeletableTopicResult] = []
    names, topics = [], []
    for name in message.topic_names:
        error = await _error(manager, name) if _may_delete(apis, request, name) else Errors.NONE
        if error is Errors.NONE:
            names.append(name)
        else:
            refused.append(DeletableTopicResult(name=name, error_code=error, error_message=error.message))
    for topic in message.topics:
        image = manager.image().topics.topic(topic.name) if topic.name else manager.image().topics.topic_by_id(topic.topic_id)
        is_looked_at = image is not None and _may_delete(apis, request, image.name)
        error = await _error(manager, image.name) if image is not None and is_looked_at else Errors.NONE
        if image is None or error is Errors.NONE:
            topics.append(topic)
        else:
            refused.append(DeletableTopicResult(name=image.name, topic_id=image.id, error_code=error, error_message=error.message))
    if not refused:
        return await apis.controller.forward(request)
    allowed = type(message)(topics=topics, topic_names=names, timeout_ms=message.timeout_ms)
    response = await apis.controller.forward(replace(request, message=allowed))
    response.responses.extend(refused)
    return response


async def handle_create_partitions(apis: KafkaApis, request: Request) -> Any:
    message = request.message
    manager = _enabled_mirror(apis)
    if manager is None:
        return await apis.controller.forward(request)
    errors = {
        topic.name: await _error(manager, topic.name) if _may(apis, request, AclOperation.ALTER, topic.name) else Errors.NONE
        for topic in message.topics
    }
    refused = [
        CreatePartitionsTopicResult(name=name, error_code=error, error_message=error.message)
        for name, error in errors.items()
        if error is not Errors.NONE
    ]
    if not refused:
        return await apis.controller.forward(request)
    topics = [topic for topic in message.topics if errors[topic.name] is Errors.NONE]
    allowed = type(message)(topics=topics, timeout_ms=message.timeout_ms, validate_only=message.validate_only)
    response = await apis.controller.forward(replace(request, message=allowed))
    response.results.extend(refused)
    return response


def _enabled_mirror(apis: KafkaApis) -> MirrorManager | None:
    manager = apis.mirror
    return manager if isinstance(manager, MirrorManager) and manager.is_enabled else None


def _may_delete(apis: KafkaApis, request: Request, topic: str) -> bool:
    on_cluster = apis.auth.may_on_cluster(request, AclOperation.DELETE, log_if_denied=False)
    return on_cluster or _may(apis, request, AclOperation.DELETE, topic)


def _may(apis: KafkaApis, request: Request, operation: AclOperation, topic: str) -> bool:
    """Who may not is refused by the controller, and told nothing here."""
    return apis.auth.authorize(request, operation, ResourceType.TOPIC, topic, log_if_denied=False)


async def _error(manager: MirrorManager, topic: str) -> Errors:
    """READ_ONLY_TOPIC while a partition of a removed topic is not STOPPED; the rest is the controller's business."""
    association = association_of(manager.image().configs.topic(topic))
    if association is None or not association.removed or association.mirror_name not in manager.image().configs.mirror_names():
        return Errors.NONE
    found = await manager.states.read(manager.mirror_partitions(association.mirror_name, [topic]))
    for stored in found.values():
        if isinstance(stored, Errors):
            return stored
        if stored.state is not MirrorPartitionState.STOPPED:
            return Errors.READ_ONLY_TOPIC
    return Errors.NONE


HANDLERS: dict[ApiKeys, Handler] = {
    ApiKeys.DELETE_TOPICS: handle_delete_topics,
    ApiKeys.CREATE_PARTITIONS: handle_create_partitions,
}
