"""AdminClient calls about configurations: of topics, brokers, broker loggers, client metrics,
groups and mirrors.

A request about one broker (its configuration or its loggers) goes to that broker, because only it
knows the answer. Everything else, including the default of all brokers, goes to any broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.admin.admin_requests import AdminRequests, error_of, raise_for
from kmirror.admin.results import ConfigEntry, ConfigOperation, ConfigResourceType, ConfigSource, ConfigSynonym
from kmirror.common.errors import ApiException
from kmirror.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from kmirror.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kmirror.wire.messages.list_config_resources import ListConfigResourcesRequest


async def describe_configs(
    cluster: AdminRequests, resource_type: ConfigResourceType, name: str, *, include_synonyms: bool = False
) -> list[ConfigEntry]:
    """Returns all entries of one resource, in the order of the answer."""
    request = DescribeConfigsRequest(resources=[_resource(resource_type, name)], include_synonyms=include_synonyms)
    node_id = None if cluster.controllers else _broker_of(resource_type, name)
    response = await cluster.ask_node(node_id, request)
    row = response.results[0]
    raise_for(row.error_code, row.error_message)
    return _entries(row)


async def describe_topic_configs(cluster: AdminRequests, topics: Iterable[str]) -> dict[str, list[ConfigEntry] | ApiException]:
    """Returns the entries of each topic, or why they cannot be had, from one request."""
    request = DescribeConfigsRequest(resources=[_resource(ConfigResourceType.TOPIC, topic) for topic in topics])
    if not request.resources:
        return {}
    response = await cluster.ask_any(request)
    return {row.resource_name: error_of(row.error_code, row.error_message) or _entries(row) for row in response.results}


async def incremental_alter_configs(
    cluster: AdminRequests,
    resource_type: ConfigResourceType,
    name: str,
    changes: Iterable[tuple[str, ConfigOperation, str | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Changes single entries of one resource, each by SET, DELETE, APPEND or SUBTRACT.

    Raises the failure; then nothing is changed.
    """
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    node_id = None if cluster.controllers else _broker_of(resource_type, name)
    response = await cluster.ask_node(node_id, request)
    for row in response.responses:
        raise_for(row.error_code, row.error_message)


async def list_config_resources(cluster: AdminRequests, *resource_types: ConfigResourceType) -> list[tuple[ConfigResourceType, str]]:
    """Returns type and name of every resource that has or could have configurations.

    Without `resource_types` it returns those of all types.
    """
    request = ListConfigResourcesRequest(resource_types=[int(kind) for kind in resource_types])
    response = await cluster.ask_any(request)
    raise_for(response.error_code, None)
    known = {int(kind) for kind in ConfigResourceType}
    rows = [row for row in response.config_resources if row.resource_type in known]
    return sorted((ConfigResourceType(row.resource_type), row.resource_name) for row in rows)


def _resource(resource_type: ConfigResourceType, name: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)


def _entries(row: DescribeConfigsResult) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            entry.name,
            entry.value,
            entry.config_source,
            entry.is_sensitive,
            entry.read_only,
            entry.config_source == ConfigSource.DEFAULT_CONFIG,
            tuple(ConfigSynonym(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms),
        )
        for entry in row.configs
    ]


def _broker_of(resource_type: ConfigResourceType, name: str) -> int | None:
    is_of_one_broker = resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    return int(name) if is_of_one_broker and name.isdigit() else None
