"""A listener's settings: its own before the node's, a mechanism's own before both; and what it
cannot be secured with.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.metadata.delegation_tokens import token_hmac, token_password
from kmirror.metadata.image import DelegationToken, MetadataImage, ScramCredentialData
from kmirror.network.security.scram_mechanism import ScramMechanism
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.image_credentials import ImageCredentials
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.listener_security import (
    SECURED_JWT_HANDLERS,
    ListenerSettings,
    channel_builder,
    controller_security,
    inter_broker_security,
)

PLAIN_JAAS = 'x.PlainLoginModule required username="broker" password="b-secret" user_broker="b-secret";'
CLOCK = ManualClock()
RUNTIME: Any = SimpleNamespace(clock=CLOCK, random=SeededRandom(1), files=OsFileSystem())


def config(**changes: str) -> KafkaConfig:
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:1",
        "listeners": "SASL_PLAINTEXT://localhost:2,OTHER://localhost:3,CONTROLLER://localhost:1",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "log.dirs": "/nowhere",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "plain.sasl.jaas.config": PLAIN_JAAS,
    }
    return KafkaConfig.from_props(
        values | {name.replace("__", "-").replace("_", ".").replace("-", "_"): value for name, value in changes.items()}
    )


def builder(settings: KafkaConfig, index: int = 0) -> Any:
    loop = asyncio.new_event_loop()
    try:
        return channel_builder(
            settings,
            settings.listeners[index],
            runtime=RUNTIME,
            metrics=MetricsRegistry(CLOCK),
            images=lambda: MetadataImage.EMPTY,
            ready=loop.create_future(),
        )
    finally:
        loop.close()


def test_settings_of_a_listener_come_before_the_nodes() -> None:
    made = config(listener_name_other_sasl_enabled_mechanisms="SCRAM-SHA-512", ssl_client_auth="required", ssl_key_password="x")
    own, other = ListenerSettings(made, "SASL_PLAINTEXT"), ListenerSettings(made, "OTHER")
    assert (own.get_list("sasl.enabled.mechanisms"), other.get_list("sasl.enabled.mechanisms")) == (["PLAIN"], ["SCRAM-SHA-512"])
    assert own.get("ssl.client.auth") == "required" and own.own("ssl.client.auth") is None
    assert own.ssl()["ssl.key.password"] == "x" and own.ssl()["ssl.enabled.protocols"] == "TLSv1.2,TLSv1.3"
    assert own.jaas_text("PLAIN") == PLAIN_JAAS
    assert made.unknown == []


def test_reauthentication_limits_of_listener_and_mechanism() -> None:
    made = config(
        connections_max_reauth_ms="1000",
        listener_name_sasl__plaintext_plain_connections_max_reauth_ms="2000",
        listener_name_other_connections_max_reauth_ms="3000",
    )
    assert builder(made)._sasl.connections_max_reauth_ms == {"PLAIN": 2000}
    assert builder(made, 1)._sasl.connections_max_reauth_ms == {"PLAIN": 3000}
    assert builder(made, 2)._sasl.connections_max_reauth_ms == {"PLAIN": 1000}


def test_how_the_node_itself_connects() -> None:
    made = config()
    for security in (inter_broker_security(made), controller_security(made)):
        assert (security.security_protocol, security.sasl_mechanism, security.option("username")) == ("SASL_PLAINTEXT", "PLAIN", "broker")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"plain_sasl_jaas_config": "x required"}, "JAAS config entry not terminated by semi-colon"),
        ({"listener_name_sasl__plaintext_sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256"}, "Could not find a 'KafkaServer'"),
        (
            {"listener_name_sasl__plaintext_sasl_enabled_mechanisms": "PLAIN,CRAM-MD5", "cram-md5_sasl_jaas_config": PLAIN_JAAS},
            "Could not find a 'KafkaServer'",
        ),
        (
            {"listener_name_sasl__plaintext_plain_sasl_server_callback_handler_class": "a.B"},
            "Invalid value a.B for configuration sasl.server.callback.handler.class: Class a.B could not be found.",
        ),
    ],
)
def test_what_a_listener_cannot_be_secured_with(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        builder(config(**changes))
    assert str(refusal.value).startswith(reason)


def test_credentials_come_from_the_image_as_it_is_now() -> None:
    images = [MetadataImage.EMPTY]
    credentials = ImageCredentials(lambda: images[-1], RUNTIME, "secret")
    sha_512 = ScramMechanism.SCRAM_SHA_512
    assert credentials.of_user(sha_512, "alice") is None and credentials.of_token(sha_512, "t") is None
    now = CLOCK.time_ms()
    token = DelegationToken("User:alice", "User:bob", (), now, now + 10_000, now + 5_000, "t")
    images.append(MetadataImage(scram={(2, "alice"): ScramCredentialData(b"s", b"k", b"v", 4096)}, delegation_tokens={"t": token}))
    assert credentials.of_user(sha_512, "alice") == (b"s", b"k", b"v", 4096)
    assert credentials.of_user(ScramMechanism.SCRAM_SHA_256, "alice") is None
    found = credentials.of_token(sha_512, "t")
    assert found is not None and (found.owner, found.expiry_timestamp_ms) == ("alice", now + 5_000)
    salted = sha_512.salted_password(token_password(token_hmac("secret", "t")), found.credential.salt, 4096)
    assert found.credential.stored_key == sha_512.stored_key(sha_512.client_key(salted))
    assert credentials.of_token(sha_512, "t") == found
    CLOCK.now_ms += 5_000
    assert credentials.of_token(sha_512, "t") is None
    assert ImageCredentials(lambda: images[-1], RUNTIME, None).of_token(sha_512, "t") is None


@pytest.mark.parametrize("claim", ["scope", "sub"])
def test_the_name_of_a_claim_is_taken_without_the_blanks_around_it(tmp_path: Path, claim: str) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')
    signed = {
        "listener_name_other_sasl_enabled_mechanisms": "OAUTHBEARER",
        "listener_name_other_oauthbearer_sasl_jaas_config": "x.OAuthBearerLoginModule required;",
        "listener_name_other_oauthbearer_sasl_server_callback_handler_class": SECURED_JWT_HANDLERS[0],
        "listener_name_other_sasl_oauthbearer_jwks_endpoint_url": f"file://{tmp_path}/keys.json",
    }
    name = f"listener_name_other_sasl_oauthbearer_{claim}_claim_name"
    made = builder(config(**signed, **{name: " email "}), 1)
    validator = made._sasl.servers["OAUTHBEARER"]()._validate
    assert getattr(validator, f"_{claim}_claim") == "email"
    with pytest.raises(ConfigError, match=f"option sasl.oauthbearer.{claim}.claim.name value must not contain only whitespace"):
        builder(config(**signed, **{name: " "}), 1)
