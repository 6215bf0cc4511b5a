"""The settings that a broker's logs are opened with, which may change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig


class LogSettings:
    """The broker's settings of the log layer, and the configs of a topic over them."""

    def __init__(self, config: LogManagerConfig, default_log_config: LogConfig, topic_config: Callable[[str], Mapping[str, str]]) -> None:
        """`topic_config` gives a topic's own (overriding) configs."""
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
        """A default that suits clients' records must not keep states of mirrors out:
        `__mirror_state` takes what Kafka's default does at least.
        """
        config = LogConfig.from_props(overrides, defaults=self.default_log_config) if overrides else self.default_log_config
        if topic == MIRROR_STATE_TOPIC_NAME and config.max_message_size < LogConfig().max_message_size:
            config = replace(config, max_message_size=LogConfig().max_message_size)
        return config
