"""Builds the security of a node's listeners and of its own connections from its properties (Kafka's
`ChannelBuilders`).

A setting of one listener is `listener.name.<lower case name>.<setting>`, and one of a mechanism
there is `listener.name.<name>.<mechanism>.<setting>` (`sasl.jaas.config`,
`connections.max.reauth.ms`, `sasl.server.callback.handler.class`). A setting without the prefix
applies to every listener. The node itself connects to brokers with
`sasl.mechanism.inter.broker.protocol` and the login module of the inter-broker listener. It
connects to the controller with `sasl.mechanism.controller.protocol` and the login module of that
listener.

Raises ConfigError with Kafka's text if a listener cannot be secured as its settings say.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kmirror.common.config import Password
from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.metadata.image import MetadataImage
from kmirror.network.client_security import ClientSecurity
from kmirror.network.security.jaas_config import JaasConfig
from kmirror.runtime.api import Runtime
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.listeners import Listener

if TYPE_CHECKING:
    from kmirror.network.security.jwks import Jwks, RefreshingJwks
    from kmirror.network.security.replaced_stores import ReplacedStores
    from kmirror.network.security.sasl_server import SaslServerFactory
    from kmirror.network.security.sasl_server_authenticator import SaslSettings
    from kmirror.network.security.server_channel_builder import ServerChannelBuilder

SECURED_JWT_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED_JWT_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)

_log = logging.getLogger(__name__)
Images = Callable[[], MetadataImage]
"""Returns the current metadata, in which credentials are looked up."""


def channel_builder(
    config: KafkaConfig, listener: Listener, *, runtime: Runtime, metrics: MetricsRegistry, images: Images, ready: asyncio.Future[Any]
) -> ServerChannelBuilder | None:
    """Returns the security of a listener; None for PLAINTEXT.

    Logins wait until `ready` is done: before that there is no metadata to check them against.
    """
    protocol = listener.security_protocol
    if protocol == "PLAINTEXT":
        return None
    from kmirror.network.security.server_channel_builder import ServerChannelBuilder
    from kmirror.network.security.ssl_principal_mapper import SslPrincipalMapper

    settings = ListenerSettings(config, listener.name)
    return ServerChannelBuilder(
        runtime,
        security_protocol=protocol,
        listener_name=listener.name,
        metrics=metrics,
        ready=ready,
        context=_tls_context(settings, protocol, runtime) if protocol.endswith("SSL") else None,
        sasl=_sasl_settings(settings, runtime, images) if protocol.startswith("SASL") else None,
        principal_mapper=SslPrincipalMapper(settings.get("ssl.principal.mapping.rules") or "DEFAULT"),
        failed_authentication_delay_ms=config.get_int("connection.failed.authentication.delay.ms"),
    )


def reconfigure_security(
    listeners: Sequence[tuple[Listener, ServerChannelBuilder | None]], *, runtime: Runtime, images: Images
) -> Callable[[KafkaConfig, KafkaConfig], None]:
    """Returns what gives new connections the TLS settings and logins of a listener's dynamic
    settings.

    `DynamicBrokerConfig` calls it. Stores are read again with every change, so a file may be
    replaced under its name. If something cannot be read, the listener stays as it was.
    """

    def reconfigure(before: KafkaConfig, after: KafkaConfig) -> None:
        for listener, builder in listeners:
            if builder is not None:
                try:
                    _reconfigure(builder, ListenerSettings(after, listener.name), listener.security_protocol, runtime, images)
                except ConfigError as error:
                    _log.error(
                        "The security settings of listener %s were not changed: %s", listener.name, after.resolved.as_written(str(error))
                    )

    return reconfigure


def _reconfigure(builder: ServerChannelBuilder, settings: ListenerSettings, protocol: str, runtime: Runtime, images: Images) -> None:
    context = _tls_context(settings, protocol, runtime) if protocol.endswith("SSL") else None
    sasl = _sasl_settings(settings, runtime, images) if protocol.startswith("SASL") else None
    builder.reconfigure(context, sasl)


def _tls_context(settings: ListenerSettings, protocol: str, runtime: Runtime) -> ReplacedStores:
    from kmirror.network.security.replaced_stores import ReplacedStores
    from kmirror.network.security.ssl_factory import server_context

    client_auth = settings.get("ssl.client.auth") or "none"
    if protocol == "SASL_SSL" and settings.own("ssl.client.auth") is None:
        client_auth = "none"  # a listener with SASL asks for certificates only if its own settings say so
    make = functools.partial(server_context, client_auth=client_auth)
    return ReplacedStores(settings.ssl(), runtime.files, runtime.clock, make, as_written=settings.as_written)


def inter_broker_security(config: KafkaConfig) -> ClientSecurity:
    """Returns how this node connects to the brokers of its cluster."""
    return _client_security(config, config.inter_broker_listener_name, config.get_string("sasl.mechanism.inter.broker.protocol") or "")


def controller_security(config: KafkaConfig) -> ClientSecurity:
    """Returns how this node connects to the controller."""
    names = config.controller_listener_names
    return (
        _client_security(config, names[0], config.get_string("sasl.mechanism.controller.protocol") or "")
        if names
        else ClientSecurity.PLAINTEXT
    )


def _client_security(config: KafkaConfig, listener_name: str, mechanism: str) -> ClientSecurity:
    protocol = config.security_protocol_of(listener_name)
    if protocol == "PLAINTEXT":
        return ClientSecurity.PLAINTEXT
    settings = ListenerSettings(config, listener_name)
    props = {"security.protocol": protocol, "sasl.mechanism": mechanism}
    props |= {name: value for name, value in settings.ssl().items() if value is not None}
    for name in ("sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url"):
        if (value := settings.get(name)) is not None:
            props[name] = value
    if protocol.startswith("SASL"):
        props["sasl.jaas.config"] = settings.jaas_text(mechanism)
    return ClientSecurity.from_props(props)


class ListenerSettings:
    """The node's settings as they apply to one listener, as text."""

    def __init__(self, config: KafkaConfig, listener_name: str) -> None:
        self._config = config
        self._prefix = f"listener.name.{listener_name.lower()}."
        self.as_written = config.resolved.as_written
        """Shows references in place of resolved secrets in an error's text."""
        self.listener_name = listener_name

    def own(self, name: str) -> str | None:
        """Returns what the listener sets for itself."""
        return self._config.props.get(self._prefix + name)

    def get(self, name: str) -> str | None:
        """Returns the listener's own value, otherwise the node's; None if neither has one."""
        value = self.own(name)
        if value is not None:
            return value
        node = self._config.values.get(name)
        if node is None:
            return None
        if isinstance(node, Password):
            return node.value
        return ",".join(node) if isinstance(node, list) else str(node)

    def get_list(self, name: str) -> list[str]:
        return [item.strip() for item in (self.get(name) or "").split(",") if item.strip()]

    def of_mechanism(self, mechanism: str, name: str) -> str | None:
        """Returns the listener's value for a mechanism, otherwise the node's value for it,
        otherwise None.
        """
        prefixed = f"{mechanism.lower()}.{name}"
        value = self.own(prefixed)
        return value if value is not None else self._config.props.get(prefixed)

    def ssl(self) -> dict[str, str | None]:
        """Returns every `ssl.*` setting, without a prefix of a listener."""
        return {name: self.get(name) for name in self._config.values if name.startswith("ssl.")}

    def jaas_text(self, mechanism: str) -> str:
        text = self.of_mechanism(mechanism, "sasl.jaas.config")
        if text is None:
            raise ConfigError(
                f"Could not find a 'KafkaServer' or '{self.listener_name.lower()}.KafkaServer' entry in the JAAS configuration. "
                "System property 'java.security.auth.login.config' is not set"
            )
        return text


