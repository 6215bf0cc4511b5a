"""The settings with which a broker's logs are opened. They may change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig


class LogSettings:
    """Owner of the broker's log settings; combines them with the configs of a topic."""

    def __init__(self, config: LogManagerConfig, default_log_config: LogConfig, topic_config: Callable[[str], Mapping[str, str]]) -> None:
        """`topic_config` returns a topic's own (overriding) configs."""
        self.config = config
        self.default_log_config = default_log_config
        self._topic_config = topic_config

    @property
    def producer_state_config(self) -> ProducerStateManagerConfig:
        return ProducerStateManagerConfig(self.config.producer_id_expiration_ms, self.config.transaction_verification_enabled)

    def log_config(self, topic: str) -> LogConfig:
        """The configs of a topic's logs: its own over the broker's defaults."""
        return self.over_defaults(topic, self._topic_config(topic))

    def over_defaults(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """The configs of a topic whose own configs are `overrides`. `__mirror_state` accepts at
        least Kafka's default message size, so that a low broker default does not reject mirror
        states.
        """
        config = LogConfig.from_props(overrides, defaults=self.default_log_config) if overrides else self.default_log_config
        if topic == MIRROR_STATE_TOPIC_NAME and config.max_message_size < LogConfig().max_message_size:
            config = replace(config, max_message_size=LogConfig().max_message_size)
        return config
