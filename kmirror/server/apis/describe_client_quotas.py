"""DescribeClientQuotas (key 48). Served: v0-v1 (v1 is flexible).

Answered from this broker's metadata; needs DescribeConfigs on the cluster. A filter has components:
an entity type with a name, with its default, or with any name. `strict` leaves out entities that
have more types than the filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.acl import CLUSTER_NAME, AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.client_quotas import describe_client_quotas
from kmirror.server.request import Request
from kmirror.wire.messages.describe_client_quotas import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_describe_client_quotas(apis: KafkaApis, request: Request) -> DescribeClientQuotasResponse:
    try:
        if not apis.authorize(request, AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED)
        entries = list(describe_client_quotas(apis.metadata_cache.image.client_quotas, request.message))
    except ApiException as error:
        message = None if error.message == error.error.message else error.message
        return DescribeClientQuotasResponse(error_code=error.error, error_message=message, entries=None)
    return DescribeClientQuotasResponse(entries=entries)
