"""KIP-714 with Kafka's own programs: kafka-client-metrics makes a subscription, the Java producer
pushes what it asks for.
"""

from __future__ import annotations

import pytest
from support.peers.peers import java_tool

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop


def test_the_java_producer_pushes_what_a_subscription_asks_for() -> None:
    with EmbeddedCluster(config={"kmirror.telemetry.receiver.enable": "true"}) as cluster:
        servers = cluster.bootstrap_servers
        subscription = (
            "--name",
            "producers",
            "--metrics",
            "org.apache.kafka.producer.",
            "--interval",
            "100",
            "--match",
            "client_id=pushing",
        )
        done = java_tool("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", servers, "--alter", *subscription)
        assert done.returncode == 0, done.stdout + done.stderr
        done = java_tool("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", servers, "--describe", "--name", "producers")
        assert "interval.ms=100" in done.stdout and "match=client_id=pushing" in done.stdout, done.stdout + done.stderr
        properties = (f"bootstrap.servers={servers}", "client.id=pushing", "enable.metrics.push=true")
        arguments = ("--topic", "telemetry", "--num-records", "30", "--record-size", "100", "--throughput", "20")
        done = java_tool("org.apache.kafka.tools.ProducerPerformance", *arguments, "--producer-props", *properties)
        assert done.returncode == 0 and "30 records sent" in done.stdout, done.stdout + done.stderr
        received = cluster.call(lambda server: server.broker.apis.client_metrics.receiver.received_bytes)
        errors = {name: bean["Count"] for name, bean in cluster.metrics().items() if "ErrorsPerSec,request=PushTelemetry" in name}
        assert received > 0, errors
        assert any("error=NONE" in name for name in errors)
