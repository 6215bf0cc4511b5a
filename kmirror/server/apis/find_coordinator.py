"""FindCoordinator (key 10). Served: v0-v6, v7 with mirroring.

    v1   key type                    v4   several keys in one request (KIP-699)
    v3   flexible                    v6   key type 2, share partitions (KIP-932; below v6 INVALID_REQUEST)
                                     v7   key type 3, mirror partitions (KIP-1279; below v7 INVALID_REQUEST)

The coordinator of a key is the leader of the partition of the coordinator's topic to which the key
hashes. A missing topic is created (COORDINATOR_NOT_AVAILABLE until it is there). Key types: 0
group, 1 transactional id, 2 share partition (`groupId:topicId:partition`), 3 mirror
(`mirrorName:topicId:partition`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import (
    GROUP_METADATA_TOPIC_NAME,
    MIRROR_STATE_TOPIC_NAME,
    SHARE_GROUP_STATE_TOPIC_NAME,
    TRANSACTION_STATE_TOPIC_NAME,
    TopicPartition,
    partition_for,
)
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.metadata.features import MIRROR_VERSION
from kmirror.server.metadata_cache import Node
from kmirror.server.request import Request
from kmirror.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

GROUP = 0
TRANSACTION = 1
SHARE = 2
MIRROR = 3
FIRST_BATCHED_VERSION = 4
FIRST_VERSION_WITH_SHARE_PARTITIONS = 6
FIRST_VERSION_WITH_MIRRORS = 7

_WITHOUT_TEXT = (Errors.NONE, Errors.GROUP_AUTHORIZATION_FAILED, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_NO_NODE = Node(-1, "", -1)


async def handle_find_coordinator(apis: KafkaApis, request: Request) -> FindCoordinatorResponse:
    message: FindCoordinatorRequest = request.message
    if request.api_version < FIRST_BATCHED_VERSION:
        error, node = _find(apis, request, message.key_type, message.key)
        text = "NONE" if error is Errors.NONE else error.message
        return FindCoordinatorResponse(error_code=error, error_message=text, node_id=node.id, host=node.host, port=node.port)
    coordinators: list[Coordinator] = []
    for key in message.coordinator_keys:
        error, node = _find(apis, request, message.key_type, key)
        is_malformed = message.key_type == SHARE and error is Errors.INVALID_REQUEST
        text = "" if is_malformed or error in _WITHOUT_TEXT else error.message
        coordinators.append(Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_code=error, error_message=text))
    return FindCoordinatorResponse(coordinators=coordinators)


def _find(apis: KafkaApis, request: Request, key_type: int, key: str) -> tuple[Errors, Node]:
    if key_type == GROUP:
        if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.GROUP, key):
            return Errors.GROUP_AUTHORIZATION_FAILED, _NO_NODE
        return _leader(apis, request, GROUP_METADATA_TOPIC_NAME, key)
    if key_type == TRANSACTION:
        if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_NODE
        return _leader(apis, request, TRANSACTION_STATE_TOPIC_NAME, key)
    if key_type == SHARE and request.api_version >= FIRST_VERSION_WITH_SHARE_PARTITIONS:
        if not apis.authorize(request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return Errors.CLUSTER_AUTHORIZATION_FAILED, _NO_NODE
        try:
            share_partition = SharePartitionKey.parse(key)
        except ValueError:
            return Errors.INVALID_REQUEST, _NO_NODE
        return _leader(apis, request, SHARE_GROUP_STATE_TOPIC_NAME, str(share_partition))
    if key_type == MIRROR and request.api_version >= FIRST_VERSION_WITH_MIRRORS:
        if not apis.authorize(request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return Errors.CLUSTER_AUTHORIZATION_FAILED, _NO_NODE
        if apis.metadata_cache.image.features.level(MIRROR_VERSION) < 1:
            return Errors.UNSUPPORTED_VERSION, _NO_NODE
        return _leader(apis, request, MIRROR_STATE_TOPIC_NAME, key, _mirror_partition(apis, key))
    return Errors.INVALID_REQUEST, _NO_NODE


def _mirror_partition(apis: KafkaApis, key: str) -> int | None:
    """Returns the partition of `__mirror_state` that holds this key's state.

    It follows from the number of partitions with which the topic was created, not from the present
    one.
    """
    manager = apis.mirror
    if manager is None or manager.image().topics.topic(MIRROR_STATE_TOPIC_NAME) is None:
        return None
    return manager.coordinator.state_partition_of(key).partition


def _leader(apis: KafkaApis, request: Request, topic: str, key: str, number: int | None = None) -> tuple[Errors, Node]:
    cache = apis.metadata_cache
    image = cache.image.topics.topic(topic)
    if image is None:
        apis.auto_topic_creation.create_topics([topic])
        return Errors.COORDINATOR_NOT_AVAILABLE, _NO_NODE
    number = partition_for(key, len(image.partitions)) if number is None else number
    registration = cache.partition(TopicPartition(topic, number))
    node = None if registration is None else cache.alive_node(registration.leader, request.listener_name)
    return (Errors.COORDINATOR_NOT_AVAILABLE, _NO_NODE) if node is None else (Errors.NONE, node)
