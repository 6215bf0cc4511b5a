"""Checks whether a broker's dynamic settings may become what a request asks for (Kafka's
`DynamicBrokerConfig.validate`).

The checks look at the whole set that the request leaves behind for its resource, in Kafka's order
and words: settings that cannot change at runtime; key stores without their listener's prefix;
values that do not parse; settings of one broker on the cluster's level; then all of it together
with the properties file and the other level, as if a broker were started with it; and last, the
limits of a running broker's parts: threads at most doubled and at least halved, limits above zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.config import ConfigKey, ConfigType, UpdateMode
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.metadata.image import ConfigurationsImage
from kmirror.metadata.resource_configs import broker_update_mode
from kmirror.network.config_providers import ResolvedConfigs
from kmirror.server.broker_configs import broker_configs, dynamic_only_configs
from kmirror.server.kafka_config import KafkaConfig

LISTENER_PREFIX = "listener.name."
KEY_STORE_CONFIGS = frozenset(
    ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
     "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates")
)  # fmt: skip
THREAD_COUNTS = ("num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads")


def config_key(name: str) -> ConfigKey | None:
    """Returns the definition of a broker setting, by its name without a listener's prefix."""
    if name.startswith(LISTENER_PREFIX):
        name = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return next((configs[name] for configs in (broker_configs(), dynamic_only_configs()) if name in configs), None)


def validate_broker_settings(config: KafkaConfig, configs: ConfigurationsImage, proposed: Mapping[str, str], *, is_default: bool) -> None:
    """Raises ApiException INVALID_REQUEST, with Kafka's text, unless the `proposed` dynamic
    settings of this broker (or of the cluster) are allowed.
    """
    try:
        _check_names(proposed)
        _check_values(proposed)
        own = [name for name in proposed if broker_update_mode(name) is UpdateMode.PER_BROKER]
        if is_default and own:
            raise ConfigError(f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(own)}]")
        default = proposed if is_default else configs.cluster_default()
        mine = configs.broker(config.node_id) if is_default else proposed
        present = effective_config(config, configs.cluster_default(), configs.broker(config.node_id))
        following = effective_config(config, default, mine)
        _check_reconfiguration(present, following)
    except ConfigError as error:
        raise ApiException(Errors.INVALID_REQUEST, str(error)) from error


def effective_config(config: KafkaConfig, default: Mapping[str, str], own: Mapping[str, str]) -> KafkaConfig:
    """Returns the configuration with these dynamic settings on top of the properties file.

    Raises ConfigError if it is not valid.
    """
    dynamic = {name: value for name, value in {**default, **own}.items() if broker_update_mode(name) is not UpdateMode.READ_ONLY}
    return KafkaConfig.from_props(ResolvedConfigs({**config.props, **dynamic}, config.resolved.replaced)) if dynamic else config


def _check_names(proposed: Mapping[str, str]) -> None:
    fixed = [name for name in proposed if config_key(name) is not None and broker_update_mode(name) is UpdateMode.READ_ONLY]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    bare = [name for name in proposed if name in KEY_STORE_CONFIGS]
    if bare:
        raise ConfigError(
            f"These security configs can be dynamically updated only per-listener using the listener prefix: [{', '.join(bare)}]"
        )


def _check_values(proposed: Mapping[str, str]) -> None:
    for name, value in proposed.items():
        key = config_key(name)
        if key is None or key.type is ConfigType.PASSWORD:
            continue
        definition = broker_configs() if key.name in broker_configs() else dynamic_only_configs()
        definition.validate_value(key.name, value)


def _check_reconfiguration(present: KafkaConfig, following: KafkaConfig) -> None:
    """Runs the checks of a broker's reconfigurable parts; their errors are wrapped as in Kafka."""
    try:
        for name in THREAD_COUNTS:
            _check_thread_count(name, present.get_int(name), following.get_int(name))
        _check_cleaner_threads(present.get_int("log.cleaner.threads"), following.get_int("log.cleaner.threads"))
        if following.get_int("max.connections") <= 0 and following.get_int("max.connections") != present.get_int("max.connections"):
            raise ConfigError(f"Invalid max.connections {following.get_int('max.connections')}")
    except ConfigError as error:
        text = f"Invalid value org.apache.kafka.common.config.ConfigException: {error} for configuration Invalid dynamic configuration"
        raise ConfigError(text) from error


def _check_thread_count(name: str, present: int, following: int) -> None:
    problem = f"Dynamic thread count update validation failed for {name}={following}"
    if following == present:
        return
    if following < present // 2:
        raise ConfigError(f"{problem}, value should be at least half the current value {present}")
    if following > present * 2:
        raise ConfigError(f"{problem}, value should not be greater than double the current value {present}")


def _check_cleaner_threads(present: int, following: int) -> None:
    if following < 1:
        raise ConfigError(f"Log cleaner threads should be at least 1, current value is {present}")
    if following < present // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {present}")
    if following > present * 2:
        raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {present}")
