"""A running cluster as an operator sees it: health, Prometheus, `kmirror metrics`, `EmbeddedCluster.metrics`."""

from __future__ import annotations

import json
import urllib.request

import pytest
from confluent_kafka import Producer

from kmirror import EmbeddedCluster
from kmirror.cli.kmirror import main


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(config={"kmirror.http.listener": "127.0.0.1:0"}) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        producer.produce("measured", b"x" * 100)
        assert producer.flush(20) == 0
        yield running


@pytest.fixture
def url(cluster) -> str:
    return f"http://127.0.0.1:{cluster.call(lambda server: server.http.port)}"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def test_a_serving_node_is_ready_and_counts(url):
    assert json.loads(get(f"{url}/health")) == {"live": True, "ready": True, "reasons": []}
    text = get(f"{url}/metrics")
    assert 'kafka_server_BrokerTopicMetrics_Count{name="MessagesInPerSec",topic="measured"} 1' in text
    assert 'kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="Produce"} 1' in text
    assert 'kafka_network_RequestMetrics_Count{name="ErrorsPerSec",request="Produce",error="NONE"} 1' in text


def test_the_tool_prints_tables_and_json(url, capsys):
    assert main(["metrics", "--url", url, "--filter", "name=MessagesInPerSec,topic=measured|ReplicaManager.*:Value$"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=measured ")
    assert "Count=1 " in lines[0] and len(lines) > 4
    assert main(["metrics", "--url", url, "--json", "--filter", "request=Produce:Count"]) == 0
    beans = json.loads(capsys.readouterr().out)[url]
    assert beans["kafka.network:type=RequestMetrics,name=RequestBytes,request=Produce"] == {"Count": 1}


def test_the_tool_says_in_one_line_what_is_wrong(cluster, url, capsys):
    for arguments, text in (
        (["--url", "http://127.0.0.1:1"], "http://127.0.0.1:1/metrics.json: "),
        (["--url", f"127.0.0.1:{cluster.nodes[0].port}"], "is not of the form http://host:port"),
        (["--url", f"http://127.0.0.1:{cluster.nodes[0].port}"], "/metrics.json: "),
        (["--url", url, "--filter", "("], "--filter '(' is not a regular expression"),
    ):
        assert main(["metrics", *arguments]) == 1
        error = capsys.readouterr().err
        assert text in error and error.count("\n") == 1 and "Traceback" not in error


def test_the_embedded_cluster_gives_its_metrics(cluster):
    beans = cluster.metrics()
    assert beans["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=measured"]["Count"] == 1
    assert beans["kafka.server:type=ReplicaManager,name=PartitionCount"] == {"Value": 1}
