"""Access to all config definitions: `validate` checks what the controller is asked to store,
`effective_topic_configs` returns the values in force.

Topic configs: `topic_configs`. Groups, client metrics, mirrors, and which broker configs can
change: `resource_configs`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.config import ConfigDef
from kmirror.common.errors import ApiException, Errors
from kmirror.common.numbers import is_integer
from kmirror.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_MIRROR,
    RESOURCE_TOPIC,
    ConfigResource,
    MetadataImage,
)
from kmirror.metadata.mirror_names import validate_topic_name
from kmirror.metadata.resource_configs import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    MIRROR_CONFIGS,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_mirror_configs,
)
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, default_text, inherited_topic_configs, validate_topic_configs

DEFINITIONS: dict[int, ConfigDef] = {
    RESOURCE_TOPIC: TOPIC_CONFIGS,
    RESOURCE_GROUP: GROUP_CONFIGS,
    RESOURCE_CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
    RESOURCE_MIRROR: MIRROR_CONFIGS,
}
RESOURCE_TYPE_NAMES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP", 64: "MIRROR"}


def validate(resource: ConfigResource, props: Mapping[str, str], inherited: Mapping[str, str] | None = None) -> None:
    """Raises ApiException with Kafka's code and text unless `props`, the resource's whole set of
    overrides, may be stored.

    `inherited` has the values below them: a topic's defaults, or for a group the node's properties,
    which limit it.
    """
    if resource.type == RESOURCE_TOPIC:
        validate_topic_name(resource.name)
        validate_topic_configs(props, inherited)
    elif resource.type == RESOURCE_BROKER:
        validate_broker_name(resource.name)
    elif resource.type == RESOURCE_CLIENT_METRICS:
        validate_client_metrics_configs(resource.name, props)
    elif resource.type == RESOURCE_GROUP:
        if not resource.name:
            raise ApiException(Errors.INVALID_REQUEST, "Default group resources are not allowed.")
        validate_group_configs(props, inherited)
    elif resource.type == RESOURCE_MIRROR:
        validate_mirror_configs(props)
    else:
        name = RESOURCE_TYPE_NAMES.get(resource.type, "UNKNOWN")
        raise ApiException(Errors.INVALID_REQUEST, f"Unknown resource type {name}")


def validate_broker_name(name: str) -> None:
    """Raises ApiException INVALID_REQUEST unless the name is "" (cluster default) or a broker
    id."""
    if not name:
        return
    if not is_integer(name):
        raise ApiException(Errors.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise ApiException(Errors.INVALID_REQUEST, "Invalid negative broker ID.")


def effective_topic_configs(
    image: MetadataImage, topic: str, static_broker_props: Mapping[str, str], broker_id: int | None = None
) -> dict[str, str]:
    """Returns the configs in force for `topic` on a node with these properties, without built-in
    defaults.

    A later source overrides an earlier one: static broker properties, the cluster's dynamic
    default, the broker's own dynamic configs, the topic's.
    """
    result = inherited_topic_configs(static_broker_props)
    result |= inherited_topic_configs(image.configs.cluster_default())
    if broker_id is not None:
        result |= inherited_topic_configs(image.configs.broker(broker_id))
    return result | image.configs.topic(topic)


def topic_config(image: MetadataImage, topic: str, name: str, static_broker_props: Mapping[str, str]) -> str | None:
    """Returns one effective topic config as text, or its default."""
    effective = effective_topic_configs(image, topic, static_broker_props)
    return effective[name] if name in effective else default_text(name)
