"""ListConfigResources (key 74; ListClientMetricsResources before KIP-1142). Served: v0-v1.

v0 lists client-metrics subscriptions. v1 lists the types that are asked for (all if none is named):
topics, brokers, broker loggers, client metrics, groups with configs of their own, and mirrors (type
64, with mirroring). An unknown type is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_MIRROR,
    RESOURCE_TOPIC,
)
from kmirror.server.request import Request
from kmirror.wire.messages.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

_TYPES = (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP)


async def handle_list_config_resources(apis: KafkaApis, request: Request) -> ListConfigResourcesResponse:
    message: ListConfigResourcesRequest = request.message
    if not apis.authorize(request, AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.CLUSTER_AUTHORIZATION_FAILED.message)
    supported = (*_TYPES, RESOURCE_MIRROR) if apis.config.unstable_api_versions_enable else _TYPES
    if request.api_version == 0:
        wanted: tuple[int, ...] = (RESOURCE_CLIENT_METRICS,)
    else:
        wanted = tuple(dict.fromkeys(message.resource_types)) or supported
    for resource_type in wanted:
        if resource_type not in supported:
            raise ApiException(Errors.UNSUPPORTED_VERSION, f"Unsupported resource type {resource_type}")
    resources = [ConfigResource(name, resource_type) for resource_type in wanted for name in _names(apis, request, resource_type)]
    return ListConfigResourcesResponse(config_resources=resources)


def _names(apis: KafkaApis, request: Request, resource_type: int) -> list[str]:
    image = apis.metadata_cache.image
    if resource_type == RESOURCE_TOPIC:
        return list(image.topics.by_name)
    if resource_type in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        return [str(node.id) for node in apis.metadata_cache.alive_nodes(request.listener_name)]
    return sorted(resource.name for resource in image.configs.resources if resource.type == resource_type)
