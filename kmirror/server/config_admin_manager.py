"""What a broker checks in config changes before it forwards them to the controller (Kafka's
`ConfigAdminManager.preprocess`).

Topic and broker resources are checked here, because only a broker knows its own settings. A broker
resource must be this broker or the cluster default, its settings must be ones that can change at
runtime on that level, and their values must parse. A bad value that the controller stored would
spoil the topic defaults of the whole cluster. What is refused never reaches the controller. The
rest is forwarded, and the handler merges both kinds of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kmirror.common.errors import ApiException, Errors
from kmirror.common.numbers import is_integer
from kmirror.metadata.configs import RESOURCE_TYPE_NAMES
from kmirror.metadata.image import RESOURCE_BROKER, ConfigurationsImage
from kmirror.server.broker_configs import broker_configs
from kmirror.server.dynamic_config_validation import validate_broker_settings
from kmirror.server.kafka_config import KafkaConfig

SET, DELETE, APPEND, SUBTRACT = range(4)


def check_resource(resource: Any, *, is_repeated: bool, config: KafkaConfig, configs: ConfigurationsImage) -> None:
    """Raises ApiException unless this resource of an AlterConfigs or IncrementalAlterConfigs
    request may go to the controller.
    """
    if is_repeated:
        raise ApiException(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise ApiException(Errors.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [config.name for config in resource.configs if config.value is None and getattr(config, "config_operation", SET) != DELETE]
    if missing:
        raise ApiException(Errors.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}")
    if not RESOURCE_TYPE_NAMES.get(resource.resource_type, ""):
        raise ApiException(Errors.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    if resource.resource_type == RESOURCE_BROKER:
        _check_broker_id(resource.resource_name, config.node_id)
        _check_operations(resource.configs)
        present = configs.broker(config.node_id) if resource.resource_name else configs.cluster_default()
        validate_broker_settings(config, configs, _proposed(resource, present), is_default=not resource.resource_name)


def _check_operations(changes: Sequence[Any]) -> None:
    """A list operation is only for configs that brokers have; the controller knows which are
    lists."""
    for change in changes:
        operation = getattr(change, "config_operation", SET)
        if operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise ApiException(Errors.INVALID_REQUEST, f"Unknown operations type {operation}")
        if operation in (APPEND, SUBTRACT) and change.name not in broker_configs():
            raise ApiException(Errors.INVALID_CONFIG, f"Unknown config name: {change.name}")


def _check_broker_id(name: str, node_id: int) -> None:
    if not name:
        return
    if not is_integer(name):
        raise ApiException(Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise ApiException(Errors.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def _proposed(resource: Any, present: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings after the change.

    The controller, which knows the lists, checks what is appended or subtracted.
    """
    if not resource.configs or not hasattr(resource.configs[0], "config_operation"):
        return {config.name: config.value for config in resource.configs}
    proposed = dict(present)
    for config in resource.configs:
        if config.config_operation == SET:
            proposed[config.name] = config.value
        elif config.config_operation == DELETE:
            proposed.pop(config.name, None)
    return proposed
