"""Who may send which requests to the controller: the checks of Kafka's `ControllerApis` as tables.

    CLUSTER_OPERATIONS   APIs that need one operation on the cluster; without it the whole request
                         gets CLUSTER_AUTHORIZATION_FAILED
    GATES                APIs that name several resources: those that are not allowed are taken out
                         of the request and answered beside the rest
    UNGUARDED            APIs that anybody may use

An API is in exactly one of them (a test checks that); an API that were in none would need
CLUSTER_ACTION. While mirror.version is 0, the managers refuse all mirroring requests with
UNSUPPORTED_VERSION, whoever asks. The managers work on the resources that are left in a request and
know nothing of principals.

A gate never touches entries that the managers refuse anyway (names given twice, the metadata
topic), because Kafka authorizes after those checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kmirror.common.acl import AUTHORIZATION_ERRORS, CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.metadata.authorizer.auth_helper import AuthHelper
from kmirror.metadata.features import MIRROR_VERSION
from kmirror.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_MIRROR,
    RESOURCE_TOPIC,
    MetadataImage,
)
from kmirror.wire.api_keys import API_TABLE, ApiKeys, message_class
from kmirror.wire.messages.create_partitions import CreatePartitionsTopicResult
from kmirror.wire.messages.create_topics import CreatableTopicResult
from kmirror.wire.messages.delete_topics import DeletableTopicResult
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS

Refusals = Callable[[Any], None]
"""Adds to a response the entries that were taken out of its request."""

Gate = Callable[[AuthHelper, ControllerRequestContext, Any, MetadataImage], Refusals]
"""Takes out of a request what `context` may not ask for."""

CLUSTER_OPERATIONS: dict[ApiKeys, AclOperation] = {
    ApiKeys.FETCH: AclOperation.CLUSTER_ACTION,
    ApiKeys.FETCH_SNAPSHOT: AclOperation.CLUSTER_ACTION,
    ApiKeys.VOTE: AclOperation.CLUSTER_ACTION,
    ApiKeys.BEGIN_QUORUM_EPOCH: AclOperation.CLUSTER_ACTION,
    ApiKeys.END_QUORUM_EPOCH: AclOperation.CLUSTER_ACTION,
    ApiKeys.ENVELOPE: AclOperation.CLUSTER_ACTION,
    ApiKeys.ALTER_PARTITION: AclOperation.CLUSTER_ACTION,
    ApiKeys.ASSIGN_REPLICAS_TO_DIRS: AclOperation.CLUSTER_ACTION,
    ApiKeys.ALLOCATE_PRODUCER_IDS: AclOperation.CLUSTER_ACTION,
    ApiKeys.BROKER_REGISTRATION: AclOperation.CLUSTER_ACTION,
    ApiKeys.BROKER_HEARTBEAT: AclOperation.CLUSTER_ACTION,
    ApiKeys.CONTROLLER_REGISTRATION: AclOperation.CLUSTER_ACTION,
    ApiKeys.UPDATE_RAFT_VOTER: AclOperation.CLUSTER_ACTION,
    ApiKeys.BUMP_LEADER_EPOCHS: AclOperation.CLUSTER_ACTION,
    ApiKeys.READ_MIRROR_STATES: AclOperation.CLUSTER_ACTION,
    ApiKeys.WRITE_MIRROR_STATES: AclOperation.CLUSTER_ACTION,
    ApiKeys.DESCRIBE_QUORUM: AclOperation.DESCRIBE,
    ApiKeys.LIST_PARTITION_REASSIGNMENTS: AclOperation.DESCRIBE,
    ApiKeys.DESCRIBE_ACLS: AclOperation.DESCRIBE,
    ApiKeys.ALTER_CLIENT_QUOTAS: AclOperation.ALTER_CONFIGS,
    ApiKeys.CREATE_ACLS: AclOperation.ALTER,
    ApiKeys.DELETE_ACLS: AclOperation.ALTER,
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: AclOperation.ALTER,
    ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: AclOperation.ALTER,
    ApiKeys.ELECT_LEADERS: AclOperation.ALTER,
    ApiKeys.UNREGISTER_BROKER: AclOperation.ALTER,
    ApiKeys.UPDATE_FEATURES: AclOperation.ALTER,
    ApiKeys.DESCRIBE_CLUSTER: AclOperation.ALTER,
    ApiKeys.ADD_RAFT_VOTER: AclOperation.ALTER,
    ApiKeys.REMOVE_RAFT_VOTER: AclOperation.ALTER,
}

UNGUARDED = frozenset(
    {
        ApiKeys.API_VERSIONS,
        ApiKeys.SASL_HANDSHAKE,
        ApiKeys.SASL_AUTHENTICATE,
        # The token's owner decides; the manager of tokens knows it.
        ApiKeys.RENEW_DELEGATION_TOKEN,
        ApiKeys.EXPIRE_DELEGATION_TOKEN,
    }
)

BROKERS_OWN = frozenset(
    {
        ApiKeys.CREATE_TOPICS,
        ApiKeys.CREATE_PARTITIONS,
        ApiKeys.INCREMENTAL_ALTER_CONFIGS,
        ApiKeys.CREATE_ACLS,
        ApiKeys.DELETE_ACLS,
    }
)
"""What brokers request for themselves, to sync mirrors: CLUSTER_ACTION is enough, unless the
request was forwarded for a client (KIP-1279)."""

_WITHOUT_OWN_TEXT = (ApiKeys.DESCRIBE_QUORUM, ApiKeys.ADD_RAFT_VOTER, ApiKeys.REMOVE_RAFT_VOTER, ApiKeys.UPDATE_RAFT_VOTER)
"""The quorum's APIs, which answer with the error's default text."""

_ALTERED_AS = {
    RESOURCE_BROKER: ResourceType.CLUSTER,
    RESOURCE_CLIENT_METRICS: ResourceType.CLUSTER,
    RESOURCE_TOPIC: ResourceType.TOPIC,
    RESOURCE_GROUP: ResourceType.GROUP,
    RESOURCE_MIRROR: ResourceType.CLUSTER_MIRROR,
}


def check_request(
    auth: AuthHelper, api_key: ApiKeys, context: ControllerRequestContext, request: Any, image: MetadataImage
) -> Refusals | None:
    """Authorizes `request` and takes out what is not allowed; raises ApiException if nothing of it
    is allowed."""
    if auth.authorizer is None or api_key in UNGUARDED:
        return None
    if api_key in MIRROR_API_KEYS and image.features.level(MIRROR_VERSION) < 1:
        return None
    if api_key in BROKERS_OWN and not context.forwarded and auth.may_on_cluster(context, AclOperation.CLUSTER_ACTION, log_if_denied=False):
        return None
    gate = GATES.get(api_key)
    if gate is not None:
        return gate(auth, context, request, image)
    operation = CLUSTER_OPERATIONS.get(api_key, AclOperation.CLUSTER_ACTION)
    if api_key in _WITHOUT_OWN_TEXT and not auth.may_on_cluster(context, operation):
        raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED)
    auth.authorize_cluster_operation(context, operation)
    return None


# --- topics ---------------------------------------------------------------------------------------


def _create_topics(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Needs CREATE on the cluster or on the topic; without DESCRIBE_CONFIGS the answer does not
    show the new topic's settings."""
    names = _named_once(topic.name for topic in request.topics) - {CLUSTER_METADATA_TOPIC_NAME}
    allowed = names
    if not auth.may_on_cluster(context, AclOperation.CREATE, log_if_denied=False):
        allowed = auth.filter_by_authorized(context, AclOperation.CREATE, ResourceType.TOPIC, sorted(names))
    describable = auth.filter_by_authorized(context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, sorted(names), log_if_denied=False)
    refused = dict.fromkeys(sorted(names - allowed))
    request.topics = [topic for topic in request.topics if topic.name not in refused]

    def refuse(response: Any) -> None:
        for topic in response.topics:
            if topic.error_code == Errors.NONE and topic.name not in describable:
                topic.topic_config_error_code = Errors.TOPIC_AUTHORIZATION_FAILED
                topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []
        response.topics += [
            CreatableTopicResult(name=name, error_code=Errors.TOPIC_AUTHORIZATION_FAILED, error_message="Authorization failed.")
            for name in refused
        ]

    return refuse


