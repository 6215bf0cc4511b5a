"""Which configs are secrets (Kafka's `KafkaConfigSchema.isSensitive`): those of type PASSWORD, and
unknown ones, because they might be secrets.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.config import ConfigDef
from kmirror.metadata.image import RESOURCE_BROKER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP, RESOURCE_MIRROR, RESOURCE_TOPIC
from kmirror.metadata.resource_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, MIRROR_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIGS
from kmirror.server.broker_configs import broker_configs

REDACTED: Final = "(redacted)"
"""What Kafka's logs show in a secret's place (`RecordRedactor`)."""
_KNOWN: Final = {
    RESOURCE_TOPIC: TOPIC_CONFIGS,
    RESOURCE_GROUP: GROUP_CONFIGS,
    RESOURCE_CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
    RESOURCE_MIRROR: MIRROR_CONFIGS,
}


def is_sensitive_config(resource_type: int, name: str) -> bool:
    """Whether the value of this config of a resource (`metadata.image`'s types) must not be shown."""
    known: ConfigDef | None = broker_configs() if resource_type == RESOURCE_BROKER else _KNOWN.get(resource_type)
    return known is None or name not in known or known[name].sensitive