def _sasl_settings(settings: ListenerSettings, runtime: Runtime, images: Images) -> SaslSettings:
    from kmirror.network.security.sasl_server_authenticator import SaslSettings

    mechanisms = settings.get_list("sasl.enabled.mechanisms")
    if not mechanisms:
        raise ConfigError("No SASL mechanisms are enabled")
    servers: dict[str, SaslServerFactory] = {}
    short_name = None
    max_reauth_ms = {}
    key_sets: list[RefreshingJwks] = []
    for mechanism in mechanisms:
        jaas = JaasConfig.parse(settings.jaas_text(mechanism))
        if mechanism == "GSSAPI":
            short_name = _short_namer(settings, jaas)
        servers[mechanism] = _server_factory(mechanism, jaas, settings, runtime, images, key_sets)
        limit = settings.of_mechanism(mechanism, "connections.max.reauth.ms") or settings.get("connections.max.reauth.ms") or "0"
        max_reauth_ms[mechanism] = int(limit)
    return SaslSettings(
        enabled_mechanisms=tuple(mechanisms),
        servers=servers,
        connections_max_reauth_ms=max_reauth_ms,
        max_receive_size=int(settings.get("sasl.server.max.receive.size") or 524_288),
        short_name=short_name,
        key_sets=tuple(key_sets),
    )


def _short_namer(settings: ListenerSettings, jaas: JaasConfig) -> Callable[[str], str]:
    from kmirror.network.security.gssapi_sasl import realm_of
    from kmirror.network.security.kerberos_short_namer import KerberosShortNamer

    rules = settings.get_list("sasl.kerberos.principal.to.local.rules") or ["DEFAULT"]
    return KerberosShortNamer(realm_of(jaas), rules).short_name


