"""`authorizer.class.name`: which authorizer a node has.

Brokers and controllers each make their own.
"""

from __future__ import annotations

from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.metadata.authorizer.standard_authorizer import StandardAuthorizer
from kmirror.server.kafka_config import KafkaConfig

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def create_authorizer(config: KafkaConfig, metrics: MetricsRegistry, role: str) -> StandardAuthorizer | None:
    """Returns None if `authorizer.class.name` is empty: everybody may do everything.

    Raises ConfigError for a class that kmirror does not have.
    """
    name = config.get_string("authorizer.class.name")
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise ConfigError(f"Invalid value {name} for configuration authorizer.class.name: the only authorizer is {STANDARD_AUTHORIZER}")
    return StandardAuthorizer.from_props(config.props).with_metrics(metrics, role)
