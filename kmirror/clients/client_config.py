"""What every Kafka client is configured with (Kafka's `CommonClientConfigs`), as typed data.

A client's `ConfigDef` is `common_config_def()` plus its own keys. `ClientConfig` parses a mapping of
dotted names to texts or typed values: references of config providers are resolved first (KIP-297),
then every value is checked. A wrong value is a `ConfigError` with the text of Kafka's
ConfigException. Names that no key has are kept in `unknown_names`; Kafka only warns about them.

Security (`security.protocol`, `ssl.*`, `sasl.*`) is parsed by `network.client_security`, and only
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kmirror.common.abstract_config import AbstractConfig
from kmirror.common.config import ConfigDef, ConfigType, at_least, between, invalid_value, valid_list, valid_string
from kmirror.common.errors import ConfigError
from kmirror.common.exponential_backoff import ExponentialBackoff
from kmirror.network.client import ClientSettings
from kmirror.network.client_security import ClientSecurity
from kmirror.network.config_providers import ConfigProviders, ResolvedConfigs
from kmirror.runtime.api import Runtime

BOOTSTRAP_SERVERS_CONFIG: Final = "bootstrap.servers"
CLIENT_ID_CONFIG: Final = "client.id"
METADATA_RECOVERY_NONE: Final = "none"
METADATA_RECOVERY_REBOOTSTRAP: Final = "rebootstrap"
RETRY_JITTER: Final = 0.2
MAX_INT: Final = 2**31 - 1
METADATA_MAX_IDLE_MS: Final = 300_000
"""Kafka's default of a producer's metadata.max.idle.ms, which all clients here use."""


def common_config_def(*, send_buffer_bytes: int = 131_072, receive_buffer_bytes: int = 65_536) -> ConfigDef:
    """Returns the keys that all clients have, for a client to add its own. Times are ms."""
    definition = ConfigDef()
    define = definition.define
    define(BOOTSTRAP_SERVERS_CONFIG, ConfigType.LIST, validator=valid_list(empty_allowed=False))
    define(
        "client.dns.lookup",
        ConfigType.STRING,
        "use_all_dns_ips",
        validator=valid_string("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    )
    define(CLIENT_ID_CONFIG, ConfigType.STRING, "")
    define("metadata.max.age.ms", ConfigType.LONG, 300_000, validator=at_least(0))
    define(
        "metadata.recovery.strategy",
        ConfigType.STRING,
        METADATA_RECOVERY_REBOOTSTRAP,
        validator=valid_string(METADATA_RECOVERY_NONE, METADATA_RECOVERY_REBOOTSTRAP, ignore_case=True),
    )
    define("metadata.recovery.rebootstrap.trigger.ms", ConfigType.LONG, 300_000, validator=at_least(0))
    define("send.buffer.bytes", ConfigType.INT, send_buffer_bytes, validator=at_least(-1))
    define("receive.buffer.bytes", ConfigType.INT, receive_buffer_bytes, validator=at_least(-1))
    define("reconnect.backoff.ms", ConfigType.LONG, 50, validator=at_least(0))
    define("reconnect.backoff.max.ms", ConfigType.LONG, 1_000, validator=at_least(0))
    define("retry.backoff.ms", ConfigType.LONG, 100, validator=at_least(0))
    define("retry.backoff.max.ms", ConfigType.LONG, 1_000, validator=at_least(0))
    define("request.timeout.ms", ConfigType.INT, 30_000, validator=at_least(0))
    define("socket.connection.setup.timeout.ms", ConfigType.LONG, 10_000, validator=between(0))
    define("socket.connection.setup.timeout.max.ms", ConfigType.LONG, 30_000, validator=between(0))
    define("connections.max.idle.ms", ConfigType.LONG, 540_000)
    return definition


class ClientConfig(AbstractConfig):
    """One client's checked settings. `security` and `bootstrap_servers` are parsed already."""

    metadata_max_idle_ms = METADATA_MAX_IDLE_MS
    """How long a topic that nobody asks about is still refreshed."""

    def __init__(self, definition: ConfigDef, props: Mapping[str, Any], runtime: Runtime) -> None:
        """ConfigError with Kafka's text for the first setting that is missing or wrong.

        If `props` are `ResolvedConfigs`, their references are resolved already.
        """
        texts = {name: value for name, value in props.items() if isinstance(value, str)}
        if isinstance(props, ResolvedConfigs):
            resolved = props
        else:
            resolved = ConfigProviders.of_a_tool(texts, runtime.files, runtime.environment).resolve(texts)
        with resolved.telling_as_written():
            super().__init__(definition, {**props, **resolved})
            self.bootstrap_servers = bootstrap_addresses(self.get_list(BOOTSTRAP_SERVERS_CONFIG))
        self.security = ClientSecurity.from_props(resolved)
        self.unknown_names = [name for name in definition.unknown_names(props) if not _is_security(name)]

    @property
    def client_id(self) -> str:
        return self.get_string(CLIENT_ID_CONFIG) or ""

    @property
    def retry_backoff(self) -> ExponentialBackoff:
        """Kafka's backoff of retries: retry.backoff.ms doubles up to retry.backoff.max.ms."""
        longest = self.get_int("retry.backoff.max.ms")
        return ExponentialBackoff(min(self.get_int("retry.backoff.ms"), longest), longest, RETRY_JITTER)

    @property
    def rebootstraps(self) -> bool:
        return (self.get_string("metadata.recovery.strategy") or "").lower() == METADATA_RECOVERY_REBOOTSTRAP

    @property
    def network_settings(self) -> ClientSettings:
        """The settings of the client's connections."""
        longest = self.get_int("reconnect.backoff.max.ms")
        return ClientSettings(
            reconnect_backoff_ms=min(self.get_int("reconnect.backoff.ms"), longest),
            reconnect_backoff_max_ms=longest,
            connections_max_idle_ms=self.get_int("connections.max.idle.ms"),
            socket_connection_setup_timeout_ms=self.get_int("socket.connection.setup.timeout.ms"),
            send_buffer_bytes=self.get_int("send.buffer.bytes"),
            receive_buffer_bytes=self.get_int("receive.buffer.bytes"),
        )


def bootstrap_addresses(urls: list[str]) -> list[tuple[str, int]]:
    """Parses bootstrap.servers; `[host]:port` is an IPv6 host, and a name of a security protocol
    before `://` is ignored, as in Kafka. ConfigError with Kafka's text.
    """
    addresses = []
    for url in urls:
        host, separator, port = url.rpartition("://")[2].rpartition(":")
        if not separator or not host or not port.isdigit():
            raise ConfigError(f"Invalid url in {BOOTSTRAP_SERVERS_CONFIG}: {url}")
        if not 0 < int(port) < 65_536:
            raise ConfigError(f"Invalid port in {BOOTSTRAP_SERVERS_CONFIG}: {url}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise invalid_value(BOOTSTRAP_SERVERS_CONFIG, urls, "No resolvable bootstrap urls given")
    return addresses


def _is_security(name: str) -> bool:
    return name.startswith(("ssl.", "sasl.", "config.providers")) or name in ("security.protocol", "security.providers")
