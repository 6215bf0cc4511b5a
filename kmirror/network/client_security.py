"""How a client secures its connections: Kafka's client properties, parsed and checked
(`ClientSecurity`), and applied to connections (`ClientChannelBuilder`).

    security.protocol         PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
    sasl.mechanism            PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI (Kafka's default)
    sasl.jaas.config          the login module's options: username, password, tokenauth, unsecuredLogin..., serviceName
    ssl.*                     key store, trust store, versions, suites, ssl.endpoint.identification.algorithm
    sasl.oauthbearer.token.endpoint.url     a file: URL of a token, read at every login
    sasl.kerberos.service.name

`ClientSecurity` is a value: it reads and imports nothing until a `NetworkClient` is made with it.
`ClientChannelBuilder` does the work for one client: TLS around a connection, and the SASL exchange.
Stores that are replaced in place are read again for the next connection (`replaced_stores`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from kmirror.common.errors import ConfigError
from kmirror.network.config_providers import ResolvedConfigs
from kmirror.network.security.jaas_config import JaasConfig
from kmirror.runtime.api import ConnectionProtocol, Runtime

if TYPE_CHECKING:
    from kmirror.network.security.replaced_stores import ReplacedStores
    from kmirror.network.security.sasl_client import SaslClient, SaslClientFactory

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_DEFAULT_MECHANISM: Final = "GSSAPI"
_NO_JAAS: Final = (
    "Could not find a 'KafkaClient' entry in the JAAS configuration. System property 'java.security.auth.login.config' is not set"
)
_PASSED_ON = ("sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url")


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Made from client properties by `from_props`; `PLAINTEXT` has no security at all.

    `props` are the `ssl.*` and `sasl.*` properties that it uses. `as_written` rewrites an error's
    text so that no resolved secret is shown.
    """

    PLAINTEXT: ClassVar[ClientSecurity]

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    jaas: JaasConfig | None = None
    props: Mapping[str, str] = field(default_factory=dict, repr=False)
    as_written: Callable[[str], str] = field(default=str, repr=False, compare=False)

    @classmethod
    def from_props(cls, props: Mapping[str, str]) -> ClientSecurity:
        """From Kafka's client properties; other names are ignored.

        ConfigError with Kafka's text if they are wrong.
        """
        if not isinstance(props, ResolvedConfigs):
            return cls._from_props(props, str)
        with props.telling_as_written():
            return cls._from_props(props, props.as_written)

    @classmethod
    def _from_props(cls, props: Mapping[str, str], as_written: Callable[[str], str]) -> ClientSecurity:
        protocol = (props.get("security.protocol") or "PLAINTEXT").strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            allowed = "PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL"
            raise ConfigError(
                f"Invalid value {props['security.protocol']} for configuration security.protocol: "
                f"String must be one of (case insensitive): {allowed}"
            )
        kept = {name: value for name, value in props.items() if name.startswith("ssl.") or name in _PASSED_ON}
        if not protocol.startswith("SASL"):
            return cls(protocol, props=kept, as_written=as_written)
        mechanism = (props.get("sasl.mechanism") or _DEFAULT_MECHANISM).strip()
        if mechanism not in MECHANISMS:
            raise ConfigError(f"Failed to create SaslClient with mechanism {mechanism}")
        text = props.get("sasl.jaas.config")
        if text is None:
            raise ConfigError(_NO_JAAS)
        security = cls(protocol, mechanism, JaasConfig.parse(text), kept, as_written)
        security._check_options()
        return security

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def option(self, name: str) -> str:
        """An option of the login module, "" where it is not set."""
        return "" if self.jaas is None else self.jaas.options.get(name, "")

    def _check_options(self) -> None:
        if self.sasl_mechanism == "PLAIN" or self.sasl_mechanism.startswith("SCRAM"):
            for name in ("username", "password"):
                if not self.option(name):
                    raise ConfigError(f"The JAAS config of {self.sasl_mechanism} has no {name}")


