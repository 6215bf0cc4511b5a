"""Kafka's own kafka-configs sets, shows and removes quotas of users, clients and addresses; the
Java producer is slowed down.
"""

from __future__ import annotations

import re

import pytest
from support.peers.peers import java_tool

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(config={"quota.window.num": "2"}) as running:
        yield running


def configs(cluster: EmbeddedCluster, *arguments: str) -> str:
    done = java_tool("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("entity", "config", "shown"),
    [
        (
            ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-default"),
            "controller_mutation_rate=10",
            "Quota configs for user-principal 'bob', the default client-id are",
        ),
        (("--entity-type", "ips", "--entity-name", "10.0.0.1"), "connection_creation_rate=5", "Quota configs for ip '10.0.0.1' are"),
    ],
)
def test_quotas_are_set_shown_and_removed(cluster: EmbeddedCluster, entity: tuple[str, ...], config: str, shown: str) -> None:
    name, value = config.split("=")
    assert "Completed updating" in configs(cluster, "--alter", *entity, "--add-config", config)
    found = configs(cluster, "--describe", *entity)
    assert shown in found and re.search(rf"{name}={float(value)}\b", found)
    assert "Completed updating" in configs(cluster, "--alter", *entity, "--delete-config", name)
    kept = cluster.call(lambda server: server.controller.controller.image.client_quotas)
    assert not [entity for entity, quotas in kept.items() if name in quotas]


def test_the_java_producer_keeps_to_its_quota(cluster: EmbeddedCluster) -> None:
    configs(cluster, "--alter", "--entity-type", "clients", "--entity-name", "perf", "--add-config", "producer_byte_rate=200000")
    arguments = ("--topic", "perf", "--num-records", "60", "--record-size", "10000", "--throughput", "-1", "--print-metrics")
    properties = (f"bootstrap.servers={cluster.bootstrap_servers}", "client.id=perf", "batch.size=10000", "acks=all")
    done = java_tool("org.apache.kafka.tools.ProducerPerformance", *arguments, "--producer-props", *properties)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 records sent" in done.stdout
    throttled = re.search(r"produce-throttle-time-max:\{client-id=perf\}\s*: (\d+\.\d+)", done.stdout)
    assert throttled and float(throttled[1]) > 0, done.stdout
