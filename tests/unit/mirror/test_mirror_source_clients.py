"""Clients of sources: what is wrong with a mirror's security is its reason, and tells nothing of its secrets."""

from __future__ import annotations

import pytest

from kmirror.mirror.channels import source_clients
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source_cluster import SourceError
from kmirror.network.client import DisconnectError
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.messages.metadata import MetadataRequest

PROVIDER = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def why_not(jaas: str) -> str:
    """Why the source cannot be connected to with this login."""
    world = SimWorld(SimLoop(5))
    runtime = world.node("broker").boot()
    runtime.environment = {"SOURCE_PASSWORD": 'rain "drops" keep; falling'}
    configs = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    try:
        client = source_clients(runtime, MirrorConfig(1, config_providers=PROVIDER))("m", configs)
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
    """Whoever might describe a mirror read there what followed a quote, or a space, in its password."""
    said = why_not(jaas)
    assert said.endswith(f"sasl.jaas.config: {problem}")
    assert "drops" not in said and "rain" not in said
