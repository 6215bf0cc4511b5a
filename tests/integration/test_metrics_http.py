"""A running cluster as an operator sees it: health, Prometheus, `kmirror metrics`,
`EmbeddedCluster.metrics`.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from confluent_kafka import Producer
from support.peers.peers import free_port
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli.kmirror import main
from kmirror.server.node_http import HTTP_LISTENER_CONFIG


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(config={"kmirror.http.listener": "127.0.0.1:0"}) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        producer.produce("measured", b"x" * 100)
        assert producer.flush(REACHED_S) == 0
        yield running


@pytest.fixture
def url(cluster) -> str:
    return f"http://127.0.0.1:{cluster.call(lambda server: server.http.port)}"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=REACHED_S) as response:
        return response.read().decode()


def test_a_serving_node_is_ready_and_counts(url):
    page = json.loads(get(f"{url}/health"))
    assert page["live"] and page["ready"] and page["reasons"] == [] and page["mirrors"] == {}
    assert [line for line in page["looked_at"] if "RUNNING, by its metadata not fenced" in line], page
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
    assert beans["kmirror:type=Runtime,name=UnexpectedFailureCount"] == {"Value": 0}
    assert beans["kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=measured"]["Count"] == 1
    assert beans["kafka.server:type=ReplicaManager,name=PartitionCount"] == {"Value": 1}
    assert beans["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=BrokerHeartbeat"]["Count"] > 0, "of the controller's listener"
    assert beans["kafka.controller:type=KafkaController,name=ActiveBrokerCount"] == {"Value": 1}


def test_the_brokers_are_asked_for_their_endpoints(capsys):
    port = free_port()
    with EmbeddedCluster(
        brokers=2, config={"kmirror.http.listener": "127.0.0.1:0"}, node_config={0: {HTTP_LISTENER_CONFIG: f":{port}"}}
    ) as cluster:
        assert get(f"http://127.0.0.1:{port}/health/live")
        arguments = ["metrics", "--bootstrap-server", cluster.bootstrap_servers, "--json", "--filter", "BrokerState"]
        assert main(arguments) == 1, "the second broker's port was chosen by the kernel, so nobody knows it"
        assert "http://127.0.0.1:0/metrics.json" in capsys.readouterr().err
    with EmbeddedCluster(config={HTTP_LISTENER_CONFIG: f"127.0.0.1:{port}"}) as cluster:
        assert main([*arguments[:2], cluster.bootstrap_servers, *arguments[3:]]) == 0
        assert json.loads(capsys.readouterr().out) == {"broker 1": {"kafka.server:type=KafkaServer,name=BrokerState": {"Value": 3}}}
    with EmbeddedCluster() as cluster:
        assert main([*arguments[:2], cluster.bootstrap_servers, *arguments[3:]]) == 1
        assert "no broker of this cluster has kmirror.http.listener set" in capsys.readouterr().err


def until_reasons(url: str, text: str) -> dict[str, Any]:
    """Returns the page once a reason has the text; its status is 503 then."""
    deadline = time.monotonic() + REACHED_S
    page: dict[str, Any] = {}
    while text not in " ".join(page.get("reasons", ())):
        assert time.monotonic() < deadline, page
        time.sleep(0.05)
        try:
            page = json.loads(get(url))
        except urllib.error.HTTPError as error:
            assert error.code == 503
            page = json.loads(error.read())
    assert not page["ready"]
    return page


def test_a_fenced_broker_is_not_ready():
    with EmbeddedCluster(config={HTTP_LISTENER_CONFIG: "127.0.0.1:0", "broker.heartbeat.interval.ms": "100"}) as cluster:
        url = f"http://127.0.0.1:{cluster.call(lambda server: server.http.port)}/health/ready"
        cluster.call(lambda server: setattr(server.broker._lifecycle, "_wants_fence", True))
        reasons = until_reasons(url, "fenced")["reasons"]
        assert reasons == ["the broker is fenced"]


def test_a_broker_whose_controller_is_away_is_not_ready():
    """Its own metadata says for ever that it is not fenced."""
    config = {HTTP_LISTENER_CONFIG: "127.0.0.1:0", "broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}
    with EmbeddedCluster(brokers=2, config=config) as cluster:
        url = f"http://127.0.0.1:{cluster.call(lambda server: server.http.port, 1)}/health/ready"
        cluster.kill_node(0)
        reached = until_reasons(url, "the controller has not been heard of")
        assert "/health/mirrors" in " ".join(reached["not_looked_at"])
