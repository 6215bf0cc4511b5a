"""The response that tells a failure: at the top where the API has a place for it there, else once for each thing asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmirror.common.errors import ApiException
from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)


def _create_topics(request: create_topics.CreateTopicsRequest, error: ApiException) -> Any:
    results = [
        create_topics.CreatableTopicResult(name=topic.name, error_code=error.error, error_message=error.message, configs=[])
        for topic in request.topics
    ]
    return create_topics.CreateTopicsResponse(topics=results)


def _delete_topics(request: delete_topics.DeleteTopicsRequest, error: ApiException) -> Any:
    wanted: list[tuple[str | None, Uuid]] = [(topic.name, topic.topic_id) for topic in request.topics]
    wanted += [(name, Uuid.ZERO) for name in request.topic_names if not request.topics]
    response = delete_topics.DeleteTopicsResponse()
    for name, topic_id in wanted:
        result = delete_topics.DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.error, error_message=error.message)
        response.responses.append(result)
    return response


def _create_partitions(request: create_partitions.CreatePartitionsRequest, error: ApiException) -> Any:
    results = [
        create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=error.error, error_message=error.message)
        for topic in request.topics
    ]
    return create_partitions.CreatePartitionsResponse(results=results)


def _incremental(request: incremental_alter_configs.IncrementalAlterConfigsRequest, error: ApiException) -> Any:
    results = [
        incremental_alter_configs.AlterConfigsResourceResponse(
            error_code=error.error, error_message=error.message, resource_type=r.resource_type, resource_name=r.resource_name
        )
        for r in request.resources
    ]
    return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=results)


def _alter_configs(request: alter_configs.AlterConfigsRequest, error: ApiException) -> Any:
    results = [
        alter_configs.AlterConfigsResourceResponse(
            error_code=error.error, error_message=error.message, resource_type=r.resource_type, resource_name=r.resource_name
        )
        for r in request.resources
    ]
    return alter_configs.AlterConfigsResponse(responses=results)


_PER_ITEM: dict[int, Callable[[Any, ApiException], Any]] = {
    ApiKeys.CREATE_TOPICS: _create_topics,
    ApiKeys.DELETE_TOPICS: _delete_topics,
    ApiKeys.CREATE_PARTITIONS: _create_partitions,
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: _incremental,
    ApiKeys.ALTER_CONFIGS: _alter_configs,
}


def error_response(api_key: int, request: Any, error: ApiException) -> Any:
    """A response of `api_key` that carries `error` for everything that `request` asks."""
    per_item = _PER_ITEM.get(api_key)
    if per_item is not None:
        return per_item(request, error)
    response: Any = API_TABLE[ApiKeys(api_key)].response()
    response.error_code = error.error
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
