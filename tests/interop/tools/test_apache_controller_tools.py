"""Apache Kafka's own tools for reassignments, elections, features, settings and the quorum, against
three kmirror brokers.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Iterator

import pytest
from support.peers.apache_tools import CONFIGS, ELECTION, FEATURES, QUORUM, REASSIGN, TOPICS, ApacheTools, Done, apache_tools
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    with apache_tools(tmp_path_factory.mktemp("tools")) as tools:
        yield tools


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as cluster:
        yield cluster


class Tool:
    """A tool at the cluster's brokers, or at its controller."""

    def __init__(self, tools: ApacheTools, cluster: EmbeddedCluster) -> None:
        self._tools = tools
        self._brokers = cluster.bootstrap_servers
        self._controller = f"127.0.0.1:{cluster.nodes[0].controller_port}"

    def run(self, main_class: str, *arguments: str, controller: bool = False, fails: bool = False) -> str:
        where = ("--bootstrap-controller", self._controller) if controller else ("--bootstrap-server", self._brokers)
        done: Done = self._tools.run(main_class, *where, *arguments)
        assert (done.code != 0) is fails, done.out + done.err
        return done.out + done.err


@pytest.fixture
def tool(tools: ApacheTools, cluster: EmbeddedCluster) -> Tool:
    return Tool(tools, cluster)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + REACHED_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_kafka_reassign_partitions_moves_verifies_lists_and_cancels(tool: Tool, tmp_path: pathlib.Path) -> None:
    tool.run(TOPICS, "--create", "--topic", "moves", "--replica-assignment", "1:2,2:3")
    plan = tmp_path / "plan.json"
    target = {
        "version": 1,
        "partitions": [{"topic": "moves", "partition": 0, "replicas": [3, 1]}, {"topic": "moves", "partition": 1, "replicas": [1]}],
    }
    plan.write_text(json.dumps(target))
    out = tool.run(REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignments for moves-0,moves-1" in out
    until(lambda: "is still in progress" not in (seen := tool.run(REASSIGN, "--reassignment-json-file", str(plan), "--verify")) and "is completed" in seen,
          "the reassignment ends")  # fmt: skip
    described = tool.run(TOPICS, "--describe", "--topic", "moves")
    assert "Replicas: 3,1" in described
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in described
    assert "No partition reassignments found." in tool.run(REASSIGN, "--list")
    assert "None of the specified partition reassignments are active." in tool.run(
        REASSIGN, "--reassignment-json-file", str(plan), "--cancel"
    )
    target["partitions"][1]["replicas"] = [9]
    plan.write_text(json.dumps(target))
    assert "9" in tool.run(REASSIGN, "--reassignment-json-file", str(plan), "--execute", fails=True)


def test_kafka_leader_election_brings_the_preferred_leader_back(tool: Tool, cluster: EmbeddedCluster) -> None:
    tool.run(TOPICS, "--create", "--topic", "elect", "--replica-assignment", "3:2")
    cluster.stop_node(2)
    until(lambda: "Leader: 2" in tool.run(TOPICS, "--describe", "--topic", "elect"), "2 leads")
    where = ("--topic", "elect", "--partition", "0")
    assert "not available" in tool.run(ELECTION, "--election-type", "preferred", *where, fails=True).lower()
    cluster.start_node(2)
    until(lambda: "Isr: 2,3" in tool.run(TOPICS, "--describe", "--topic", "elect"), "3 is in sync")
    out = tool.run(ELECTION, "--election-type", "preferred", *where)
    assert "Successfully completed leader election (PREFERRED) for partitions elect-0" in out
    assert "Leader: 3" in tool.run(TOPICS, "--describe", "--topic", "elect")
    assert "Valid replica already elected for partitions elect-0" in tool.run(ELECTION, "--election-type", "preferred", *where)
    assert "Valid replica already elected" in tool.run(ELECTION, "--election-type", "unclean", *where)


def test_kafka_features_describes_upgrades_and_downgrades(tool: Tool) -> None:
    for controller in (False, True):
        rows = {line.split()[1]: line.split()[3::2] for line in tool.run(FEATURES, "describe", controller=controller).splitlines()}
        assert rows["metadata.version"][:3] == ["3.3-IV3", "4.3-IV0", "4.3-IV0"]
        assert rows["kraft.version"][:3] == ["0", "1", "0"]
    assert "transaction.version can be downgraded to 1." in tool.run(
        FEATURES, "downgrade", "--feature", "transaction.version=1", "--dry-run"
    )
    assert "transaction.version was downgraded to 1." in tool.run(FEATURES, "downgrade", "--feature", "transaction.version=1")
    assert "transaction.version was upgraded to 2." in tool.run(FEATURES, "upgrade", "--feature", "transaction.version=2", controller=True)
    refused = tool.run(FEATURES, "downgrade", "--release-version", "3.7", fails=True)
    assert "Refusing to perform the requested downgrade because it might delete metadata information." in refused


def test_kafka_configs_of_brokers_at_every_level(tool: Tool) -> None:
    default = ("--entity-type", "brokers", "--entity-default")
    own = ("--entity-type", "brokers", "--entity-name", "2")
    assert "Completed updating default config for brokers in the cluster." in tool.run(
        CONFIGS, "--alter", *default, "--add-config", "log.retention.ms=600000"
    )
    assert "Completed updating config for broker 2." in tool.run(
        CONFIGS, "--alter", *own, "--add-config", "log.retention.ms=700000,num.io.threads=9"
    )
    described = tool.run(CONFIGS, "--describe", *own)
    assert (
        "log.retention.ms=700000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=700000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=600000"
        in described
    )
    assert (
        "num.io.threads=9 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:num.io.threads=9, DEFAULT_CONFIG:num.io.threads=8}" in described
    )
    of_the_controller = tool.run(CONFIGS, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all", controller=True)
    assert "process.roles=broker,controller" in of_the_controller
    refused = tool.run(CONFIGS, "--alter", *own, "--add-config", "num.io.threads=90", fails=True)
    assert "value should not be greater than double the current value 9" in refused
    assert "Cannot update these configs dynamically: [node.id]" in tool.run(
        CONFIGS, "--alter", *own, "--add-config", "node.id=7", fails=True
    )
    tool.run(CONFIGS, "--alter", *own, "--delete-config", "log.retention.ms,num.io.threads")
    assert "log.retention.ms=700000" not in tool.run(CONFIGS, "--describe", *own)


def test_kafka_metadata_quorum_describes_status_and_replication(tool: Tool) -> None:
    for controller in (False, True):
        status = tool.run(QUORUM, "describe", "--status", controller=controller)
        assert "LeaderId:               1" in status
        replication = [line.split() for line in tool.run(QUORUM, "describe", "--replication", controller=controller).splitlines()[1:]]
        assert [(row[0], row[-1]) for row in replication if row] == [("1", "Leader"), ("2", "Observer"), ("3", "Observer")]
