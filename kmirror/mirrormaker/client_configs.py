"""Settings of the clients of a cluster that MirrorMaker passes on (Kafka's
`MirrorClientConfig.CLIENT_CONFIG_DEF`).

Only these go from `<alias>.x` to the clients of the cluster without a `producer.`, `consumer.` or
`admin.` before them. Defaults are those of Kafka's clients.
"""

from __future__ import annotations

from typing import Any, Final

from kmirror.common.config import ConfigDef, ConfigType, Importance, Validator, between, valid_list, valid_string

BOOTSTRAP_SERVERS_CONFIG: Final = "bootstrap.servers"
SECURITY_PROTOCOL_CONFIG: Final = "security.protocol"
SECURITY_PROTOCOLS: Final = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")

# fmt: off
_SECURITY: Final[tuple[tuple[str, ConfigType, str | None, tuple[Any, ...] | None], ...]] = (
    ("sasl.client.callback.handler.class", ConfigType.CLASS, None, None),
    ("sasl.jaas.config", ConfigType.PASSWORD, None, None),
    ("sasl.kerberos.kinit.cmd", ConfigType.STRING, '/usr/bin/kinit', None),
    ("sasl.kerberos.min.time.before.relogin", ConfigType.LONG, '60000', None),
    ("sasl.kerberos.service.name", ConfigType.STRING, None, None),
    ("sasl.kerberos.ticket.renew.jitter", ConfigType.DOUBLE, '0.05', None),
    ("sasl.kerberos.ticket.renew.window.factor", ConfigType.DOUBLE, '0.8', None),
    ("sasl.login.callback.handler.class", ConfigType.CLASS, None, None),
    ("sasl.login.class", ConfigType.CLASS, None, None),
    ("sasl.login.connect.timeout.ms", ConfigType.INT, None, None),
    ("sasl.login.read.timeout.ms", ConfigType.INT, None, None),
    ("sasl.login.refresh.buffer.seconds", ConfigType.SHORT, '300', (0, 3600)),
    ("sasl.login.refresh.min.period.seconds", ConfigType.SHORT, '60', (0, 900)),
    ("sasl.login.refresh.window.factor", ConfigType.DOUBLE, '0.8', (0.5, 1.0)),
    ("sasl.login.refresh.window.jitter", ConfigType.DOUBLE, '0.05', (0.0, 0.25)),
    ("sasl.login.retry.backoff.max.ms", ConfigType.LONG, '10000', None),
    ("sasl.login.retry.backoff.ms", ConfigType.LONG, '100', None),
    ("sasl.mechanism", ConfigType.STRING, 'GSSAPI', None),
    ("sasl.oauthbearer.assertion.algorithm", ConfigType.STRING, 'RS256', ('ES256', 'RS256')),
    ("sasl.oauthbearer.assertion.claim.aud", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", ConfigType.INT, '300', (0, 86400)),
    ("sasl.oauthbearer.assertion.claim.iss", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.assertion.claim.jti.include", ConfigType.BOOLEAN, 'false', None),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", ConfigType.INT, '60', (0, 3600)),
    ("sasl.oauthbearer.assertion.claim.sub", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.assertion.file", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.assertion.private.key.file", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.assertion.private.key.passphrase", ConfigType.PASSWORD, None, None),
    ("sasl.oauthbearer.assertion.template.file", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.client.credentials.client.id", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.client.credentials.client.secret", ConfigType.PASSWORD, None, None),
    ("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, '30', None),
    ("sasl.oauthbearer.expected.audience", ConfigType.LIST, '', None),
    ("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.header.urlencode", ConfigType.BOOLEAN, 'false', None),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", ConfigType.LONG, '3600000', None),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG, '10000', None),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", ConfigType.LONG, '100', None),
    ("sasl.oauthbearer.jwks.endpoint.url", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.jwt.retriever.class", ConfigType.CLASS, 'org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever', None),
    ("sasl.oauthbearer.jwt.validator.class", ConfigType.CLASS, 'org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator', None),
    ("sasl.oauthbearer.scope", ConfigType.STRING, None, None),
    ("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, 'scope', None),
    ("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, 'sub', None),
    ("sasl.oauthbearer.token.endpoint.url", ConfigType.STRING, None, None),
    ("ssl.cipher.suites", ConfigType.LIST, '', None),
    ("ssl.enabled.protocols", ConfigType.LIST, 'TLSv1.2,TLSv1.3', None),
    ("ssl.endpoint.identification.algorithm", ConfigType.STRING, 'https', None),
    ("ssl.engine.factory.class", ConfigType.CLASS, None, None),
    ("ssl.key.password", ConfigType.PASSWORD, None, None),
    ("ssl.keymanager.algorithm", ConfigType.STRING, 'SunX509', None),
    ("ssl.keystore.certificate.chain", ConfigType.PASSWORD, None, None),
    ("ssl.keystore.key", ConfigType.PASSWORD, None, None),
    ("ssl.keystore.location", ConfigType.STRING, None, None),
    ("ssl.keystore.password", ConfigType.PASSWORD, None, None),
    ("ssl.keystore.type", ConfigType.STRING, 'JKS', None),
    ("ssl.protocol", ConfigType.STRING, 'TLSv1.3', None),
    ("ssl.provider", ConfigType.STRING, None, None),
    ("ssl.secure.random.implementation", ConfigType.STRING, None, None),
    ("ssl.trustmanager.algorithm", ConfigType.STRING, 'PKIX', None),
    ("ssl.truststore.certificates", ConfigType.PASSWORD, None, None),
    ("ssl.truststore.location", ConfigType.STRING, None, None),
    ("ssl.truststore.password", ConfigType.PASSWORD, None, None),
    ("ssl.truststore.type", ConfigType.STRING, 'JKS', None),
)
# fmt: on
"""Name, type, default as text, and the least and greatest number or the allowed words."""

_HIGH: Final = ("password", "location", "ssl.keystore.key", "certificate")
_LOW: Final = (
    "sasl.kerberos.kinit", "sasl.kerberos.min", "sasl.kerberos.ticket", ".timeout.ms", "sasl.login.refresh", ".retry.backoff.", ".seconds",
    "sasl.oauthbearer.expected", "sasl.oauthbearer.header", ".refresh.ms", "claim.name", "cipher", "identification", "engine", "manager",
    "secure.random",
)  # fmt: skip
"""Parts of names by which Kafka's importance is told; the rest is of medium importance."""

CLIENT_CONFIG_NAMES: Final = (BOOTSTRAP_SERVERS_CONFIG, SECURITY_PROTOCOL_CONFIG, *(row[0] for row in _SECURITY))
_SECRET_WORDS: Final = ("sasl.jaas.config", "password", "passphrase", "secret", "ssl.keystore.key", "ssl.keystore.certificate.chain")
HIDDEN: Final = "[hidden]"


def define_security(definition: ConfigDef) -> ConfigDef:
    """Adds `security.protocol`, `ssl.*` and `sasl.*`."""
    definition.define(
        SECURITY_PROTOCOL_CONFIG,
        ConfigType.STRING,
        "PLAINTEXT",
        "Protocol used to communicate with brokers.",
        validator=valid_string(*SECURITY_PROTOCOLS, ignore_case=True),
    )
    for name, kind, default, allowed in _SECURITY:
        validator = valid_list(duplicates_allowed=True) if kind is ConfigType.LIST else _validator(allowed)
        definition.define(name, kind, default, "As in Kafka's clients.", validator=validator, importance=_importance(name))
    return definition


def _importance(name: str) -> Importance:
    if name.startswith("ssl.") and any(part in name for part in _HIGH):
        return Importance.HIGH
    return Importance.LOW if any(part in name for part in _LOW) else Importance.MEDIUM


def is_secret(name: str) -> bool:
    """Whether a property's value must not be shown, whatever prefix its name has."""
    return any(word in name for word in _SECRET_WORDS)


def shown(name: str, value: str) -> str:
    """Returns the value for logs and answers, HIDDEN for a secret."""
    return HIDDEN if is_secret(name) else value


def _validator(allowed: tuple[Any, ...] | None) -> Validator | None:
    if allowed is None:
        return None
    if isinstance(allowed[0], str):
        return valid_string(*allowed, ignore_case=True)
    return between(*allowed)
