"""The mirror's clients towards source clusters."""

from __future__ import annotations

from kmirror.common.errors import ConfigError
from kmirror.mirror.ports import MirrorConfig, SourceClientFactory
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.network.client import ClientSettings, NetworkClient
from kmirror.network.client_security import ClientSecurity
from kmirror.network.config_providers import ConfigProviders, has_references
from kmirror.network.security.jaas_config import JaasConfigError
from kmirror.runtime.api import Runtime


def source_clients(runtime: Runtime, config: MirrorConfig) -> SourceClientFactory:
    """Clients for mirrors, with the broker's timeouts and socket buffers (CFG17), and with TLS and
    SASL as a mirror's configs say (`security.protocol`, `sasl.*`, `ssl.*`). Buffers that are not
    set are left to the operating system: Kafka's defaults, 64 and 100 KiB, would limit a connection
    over a WAN to one buffer per round trip. An error in the security settings becomes the reason
    that the mirror shows; it is retried, and its topics stay as they are.

    References to config providers of this broker (`${file:...}`) are resolved here, before each
    connection; the values are stored nowhere.
    """

    settings = ClientSettings(
        socket_connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
    )

    providers = ConfigProviders.from_props(config.config_providers, runtime.files, runtime.environment)

    def make(client_id: str, mirror_configs: dict[str, str]) -> NetworkClient:
        def security() -> ClientSecurity:
            try:
                return ClientSecurity.from_props(providers.resolve(mirror_configs))
            except JaasConfigError as error:  # the reason is told to everybody who may describe the mirror
                raise ConfigError(f"sasl.jaas.config: {error.without_words}") from None

        try:
            source = security if has_references(mirror_configs) else security()
            return NetworkClient(runtime, client_id, settings=settings, security=source)
        except ConfigError as error:
            raise SourceError(f"the connections to the source cannot be secured as configured: {error}") from error

    return make
