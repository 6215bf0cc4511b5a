"""Clients of sources: an error in a mirror's security configs is shown as the mirror's reason, and
shows none of its secrets.
"""

from __future__ import annotations

import pytest

from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.channels import source_clients
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.network.client import DisconnectError
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.messages.metadata import MetadataRequest

PROVIDER = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


LOGIN = 'P required username="m" password="p";'
MISPLACED = "hunter2,/and; 'more'"


def why_not(**configs: str) -> str:
    """Returns why no connection is possible with these configs (written with `_` for `.`)."""
    world = SimWorld(SimLoop(5))
    runtime = world.node("broker").boot()
    runtime.environment = {"SOURCE_PASSWORD": 'rain "drops" keep; falling', "MISPLACED": MISPLACED, "NUL": "hunter2\0"}
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": LOGIN}
    mirror_configs = {name.replace("_", "."): value for name, value in (login | configs).items()}
    try:
        client = source_clients(runtime, MirrorConfig(1, config_providers=PROVIDER))("m", mirror_configs)
        asking = runtime.spawn(client.send("source", 9092, MetadataRequest(), timeout_ms=1_000), name="ask")
        world.loop.run_until_complete(asking)
    except (DisconnectError, SourceError) as error:
        return str(error)
    finally:
        world.close()
    raise AssertionError("connected")


@pytest.mark.parametrize(
    ("jaas", "problem"),
    [
        ('P required username="m" password="${env:SOURCE_PASSWORD}";', "Value not specified for key '[hidden]' in JAAS config"),
        ("P ${env:SOURCE_PASSWORD};", "Invalid login module control flag '[hidden]' in JAAS config"),
        ("P required username=m password=rain drops;", "Value not specified for key '[hidden]' in JAAS config"),
    ],
)
def test_a_reason_has_no_word_of_a_login(jaas: str, problem: str) -> None:
    """Once, everyone who may describe a mirror could read the part of its password after a quote or
    a space.
    """
    said = why_not(sasl_jaas_config=jaas)
    assert said.endswith(f"sasl.jaas.config: {problem}")
    assert "drops" not in said and "rain" not in said


TLS = {"security_protocol": "SSL"}
SHOWN = "${env:MISPLACED}"


@pytest.mark.parametrize(
    ("configs", "problem"),
    [
        ({"sasl_mechanism": " ${env:MISPLACED} "}, "Failed to create SaslClient with mechanism ${env:MISPLACED}"),
        ({"security_protocol": SHOWN}, "Invalid value ${env:MISPLACED} for configuration security.protocol: "),
        (TLS | {"ssl_truststore_location": SHOWN}, "Failed to load SSL truststore ${env:MISPLACED}: No such file or directory"),
        (TLS | {"ssl_truststore_location": f"/etc/{SHOWN}.pem"}, "Failed to load SSL truststore /etc/${env:MISPLACED}.pem: No such"),
        (TLS | {"ssl_keystore_location": SHOWN}, "Failed to load SSL keystore ${env:MISPLACED}: No such file or directory"),
        (TLS | {"ssl_truststore_type": SHOWN}, "Invalid value ${env:MISPLACED} for configuration ssl.truststore.type"),
        (TLS | {"ssl_enabled_protocols": SHOWN}, "for configuration ssl.enabled.protocols"),
        (TLS | {"ssl_cipher_suites": f"TLS_WITH_{SHOWN}"}, "Unsupported cipher suite in ssl.cipher.suites: "),
        (
            {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": SHOWN},
            "sasl.oauthbearer.token.endpoint.url=${env:MISPLACED} is not supported",
        ),
    ],
)
def test_a_secret_in_the_wrong_config_was_told_to_whoever_may_describe_the_mirror(
    configs: dict[str, str], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = why_not(**configs)
    assert problem in said and "${env:MISPLACED}" in said
    for text in (said, caplog.text):
        assert "hunter2" not in text and "and; " not in text


def test_a_reference_that_ends_in_a_nul_is_told_as_it_is_written() -> None:
    """The file system's message quotes such a path as Python does."""
    said = why_not(security_protocol="SSL", ssl_truststore_location="${env:NUL}")
    assert "${env:NUL}" in said and "hunter2" not in said
