"""DescribeCluster (key 60, KIP-700). Served: v0-v2 (v1 endpoint type, v2 fenced brokers).

A broker answers for brokers only: endpoint type 2 (controllers) is MISMATCHED_ENDPOINT_TYPE here.
As in Metadata, the controller id is the id of any live broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.server.request import Request
from kmirror.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis

BROKER_ENDPOINT = 1
CONTROLLER_ENDPOINT = 2


async def handle_describe_cluster(apis: KafkaApis, request: Request) -> DescribeClusterResponse:
    message: DescribeClusterRequest = request.message
    if message.endpoint_type == CONTROLLER_ENDPOINT:
        raise ApiException(
            Errors.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if message.endpoint_type != BROKER_ENDPOINT:
        raise ApiException(Errors.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {message.endpoint_type}")
    cluster = apis.metadata_cache.image.cluster
    brokers: list[DescribeClusterBroker] = []
    for broker_id in sorted(cluster.brokers):
        broker = cluster.brokers[broker_id]
        endpoint = broker.listeners.get(request.listener_name)
        if endpoint is None or (broker.fenced and not message.include_fenced_brokers):
            continue
        brokers.append(
            DescribeClusterBroker(broker_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced)
        )
    alive = [broker.broker_id for broker in brokers if not broker.is_fenced]
    response = DescribeClusterResponse(
        endpoint_type=BROKER_ENDPOINT,
        cluster_id=apis.cluster_id,
        controller_id=alive[apis.runtime.random.randrange(len(alive))] if alive else -1,
        brokers=brokers,
    )
    if message.include_cluster_authorized_operations:
        allowed = apis.auth.may_on_cluster(request, AclOperation.DESCRIBE)
        operations = apis.auth.authorized_operations(request, ResourceType.CLUSTER, CLUSTER_NAME) if allowed else 0
        response.cluster_authorized_operations = operations
    return response
