"""Kafka's own Java command line tools, and with them the Java clients, against an embedded cluster."""

from __future__ import annotations

import pytest
from support.peers.peers import java_tool

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster() as running:
        yield running


def run(cluster: EmbeddedCluster, main_class: str, *arguments: str, stdin: str | None = None) -> str:
    done = java_tool(main_class, "--bootstrap-server", cluster.bootstrap_servers, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCE = "org.apache.kafka.tools.ConsoleProducer"
CONSUME = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def test_kafka_topics_creates_describes_alters_and_deletes(cluster) -> None:
    assert "Created topic jt." in run(
        cluster, TOPICS, "--create", "--topic", "jt", "--partitions", "2", "--config", "segment.bytes=1048576"
    )
    described = run(cluster, TOPICS, "--describe", "--topic", "jt")
    assert "PartitionCount: 2" in described and "ReplicationFactor: 1" in described and "segment.bytes=1048576" in described
    assert "Leader: 1" in described and "Isr: 1" in described
    run(cluster, TOPICS, "--alter", "--topic", "jt", "--partitions", "4")
    assert "PartitionCount: 4" in run(cluster, TOPICS, "--describe", "--topic", "jt")
    run(cluster, TOPICS, "--delete", "--topic", "jt")
    assert "jt" not in run(cluster, TOPICS, "--list").split()


def test_kafka_configs_alters_and_describes(cluster) -> None:
    run(cluster, TOPICS, "--create", "--topic", "jc")
    altered = run(cluster, CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "jc", "--add-config", "retention.ms=4242")
    assert "Completed updating config for topic jc." in altered
    described = run(cluster, CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", "jc")
    assert "retention.ms=4242" in described and "DYNAMIC_TOPIC_CONFIG:retention.ms=4242" in described


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer_with_a_group(cluster, codec: str) -> None:
    topic = f"console-{codec}"
    run(cluster, TOPICS, "--create", "--topic", topic)
    lines = "".join(f"line {number}\n" for number in range(200))
    run(cluster, PRODUCE, "--topic", topic, "--compression-codec", codec, stdin=lines)
    got = run(
        cluster, CONSUME, "--topic", topic, "--from-beginning", "--max-messages", "200", "--group", f"g-{codec}", "--timeout-ms", "20000"
    )
    assert got == lines
    described = run(cluster, GROUPS, "--describe", "--group", f"g-{codec}")
    row = next(line.split() for line in described.splitlines() if topic in line)
    assert row[3:6] == ["200", "200", "0"]


def test_the_java_performance_producer_is_idempotent_by_default(cluster) -> None:
    run(cluster, TOPICS, "--create", "--topic", "perf", "--partitions", "3")
    output = java_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}", "acks=all", "compression.type=lz4",
    )  # fmt: skip
    assert "20000 records sent" in output.stdout, output.stdout + output.stderr
    offsets = run(cluster, "org.apache.kafka.tools.GetOffsetShell", "--topic", "perf")
    assert sum(int(line.split(":")[2]) for line in offsets.split()) == 20000


def test_broker_api_versions_knows_every_api_we_name(cluster) -> None:
    output = run(cluster, "org.apache.kafka.tools.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 13" in output or "Produce(0): 3 to 13" in output
    assert "UNKNOWN" not in output.replace("UNSUPPORTED", "")


def test_metadata_quorum_is_described(cluster) -> None:
    done = java_tool(
        "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", cluster.bootstrap_servers, "describe", "--status"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LeaderId:" in done.stdout and cluster.cluster_id in done.stdout
