"""Requests that the controller answers: changes of metadata, and questions that only it can answer.

`broker_api_table` says which APIs these are. The controller authorizes and answers, and the client
gets its response unchanged. When no controller answers in time, the client is told
REQUEST_TIMED_OUT.

Most requests are forwarded unchanged. AlterConfigs and IncrementalAlterConfigs are checked here
first: a broker refuses what its own settings forbid, and changes the levels of its loggers itself.
The checks for mirrors are in `mirror` and `mirror_guard`, those for ACLs and delegation tokens in
`acls` and `delegation_tokens`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kmirror.common.acl import AclOperation
from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import RESOURCE_BROKER_LOGGER
from kmirror.server.config_admin_manager import check_resource
from kmirror.server.request import Request
from kmirror.server.runtime_logger_manager import apply_changes
from kmirror.wire.api_keys import API_TABLE, ApiKeys, message_class

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_alter_configs(apis: KafkaApis, request: Request) -> Any:
    """AlterConfigs and IncrementalAlterConfigs.

    This broker answers for what it refuses and for the levels of its loggers; the rest is
    forwarded.
    """
    message = request.message
    resources = list(message.resources)
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answered: dict[int, ApiException] = {}
    for resource in resources:
        try:
            _check_logger(apis, request, resource)
            is_repeated = counts[resource.resource_type, resource.resource_name] > 1
            check_resource(resource, is_repeated=is_repeated, config=apis.config, configs=apis.metadata_cache.image.configs)
            if resource.resource_type == RESOURCE_BROKER_LOGGER:
                _change_loggers(apis, request, resource)
                answered[id(resource)] = ApiException(Errors.NONE, "")
        except ApiException as error:
            answered[id(resource)] = error
    message.resources = [resource for resource in resources if id(resource) not in answered]
    response: Any = API_TABLE[request.api_key].response()
    if message.resources or not resources:
        response = await handle_forwarded(apis, request)
    if answered:
        result_class: Any = message_class(API_TABLE[request.api_key].module, "AlterConfigsResourceResponse")
        for resource in resources:
            answer = answered.get(id(resource))
            if answer is not None:
                result = result_class(
                    error_code=answer.error,
                    error_message=answer.message or None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                response.responses.append(result)
    return response


def _check_logger(apis: KafkaApis, request: Request, resource: Any) -> None:
    """Authorizes a change of logger levels, which are this broker's own and never reach the
    controller.
    """
    if resource.resource_type == RESOURCE_BROKER_LOGGER and not apis.auth.may_on_cluster(request, AclOperation.ALTER_CONFIGS):
        raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED, "")


def _change_loggers(apis: KafkaApis, request: Request, resource: Any) -> None:
    if request.api_key is not ApiKeys.INCREMENTAL_ALTER_CONFIGS:
        raise ApiException(Errors.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    apply_changes(resource, node_id=apis.config.node_id, validate_only=request.message.validate_only)


async def handle_forwarded(apis: KafkaApis, request: Request) -> Any:
    return await apis.controller.forward(request)