def _server_factory(
    mechanism: str, jaas: JaasConfig, settings: ListenerSettings, runtime: Runtime, images: Images, key_sets: list[RefreshingJwks]
) -> SaslServerFactory:
    """Returns the function that makes a mechanism's servers; fetched keys are added to
    `key_sets`.
    """
    handler = settings.of_mechanism(mechanism, "sasl.server.callback.handler.class") or settings.get("sasl.server.callback.handler.class")
    if handler is not None and not (mechanism == "OAUTHBEARER" and handler in (*SECURED_JWT_HANDLERS, _UNSECURED_JWT_HANDLER)):
        raise ConfigError(
            f"Invalid value {handler} for configuration sasl.server.callback.handler.class: Class {handler} could not be found."
        )
    if mechanism == "PLAIN":
        from kmirror.network.security.plain_sasl import PlainSaslServer, users_of

        users = users_of(jaas.options)
        return lambda: PlainSaslServer(users)
    if mechanism == "GSSAPI":
        from kmirror.network.security.gssapi_sasl import server_factory

        return server_factory(jaas)
    if mechanism == "OAUTHBEARER":
        return _oauth_bearer_factory(jaas, settings, runtime, key_sets, secured=handler in SECURED_JWT_HANDLERS)
    from kmirror.network.security.scram_mechanism import ScramMechanism

    scram = ScramMechanism.for_mechanism_name(mechanism)
    if scram is None:
        raise ConfigError(f"Callback handler not specified for SASL mechanism {mechanism}")
    from kmirror.network.security.scram_sasl_server import ScramSaslServer
    from kmirror.server.image_credentials import ImageCredentials

    secret = settings.get("delegation.token.secret.key")
    credentials = ImageCredentials(images, runtime, secret)
    return lambda: ScramSaslServer(scram, credentials.of_user, credentials.of_token, runtime.random)


def _oauth_bearer_factory(
    jaas: JaasConfig, settings: ListenerSettings, runtime: Runtime, key_sets: list[RefreshingJwks], *, secured: bool
) -> SaslServerFactory:
    from kmirror.network.security.oauth_bearer_sasl import OAuthBearerSaslServer
    from kmirror.network.security.oauth_bearer_token import OAuthBearerUnsecuredValidator, Validator

    validator: Validator
    if secured:
        from kmirror.network.security.jwt_validator import JwtValidator

        validator = JwtValidator(
            jwks=_jwks(jaas, settings, runtime, key_sets),
            expected_audience=settings.get_list("sasl.oauthbearer.expected.audience"),
            expected_issuer=settings.get("sasl.oauthbearer.expected.issuer"),
            clock_skew_seconds=int(settings.get("sasl.oauthbearer.clock.skew.seconds") or 30),
            scope_claim=_claim_name(settings, "sasl.oauthbearer.scope.claim.name", "scope"),
            sub_claim=_claim_name(settings, "sasl.oauthbearer.sub.claim.name", "sub"),
        )
    else:
        validator = OAuthBearerUnsecuredValidator(jaas.options)
    return lambda: OAuthBearerSaslServer(validator, runtime.clock)


def _claim_name(settings: ListenerSettings, config: str, default: str) -> str:
    """Returns the configured name of a claim without the blanks around it; ConfigError if nothing
    is left of it.
    """
    value = settings.get(config)
    if value is not None and not value.strip():
        raise ConfigError(f"The OAuth configuration option {config} value must not contain only whitespace")
    return default if value is None else value.strip()


def _jwks(jaas: JaasConfig, settings: ListenerSettings, runtime: Runtime, key_sets: list[RefreshingJwks]) -> Jwks:
    """Returns the keys for signed tokens.

    Over https the trust store is the one that the login module's `ssl.*` options name, otherwise
    the system's.
    """
    from kmirror.network.security.jwks import Backoff, FileJwks, RefreshingJwks

    prefix = "sasl.oauthbearer.jwks.endpoint"
    url = settings.get(f"{prefix}.url")
    if not url:
        raise ConfigError(f"The OAuth configuration option {prefix}.url value must be non-null")
    scheme = url.partition(":")[0].lower()
    backoff = Backoff(int(settings.get(f"{prefix}.retry.backoff.ms") or 100), int(settings.get(f"{prefix}.retry.backoff.max.ms") or 10_000))
    if scheme == "file":
        return FileJwks("/" + url[len("file:") :].lstrip("/"), runtime.files, backoff)
    if scheme not in ("http", "https"):
        raise ConfigError(
            f"The OAuth configuration option {prefix}.url contains a URL ({url}) that is malformed: unknown protocol: {scheme}"
        )
    context = None
    if scheme == "https":
        from kmirror.network.security.replaced_stores import ReplacedStores
        from kmirror.network.security.ssl_factory import client_context

        options = {name: value for name, value in jaas.options.items() if name.startswith("ssl.")}
        context = ReplacedStores(options, runtime.files, runtime.clock, client_context)
    jwks = RefreshingJwks(runtime, url, context, backoff, refresh_ms=int(settings.get(f"{prefix}.refresh.ms") or 3_600_000))
    key_sets.append(jwks)
    return jwks
