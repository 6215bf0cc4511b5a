"""Kafka's client properties as a `ClientSecurity`."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ConfigError
from kmirror.network.client_security import ClientSecurity

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="alice-secret";'


def test_no_properties_are_plaintext() -> None:
    assert ClientSecurity.from_props({"bootstrap.servers": "x"}) == ClientSecurity.PLAINTEXT
    assert not ClientSecurity.PLAINTEXT.uses_tls and not ClientSecurity.PLAINTEXT.uses_sasl


def test_what_is_used_is_kept_and_no_secret_is_printed() -> None:
    props = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": SCRAM,
        "ssl.key.password": "key-secret",
    }
    security = ClientSecurity.from_props(props | {"client.id": "x"})
    assert (security.security_protocol, security.uses_tls, security.uses_sasl) == ("SASL_SSL", True, True)
    assert security.option("username") == "alice" and dict(security.props) == {"ssl.key.password": "key-secret"}
    assert "secret" not in repr(security)


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({"security.protocol": "TLS"}, "Invalid value TLS for configuration security.protocol: String must be one of (case insensitive): "),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "CRAM"}, "Failed to create SaslClient with mechanism CRAM"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "Could not find a 'KafkaClient' entry in the JAAS configuration. System property 'java.security.auth.login.config' is not set",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x required"},
            "JAAS config entry not terminated",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x required;"},
            "The JAAS config of PLAIN has no username",
        ),
    ],
)
def test_properties_that_are_wrong(props: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        ClientSecurity.from_props(props)
    assert str(refusal.value).startswith(reason)