def _delete_topics(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Needs DELETE on the cluster or on the topic. The answer hides names and ids of topics that
    the client may not describe."""
    states = [(state.name, state.topic_id) for state in request.topics] or [(name, Uuid.ZERO) for name in request.topic_names]
    counts = Counter(states)
    by_id = image.topics.by_id
    names = {name for name, topic_id in states if name is not None and not topic_id and counts[name, topic_id] == 1}
    ids = {topic_id for name, topic_id in states if name is None and topic_id in by_id and counts[name, topic_id] == 1}
    known = sorted(names | {by_id[topic_id].name for topic_id in ids})
    describable = deletable = set(known)
    if not auth.may_on_cluster(context, AclOperation.DELETE, log_if_denied=False):
        describable = auth.filter_by_authorized(context, AclOperation.DESCRIBE, ResourceType.TOPIC, known)
        deletable = auth.filter_by_authorized(context, AclOperation.DELETE, ResourceType.TOPIC, known)
    results: list[DeletableTopicResult] = []
    refused: set[tuple[str | None, Uuid]] = set()
    error, text = Errors.TOPIC_AUTHORIZATION_FAILED, Errors.TOPIC_AUTHORIZATION_FAILED.message
    for topic_id in sorted(ids, key=str):
        name = by_id[topic_id].name
        if name not in deletable:
            shown = name if name in describable else None
            refused.add((None, topic_id))
            results.append(DeletableTopicResult(name=shown, topic_id=topic_id, error_code=error, error_message=text))
    for name in sorted(names):
        exists = name in image.topics.by_name
        if name not in describable or (exists and name not in deletable):
            refused.add((name, Uuid.ZERO))
            results.append(DeletableTopicResult(name=name, error_code=error, error_message=text))
    request.topics = [state for state in request.topics if (state.name, state.topic_id) not in refused]
    request.topic_names = [name for name in request.topic_names if (name, Uuid.ZERO) not in refused]

    def refuse(response: Any) -> None:
        response.responses += results

    return refuse


def _create_partitions(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Needs ALTER on the topic."""
    names = _named_once(topic.name for topic in request.topics)
    alterable = auth.filter_by_authorized(context, AclOperation.ALTER, ResourceType.TOPIC, sorted(names))
    refused = dict.fromkeys(sorted(names - alterable))
    request.topics = [topic for topic in request.topics if topic.name not in refused]

    def refuse(response: Any) -> None:
        response.results += [CreatePartitionsTopicResult(name=name, error_code=Errors.TOPIC_AUTHORIZATION_FAILED) for name in refused]

    return refuse


# --- configs --------------------------------------------------------------------------------------


def _alter_configs(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Needs ALTER_CONFIGS on the resource of the settings: a topic, a group, a mirror; for brokers
    and client metrics, the cluster."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    refused: list[Any] = []
    left: list[Any] = []
    for resource in request.resources:
        resource_type = _ALTERED_AS.get(resource.resource_type)
        if resource_type is None or counts[resource.resource_type, resource.resource_name] > 1:
            left.append(resource)
            continue
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else resource.resource_name
        if auth.authorize(context, AclOperation.ALTER_CONFIGS, resource_type, name):
            left.append(resource)
        else:
            refused.append(resource)
    request.resources = left
    row: Any = message_class(API_TABLE[context.api_key].module, "AlterConfigsResourceResponse")

    def refuse(response: Any) -> None:
        for resource in refused:
            error = AUTHORIZATION_ERRORS[_ALTERED_AS[resource.resource_type]]
            named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            response.responses.append(row(error_code=error, error_message=error.message, **named))

    return refuse


# --- mirrors, tokens ------------------------------------------------------------------------------


def _mirror(operation: AclOperation) -> Gate:
    """Needs `operation` on the mirror, for the whole request."""

    def gate(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
        if not auth.authorize(context, operation, ResourceType.CLUSTER_MIRROR, request.mirror_name):
            raise ApiException(Errors.MIRROR_AUTHORIZATION_FAILED)
        return _nothing

    return gate


def _mirror_topics(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Needs ALTER on the mirror, and READ on each topic, which may be named by its id."""
    _mirror(AclOperation.ALTER)(auth, context, request, image)
    names = [_mirror_topic_name(topic, image) for topic in request.topics]
    allowed = auth.filter_by_authorized(context, AclOperation.READ, ResourceType.TOPIC, names)
    request.topics = [topic for topic, name in zip(request.topics, names, strict=True) if name in allowed]
    refused = [name for name in dict.fromkeys(names) if name not in allowed]
    row: Any = message_class(API_TABLE[context.api_key].module, "TopicResult")

    def refuse(response: Any) -> None:
        response.topics += [row(name=name, error_code=Errors.TOPIC_AUTHORIZATION_FAILED) for name in refused]

    return refuse


def _mirror_topic_name(topic: Any, image: MetadataImage) -> str:
    found = None if topic.topic_name else image.topics.topic_by_id(topic.topic_id)
    return str(topic.topic_name or "") if found is None else found.name


def _create_delegation_token(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Creating a token for oneself needs no permission; for somebody else it needs CREATE_TOKENS on
    that user."""
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}" if request.owner_principal_name else str(context.principal)
    if owner != str(context.principal) and not auth.authorize(context, AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        raise ApiException(Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return _nothing


def _describe_configs(auth: AuthHelper, context: ControllerRequestContext, request: Any, image: MetadataImage) -> Refusals:
    """Needs DESCRIBE_CONFIGS on the resource of the settings."""
    row: Any = message_class(API_TABLE[context.api_key].module, "DescribeConfigsResult")
    refused = []
    left = []
    for resource in request.resources:
        resource_type = _ALTERED_AS.get(resource.resource_type, ResourceType.CLUSTER)
        name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else resource.resource_name
        if auth.authorize(context, AclOperation.DESCRIBE_CONFIGS, resource_type, name):
            left.append(resource)
        else:
            error = AUTHORIZATION_ERRORS[resource_type]
            named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            refused.append(row(error_code=error, error_message=error.message, **named))
    request.resources = left

    def refuse(response: Any) -> None:
        response.results += refused

    return refuse


def _nothing(response: Any) -> None:
    """The refusals of a request from which nothing was taken out."""


def _named_once(names: Any) -> set[str]:
    return {name for name, count in Counter(names).items() if count == 1}


GATES: dict[ApiKeys, Gate] = {
    ApiKeys.CREATE_TOPICS: _create_topics,
    ApiKeys.DELETE_TOPICS: _delete_topics,
    ApiKeys.CREATE_PARTITIONS: _create_partitions,
    ApiKeys.ALTER_CONFIGS: _alter_configs,
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKeys.DESCRIBE_CONFIGS: _describe_configs,
    ApiKeys.CREATE_DELEGATION_TOKEN: _create_delegation_token,
    ApiKeys.CREATE_MIRROR: _mirror(AclOperation.CREATE),
    ApiKeys.DELETE_MIRROR: _mirror(AclOperation.ALTER),
    ApiKeys.ADD_TOPICS_TO_MIRROR: _mirror_topics,
    ApiKeys.REMOVE_TOPICS_FROM_MIRROR: _mirror_topics,
    ApiKeys.PAUSE_MIRROR_TOPICS: _mirror_topics,
    ApiKeys.RESUME_MIRROR_TOPICS: _mirror_topics,
}