ClientSecurity.PLAINTEXT = ClientSecurity()


class ClientChannelBuilder:
    """The TLS context and the logins of one client. ConfigError when its key or trust store cannot
    be read.
    """

    def __init__(self, security: ClientSecurity, runtime: Runtime) -> None:
        self._security = security
        self._runtime = runtime
        self.mechanism = security.sasl_mechanism
        self.as_written = security.as_written
        self._scratch = memoryview(b"")
        self._new_sasl_client = self._sasl_client_factory() if security.uses_sasl else None
        self._stores: ReplacedStores | None = None
        if security.uses_tls:
            from kmirror.network.security.replaced_stores import ReplacedStores
            from kmirror.network.security.ssl_factory import client_context
            from kmirror.network.security.ssl_transport_layer import READ_SIZE_HINT

            self._stores = ReplacedStores(security.props, runtime.files, runtime.clock, client_context, as_written=security.as_written)
            self._scratch = memoryview(bytearray(READ_SIZE_HINT))

    def wrap(self, protocol: ConnectionProtocol, host: str) -> ConnectionProtocol:
        """`protocol`, wrapped in TLS if the security protocol asks for it."""
        if self._stores is None:
            return protocol
        from kmirror.network.security.ssl_transport_layer import SslTransportLayer

        return SslTransportLayer(
            self._runtime, self._stores.context, protocol, scratch=self._scratch, server_side=False, server_hostname=host.strip("[]")
        )

    def new_sasl_client(self, host: str) -> SaslClient | None:
        """A SASL client for one exchange with the server at `host`; None without SASL."""
        return None if self._new_sasl_client is None else self._new_sasl_client(host)

    def _sasl_client_factory(self) -> SaslClientFactory:
        security, runtime = self._security, self._runtime
        if self.mechanism == "PLAIN":
            from kmirror.network.security.plain_sasl import PlainSaslClient

            return lambda host: PlainSaslClient(security.option("username"), security.option("password"))
        if self.mechanism == "OAUTHBEARER":
            return self._oauth_bearer_factory()
        if self.mechanism == "GSSAPI":
            from kmirror.network.security.gssapi_sasl import client_factory

            return client_factory(security.jaas, security.props.get("sasl.kerberos.service.name"))
        from kmirror.network.security.scram_mechanism import ScramMechanism
        from kmirror.network.security.scram_sasl_client import ScramSaslClient

        mechanism = ScramMechanism.for_mechanism_name(self.mechanism)
        assert mechanism is not None, f"{self.mechanism} is among MECHANISMS"
        token_auth = security.option("tokenauth").lower() == "true"
        user, password = security.option("username"), security.option("password")
        return lambda host: ScramSaslClient(mechanism, user, password, runtime.random, token_auth=token_auth)

    def _oauth_bearer_factory(self) -> SaslClientFactory:
        from kmirror.network.security.oauth_bearer_sasl import OAuthBearerSaslClient
        from kmirror.network.security.oauth_bearer_token import unsecured_token

        options = {} if self._security.jaas is None else self._security.jaas.options
        prefixes = ("unsecuredLoginExtension_", "extension_")
        extensions = {key.removeprefix(prefix): value for key, value in options.items() for prefix in prefixes if key.startswith(prefix)}
        url = self._security.props.get("sasl.oauthbearer.token.endpoint.url")
        if url is not None and not url.startswith("file:"):
            raise ConfigError(f"sasl.oauthbearer.token.endpoint.url={url} is not supported: only file: URLs are")

        def token() -> str:
            if url is None:
                return unsecured_token(options, self._runtime.clock.time_ms())
            path = url.removeprefix("file:").replace("//", "", 1) if url.startswith("file://") else url.removeprefix("file:")
            try:
                return self._runtime.files.read_bytes(path).decode().strip()
            except OSError as error:
                raise ConfigError(f"Cannot read the token {path}: {error.strerror or error}") from error

        return lambda host: OAuthBearerSaslClient(token, extensions)
