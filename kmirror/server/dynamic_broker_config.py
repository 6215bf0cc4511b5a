"""Broker settings that are changed while the broker runs (Kafka's `DynamicBrokerConfig`), as far as they change behaviour here.

What a dynamic setting overrides: this broker's own (resource "<id>") before the cluster-wide one (resource "") before the
properties file. The ones that give topics their defaults (`log.retention.ms`, `min.insync.replicas`, `message.max.bytes` …)
go to the log manager, which gives every log its config anew; the rest is kept by the controller and shown by
DescribeConfigs. Invalid values are refused by the controller; one that slips through leaves the old defaults in place.
"""

from __future__ import annotations

import logging

from kmirror.common.errors import KmirrorError
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_BROKER, ConfigResource, MetadataImage
from kmirror.metadata.loader import LoaderManifest
from kmirror.metadata.topic_configs import inherited_topic_configs
from kmirror.server.kafka_config import KafkaConfig
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager

_log = logging.getLogger(__name__)


class DynamicBrokerConfig:
    """A `MetadataPublisher`; install it before those that make logs."""

    name = "DynamicBrokerConfig"

    def __init__(self, config: KafkaConfig, log_manager: LogManager) -> None:
        self._config = config
        self._log_manager = log_manager
        self._current = config.default_log_config()

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        resources = (ConfigResource(RESOURCE_BROKER, ""), ConfigResource(RESOURCE_BROKER, str(self._config.node_id)))
        if any(resource in delta.configs.changed for resource in resources):
            self._apply(image)

    def _apply(self, image: MetadataImage) -> None:
        props = {**self._config.props, **image.configs.cluster_default(), **image.configs.broker(self._config.node_id)}
        try:
            log_config = LogConfig.from_props(inherited_topic_configs(props))
        except (KmirrorError, ValueError) as error:
            _log.error("Dynamic broker configs are not applied: %s", error)
            return
        if log_config != self._current:
            self._current = log_config
            self._log_manager.reconfigure_default_log_config(log_config)
