"""DescribeConfigs (key 32).

Served: v1-v4, v5 with mirroring (its bytes are those of v4; type 64 is allowed at every version).

    v1   synonyms, sources             v4   flexible
    v3   types, documentation          v5   mirrors (KIP-1279)

Resources: topics (2), this broker (4) or, with an empty name, the cluster-wide dynamic defaults,
loggers of this broker (8), client metrics (16), groups (32), mirrors (64). `mirror.name` and a
mirror's remembered source cluster are never shown. Passwords are null and sensitive, and so is an
unknown server property, since it might be a password. A broker other than this one, or a name that
is not an id, answers INVALID_REQUEST; a topic that does not exist UNKNOWN_TOPIC_OR_PARTITION; a
mirror that does not exist UNKNOWN_MIRROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.numbers import is_integer
from kmirror.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_MIRROR,
    RESOURCE_TOPIC,
    MetadataImage,
)
from kmirror.server.config_views import ConfigSource, ConfigViews, DescribedConfig
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.request import Request
from kmirror.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

_log = logging.getLogger(__name__)

RESOURCE_TYPES = frozenset(
    (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_MIRROR)
)
_AUTHORIZED_AS = {
    RESOURCE_TOPIC: (ResourceType.TOPIC, Errors.TOPIC_AUTHORIZATION_FAILED),
    RESOURCE_GROUP: (ResourceType.GROUP, Errors.GROUP_AUTHORIZATION_FAILED),
    RESOURCE_MIRROR: (ResourceType.CLUSTER_MIRROR, Errors.MIRROR_AUTHORIZATION_FAILED),
}


async def handle_describe_configs(apis: KafkaApis, request: Request) -> DescribeConfigsResponse:
    """Raises INVALID_REQUEST for the whole request if one resource has a type that no config has."""
    for resource in request.message.resources:
        if resource.resource_type not in RESOURCE_TYPES:
            raise ApiException(Errors.INVALID_REQUEST)
    return describe_configs(
        request.message, apis.config, apis.metadata_cache.image, check=lambda resource: _authorize(apis, request, resource)
    )


def describe_configs(
    message: DescribeConfigsRequest, config: KafkaConfig, image: MetadataImage, *, check: Callable[[DescribeConfigsResource], None]
) -> DescribeConfigsResponse:
    """Describes what a node with this config knows; `check` raises for a resource that the caller
    may not see.
    """
    views = ConfigViews(config, image)
    return DescribeConfigsResponse(results=[_describe(message, views, config.node_id, resource, check) for resource in message.resources])


def _describe(
    message: DescribeConfigsRequest,
    views: ConfigViews,
    node_id: int,
    resource: DescribeConfigsResource,
    check: Callable[[DescribeConfigsResource], None],
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        check(resource)
        entries = _entries(views, node_id, resource)
    except ApiException as error:
        _log.info("Error processing describe configs request for resource %s: %s", resource.resource_name, error.message)
        result.error_code, result.error_message = error.error, error.message
        return result
    wanted = frozenset(resource.configuration_keys or ())
    result.configs = [
        _entry(entry, with_synonyms=message.include_synonyms, with_documentation=message.include_documentation)
        for entry in entries
        if not wanted or entry.name in wanted
    ]
    return result


def _authorize(apis: KafkaApis, request: Request, resource: DescribeConfigsResource) -> None:
    default = (ResourceType.CLUSTER, Errors.CLUSTER_AUTHORIZATION_FAILED)
    resource_type, error = _AUTHORIZED_AS.get(resource.resource_type, default)
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else resource.resource_name
    if not apis.authorize(request, AclOperation.DESCRIBE_CONFIGS, resource_type, name):
        raise ApiException(error, error.message)


def _entries(views: ConfigViews, node_id: int, resource: DescribeConfigsResource) -> list[DescribedConfig]:
    name = resource.resource_name
    match resource.resource_type:
        case t if t == RESOURCE_TOPIC:
            return views.topic(name)
        case t if t == RESOURCE_BROKER:
            if not name:
                return views.broker_defaults()
            _check_broker_id(name, node_id, "expected {} or empty string, but received {}")
            return views.broker()
        case t if t == RESOURCE_BROKER_LOGGER:
            if not name:
                raise ApiException(Errors.INVALID_REQUEST, "Broker id must not be empty")
            _check_broker_id(name, node_id, "expected {} but received {}")
            return views.loggers()
        case t if t == RESOURCE_CLIENT_METRICS:
            if not name:
                raise ApiException(Errors.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return views.client_metrics(name)
        case t if t == RESOURCE_GROUP:
            if not name:
                raise ApiException(Errors.INVALID_REQUEST, "Group name must not be empty")
            return views.group(name)
        case t if t == RESOURCE_MIRROR:
            return views.mirror(name)
    raise ApiException(Errors.INVALID_REQUEST, Errors.INVALID_REQUEST.message)


def _check_broker_id(name: str, broker_id: int, expectation: str) -> None:
    if not is_integer(name):
        raise ApiException(Errors.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker_id:
        raise ApiException(Errors.INVALID_REQUEST, "Unexpected broker id, " + expectation.format(broker_id, name))


def _entry(entry: DescribedConfig, *, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in entry.synonyms]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=synonyms if with_synonyms else [],
        config_type=entry.type,
        documentation=entry.documentation if with_documentation or entry.source == ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG else None,
    )
