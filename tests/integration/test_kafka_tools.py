"""Kafka's tools over a cluster of ours: what they change is so afterwards, JSON says what the text
says, errors are one line.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedCluster

ACLS_ON = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:ANONYMOUS"}
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, config=ACLS_ON) as running:
        yield running


@pytest.fixture
def tool(cluster: EmbeddedCluster, capfd: pytest.CaptureFixture[str]) -> Tool:
    """`tool("topics", "--list")` gives standard output; `code` is the exit code it must have, and a
    failure's stderr is added.
    """

    def run(module: str, *arguments: str, code: int = 0, bootstrap: bool = True) -> str:
        capfd.readouterr()
        connection = ["--bootstrap-server", cluster.bootstrap_servers] if bootstrap else []
        main = importlib.import_module(f"kmirror.cli.{module}").main
        # The commands of argparse's tools come before or after the connection, as Kafka has them.
        words = [*arguments[:1], *connection, *arguments[1:]] if module == "cluster" else [*connection, *arguments]
        assert main(words) == code, capfd.readouterr()
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return captured.out + (captured.err if code else "")

    return run


def produce(cluster: EmbeddedCluster, topic: str, count: int, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, f"{number}", partition=number % partitions)
    assert producer.flush(REACHED_S) == 0


def commit(cluster: EmbeddedCluster, group: str, *offsets: tuple[str, int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(*row) for row in offsets], asynchronous=False)
    consumer.close()


def written(folder: Path, value: Any) -> str:
    path = folder / "file.json"
    path.write_text(json.dumps(value))
    return str(path)


def test_topics_are_created_grown_described_and_deleted(tool: Tool) -> None:
    assert tool("topics", "--create", "--topic", "life", "--partitions", "2", "--config", "retention.ms=5") == "Created topic life.\n"
    again = tool("topics", "--create", "--topic", "life", code=1)
    assert again == "Error while executing topic command : Topic 'life' already exists.\n"
    assert tool("topics", "--create", "--topic", "life", "--if-not-exists") == ""
    tool("topics", "--alter", "--topic", "life", "--partitions", "3")
    (described,) = json.loads(tool("topics", "--describe", "--topic", "life", "--json"))
    text = tool("topics", "--describe", "--topic", "life").splitlines()
    assert text[0].split("\t")[2:4] == ["PartitionCount: 3", "ReplicationFactor: 1"] and "retention.ms=5" in text[0]
    assert described["topicId"] in text[0] and described["configs"]["retention.ms"] == "5"
    assert [row["replicas"] for row in described["partitions"]] == [[int(line.split("Replicas: ")[1].split("\t")[0])] for line in text[1:]]
    by_id = tool("topics", "--describe", "--topic-id", described["topicId"]).splitlines()
    assert by_id[0] == text[0] and len(by_id) == 4
    assert "life" in json.loads(tool("topics", "--list", "--json"))
    tool("topics", "--delete", "--topic", "life")
    gone = tool("topics", "--describe", "--topic", "life", code=1)
    assert gone == "Error while executing topic command : Topic 'life' does not exist as expected\n"


def test_partitions_are_described_over_several_pages(tool: Tool) -> None:
    tool("topics", "--create", "--topic", "paged", "--partitions", "7")
    whole = tool("topics", "--describe", "--topic", "paged")
    assert tool("topics", "--describe", "--topic", "paged", "--partition-size-limit-per-response", "2") == whole


def test_configs_of_topics_brokers_and_groups(tool: Tool, tmp_path: Path) -> None:
    tool("topics", "--create", "--topic", "conf")
    file = tmp_path / "add.properties"
    file.write_text("retention.ms=77\ncleanup.policy=compact,delete\n")
    assert tool("configs", "--alter", "--topic", "conf", "--add-config-file", str(file)) == "Completed updating config for topic conf.\n"
    (described,) = json.loads(tool("configs", "--describe", "--topic", "conf", "--json"))
    assert {row["name"]: row["value"] for row in described["configs"]} == {"retention.ms": "77", "cleanup.policy": "compact,delete"}
    tool("configs", "--alter", "--topic", "conf", "--delete-config", "retention.ms,cleanup.policy")
    assert tool("configs", "--describe", "--topic", "conf") == "Dynamic configs for topic conf are:\n"
    tool("configs", "--alter", "--broker", "2", "--add-config", "log.retention.ms=99")
    assert "log.retention.ms=99 sensitive=false" in tool("configs", "--describe", "--broker", "2")
    assert tool("configs", "--describe", "--broker", "1") == "Dynamic configs for broker 1 are:\n"
    tool("configs", "--alter", "--group", "g", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in tool("configs", "--describe", "--group", "g")
    wrong = tool("configs", "--alter", "--topic", "conf", "--add-config", "retention.ms=x", code=1)
    assert wrong.startswith("Error while executing config command with args '--bootstrap-server")
    assert tool("configs", "--describe", "--topic", "nosuch") == "The topic 'nosuch' doesn't exist and doesn't have dynamic config.\n"


def test_quotas_and_credentials_of_users(tool: Tool) -> None:
    tool("configs", "--alter", "--user", "u", "--add-config", "producer_byte_rate=1048576,request_percentage=50")
    tool("configs", "--alter", "--user", "u", "--client", "c", "--add-config", "consumer_byte_rate=100000000")
    tool("configs", "--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    text = tool("configs", "--describe", "--user", "u")
    assert "Quota configs for user-principal 'u' are " in text and "producer_byte_rate=1048576.0" in text
    assert "SCRAM credential configs for user-principal 'u' are SCRAM-SHA-256=iterations=8192\n" in text
    both = tool("configs", "--describe", "--user", "u", "--client", "c")
    assert both == "Quota configs for user-principal 'u', client-id 'c' are consumer_byte_rate=1.0E8\n"
    described = json.loads(tool("configs", "--describe", "--user", "u", "--json"))
    assert described["scramCredentials"] == {"u": [{"mechanism": "SCRAM-SHA-256", "iterations": 8192}]}
    tool("configs", "--alter", "--user", "u", "--delete-config", "producer_byte_rate,request_percentage")
    tool("configs", "--alter", "--user", "u", "--delete-config", "SCRAM-SHA-256")
    assert "Quota configs" not in tool("configs", "--describe", "--user", "u")


def test_acls_are_added_listed_and_removed(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool("acls", "--add", "--topic", "t", "--group", "g", "--allow-principal", "User:a", "--consumer")
    tool("acls", "--add", "--topic", "pre", "--resource-pattern-type", "prefixed", "--deny-principal", "User:b", "--operation", "Write")
    assert "already exists." in tool("acls", "--add", "--group", "g", "--allow-principal", "User:a", "--operation", "Read")
    listed = json.loads(tool("acls", "--list", "--json"))
    assert sorted((row["resourceType"], row["operation"], row["permissionType"]) for row in listed) == [
        ("GROUP", "READ", "ALLOW"),
        ("TOPIC", "DESCRIBE", "ALLOW"),
        ("TOPIC", "READ", "ALLOW"),
        ("TOPIC", "WRITE", "DENY"),
    ]
    matching = tool("acls", "--list", "--topic", "prefix", "--resource-pattern-type", "match")
    assert matching == (
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=pre, patternType=PREFIXED)`:\n"
        "\t(principal=User:b, host=*, operation=WRITE, permissionType=DENY)\n\n"
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert tool("acls", "--remove", "--topic", "t").endswith("? (y/n)\n")
    assert len(json.loads(tool("acls", "--list", "--topic", "t", "--json"))) == 2
    tool("acls", "--remove", "--topic", "t", "--force")
    tool("acls", "--remove", "--group", "g", "--allow-principal", "User:a", "--operation", "Read", "--force")
    assert {row["principal"] for row in json.loads(tool("acls", "--list", "--json"))} == {"User:b"}


def test_share_groups_are_listed_described_reset_and_deleted(tool: Tool, cluster: EmbeddedCluster) -> None:
    tool("topics", "--create", "--topic", "queue", "--partitions", "2")
    produce(cluster, "queue", 20, partitions=2)
    planned = tool("share_groups", "--reset-offsets", "--group", "workers", "--topic", "queue:1", "--to-latest", "--dry-run", "--json")
    assert json.loads(planned) == [{"group": "workers", "topic": "queue", "partition": 1, "newOffset": 10}]
    assert tool("share_groups", "--list") == ""
    tool("share_groups", "--reset-offsets", "--group", "workers", "--topic", "queue", "--to-earliest", "--execute")
    tool("share_groups", "--reset-offsets", "--group", "workers", "--topic", "queue:1", "--to-latest", "--execute")
    assert json.loads(tool("share_groups", "--list", "--json")) == [{"group": "workers", "state": "Empty"}]
    (described,) = json.loads(tool("share_groups", "--describe", "--all-groups", "--json"))
    assert [(row["partition"], row["startOffset"], row["lag"]) for row in described["offsets"]] == [(0, 0, 10), (1, 10, 0)]
    assert (described["group"], described["state"], described["members"]) == ("workers", "Empty", [])
    rows = [line.split() for line in tool("share_groups", "--describe", "--group", "workers", "--verbose").splitlines()[1:]]
    assert rows[1:] == [["workers", "queue", "0", "0", "0", "10"], ["workers", "queue", "1", "0", "10", "0"]]
    assert tool("share_groups", "--delete-offsets", "--group", "workers", "--topic", "queue").split()[-1] == "Successful"
    assert "has no offset information" in tool("share_groups", "--describe", "--group", "workers")
    assert tool("share_groups", "--delete", "--all-groups") == "Deletion of requested share groups ('workers') was successful.\n"
    assert "Group 'workers' is not a share group." in tool("share_groups", "--delete", "--group", "workers")


def test_groups_are_listed_described_reset_and_deleted(tool: Tool, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    tool("topics", "--create", "--topic", "read", "--partitions", "2")
    produce(cluster, "read", 20, partitions=2)
    commit(cluster, "readers", ("read", 0, 3), ("read", 1, 4))
    assert "readers" in tool("consumer_groups", "--list").splitlines()
    assert tool("consumer_groups", "--list", "--state", "empty").splitlines()[0].split() == ["GROUP", "STATE"]
    rows = [
        line.split()[:6] for line in tool("consumer_groups", "--describe", "--group", "readers").splitlines() if line.startswith("readers")
    ]
    assert rows == [["readers", "read", "0", "3", "10", "7"], ["readers", "read", "1", "4", "10", "6"]]
    (described,) = json.loads(tool("consumer_groups", "--describe", "--group", "readers", "--json"))
    assert [(row["partition"], row["currentOffset"], row["lag"]) for row in described["offsets"]] == [(0, 3, 7), (1, 4, 6)]

    def reset(*arguments: str) -> dict[int, int]:
        planned = tool("consumer_groups", "--reset-offsets", "--group", "readers", *arguments, "--json")
        return {row["partition"]: row["newOffset"] for row in json.loads(planned)}

    assert reset("--all-topics", "--to-latest", "--dry-run") == {0: 10, 1: 10}
    assert reset("--all-topics", "--shift-by", "-2", "--dry-run") == {0: 1, 1: 2}
    assert reset("--topic", "read:1", "--to-offset", "99", "--dry-run") == {1: 10}
    assert reset("--all-topics", "--by-duration", "PT1H", "--dry-run") == {0: 0, 1: 0}
    plan = tmp_path / "plan.csv"
    plan.write_text(
        tool("consumer_groups", "--reset-offsets", "--group", "readers", "--all-topics", "--to-current", "--dry-run", "--export")
    )
    assert reset("--topic", "read", "--to-earliest", "--execute") == {0: 0, 1: 0}
    assert reset("--from-file", str(plan), "--execute") == {0: 3, 1: 4}
    deleted = tool("consumer_groups", "--delete-offsets", "--group", "readers", "--topic", "read:0")
    assert deleted.startswith("Request succeeded for deleting offsets from group readers.\n")
    (described,) = json.loads(tool("consumer_groups", "--describe", "--group", "readers", "--json"))
    assert [row["partition"] for row in described["offsets"]] == [1]
    assert (
        tool("consumer_groups", "--delete", "--group", "readers") == "Deletion of requested consumer groups ('readers') was successful.\n"
    )
    gone = tool("consumer_groups", "--describe", "--group", "readers")
    assert gone.startswith(
        "\nError: Executing consumer group command failed due to org.apache.kafka.common.errors.GroupIdNotFoundException"
    )
    assert tool("consumer_groups", "--validate-regex", "a(?=b)", bootstrap=False).endswith(
        "is invalid: invalid or unsupported Perl syntax.\n"
    )


def test_members_are_described_and_a_group_with_members_is_not_reset(tool: Tool, cluster: EmbeddedCluster) -> None:
    tool("topics", "--create", "--topic", "shared", "--partitions", "2")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "alive", "client.id": "me", "group.instance.id": "i1"})
    consumer.subscribe(["shared"])
    while not consumer.assignment():
        consumer.poll(0.1)
    row = tool("consumer_groups", "--describe", "--group", "alive", "--members", "--verbose").splitlines()[2].split()
    assert (row[0], row[2], row[4], row[5], row[7]) == ("alive", "i1", "me", "2", "shared:0,1")
    assert tool("consumer_groups", "--describe", "--group", "alive", "--state").splitlines()[2].split()[-2:] == ["Stable", "1"]
    refused = tool("consumer_groups", "--reset-offsets", "--group", "alive", "--topic", "shared", "--to-earliest", "--execute")
    assert "Assignments can only be reset if the group 'alive' is inactive, but the current state is Stable." in refused
    consumer.close()


def test_records_are_deleted_and_offsets_found(tool: Tool, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    tool("topics", "--create", "--topic", "cut", "--partitions", "2")
    produce(cluster, "cut", 10, partitions=2)
    file = written(tmp_path, {"partitions": [{"topic": "cut", "partition": 0, "offset": 3}, {"topic": "no", "partition": 0, "offset": 1}]})
    assert tool("delete_records", "--offset-json-file", file).splitlines()[2:] == [
        "partition: cut-0\tlow_watermark: 3",
        "partition: no-0\terror: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
        "This server does not host this topic-partition.",
    ]
    assert tool("get_offsets", "--topic", "cut", "--time", "-2") == "cut:0:3\ncut:1:0\n"
    assert tool("get_offsets", "--topic-partitions", "cut:1") == "cut:1:5\n"
    assert json.loads(tool("get_offsets", "--topic", "cut", "--partitions", "0", "--json")) == [
        {"topic": "cut", "partition": 0, "offset": 5}
    ]


def test_partitions_are_reassigned_and_leaders_elected(tool: Tool, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    tool("topics", "--create", "--topic", "moved", "--replica-assignment", "1:2")
    produce(cluster, "moved", 10)
    file = written(tmp_path, {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [2, 3]}]})
    begun = tool("reassign_partitions", "--execute", "--reassignment-json-file", file, "--throttle", "10000000")
    before = json.loads(next(line for line in begun.splitlines() if line.startswith("{")))
    assert before["partitions"][0]["replicas"] == [1, 2] and before["partitions"][0]["log_dirs"][0] == str(cluster.log_dir(0))
    assert begun.endswith("Successfully started partition reassignment for moved-0\n")
    for _ in range(300):
        verified = tool("reassign_partitions", "--verify", "--reassignment-json-file", file)
        if "is completed" in verified and "Clearing" in verified:
            break
    assert "Clearing topic-level throttles on topic moved" in verified
    assert tool("reassign_partitions", "--list") == "No partition reassignments found.\n"
    assert "throttled" not in tool("configs", "--describe", "--topic", "moved")
    (described,) = json.loads(tool("topics", "--describe", "--topic", "moved", "--json"))
    assert described["partitions"][0]["replicas"] == [2, 3]
    result = json.loads(tool("leader_election", "--election-type", "preferred", "--topic", "moved", "--partition", "0", "--json"))
    assert result["failed"] == {} and result["elected"] + result["notNeeded"] == ["moved-0"]


def test_the_cluster_and_its_nodes_are_shown(tool: Tool, cluster: EmbeddedCluster) -> None:
    assert tool("cluster", "cluster-id") == f"Cluster ID: {cluster.cluster_id}\n"
    assert [row["id"] for row in json.loads(tool("cluster", "list-endpoints", "--json"))] == [1, 2, 3]
    status = dict(line.split(":", 1) for line in tool("metadata_quorum", "describe", "--status").splitlines())
    assert status["LeaderId"].strip() == "1" and status["ClusterId"].strip() == cluster.cluster_id
    assert tool("metadata_quorum", "describe", "--replication").splitlines()[1].split()[-1] == "Leader"
    assert {row["id"] for row in json.loads(tool("broker_api_versions", "--json"))} == {1, 2, 3}
    assert tool("broker_api_versions").count("\tProduce(0): ") == 3
    directories = json.loads(tool("log_dirs", "--describe", "--json"))
    assert [row["logDirs"][0]["logDir"] for row in directories["brokers"]] == [str(cluster.log_dir(index)) for index in range(3)]
    levels = {row["feature"]: row["finalizedVersionLevel"] for row in json.loads(tool("features", "describe", "--json"))["features"]}
    assert levels["metadata.version"] == "4.3-IV0"
    refused = tool("features", "upgrade", "--feature", "nope=1", code=1)
    assert refused.splitlines()[-1] == "1 out of 1 operation(s) failed."


def test_lines_go_in_and_come_out(
    capfdbinary: pytest.CaptureFixture[bytes], cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kmirror.cli import console_consumer, console_producer

    connection = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", "lines"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("k1|v1\nk2|v2\n"))
    reader = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    assert console_producer.main([*connection, *reader, "--compression-codec", "zstd"]) == 0
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    assert console_consumer.main([*connection, *shown, "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000"]) == 0
    captured = capfdbinary.readouterr()
    assert captured.out == b"k1:v1\nk2:v2\n" and captured.err == b"Processed a total of 2 messages\n"
    assert console_consumer.main([*connection, "--partition", "0", "--offset", "1", "--max-messages", "1", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["value"] == "v2"


def test_a_cluster_that_is_not_there_is_one_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from kmirror.cli import tool_client, topics

    monkeypatch.setattr(tool_client, "FIRST_CONTACT_MS", 150)

    assert topics.main(["--bootstrap-server", "127.0.0.1:1", "--list"]) == 1
    captured = capfd.readouterr()
    assert captured.out.startswith("Error while executing topic command : no broker could be reached: ") and captured.out.count("\n") == 1
    assert topics.main(["--bootstrap-server", "nowhere", "--list"]) == 1
    assert capfd.readouterr().out == "Error while executing topic command : 'nowhere' is not host:port\n"


def test_settings_of_the_command_config_are_used(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A tool of a user logs in as that user; without its password it does not get in."""
    from kmirror.cli import topics
    from kmirror.embedded_security import Security

    with EmbeddedCluster(security=Security.sasl_plaintext({"alice": "alice-secret"}, mechanism="PLAIN")) as secured:
        file = tmp_path / "alice.properties"
        properties = secured.client_properties("alice", style="java")
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        arguments = ["--bootstrap-server", secured.bootstrap_servers, "--command-config", str(file), "--create", "--topic", "t"]
        assert topics.main(arguments) == 0
        assert capfd.readouterr().out == "Created topic t.\n"
        file.write_text(file.read_text().replace("alice-secret", "guess"))
        assert topics.main(arguments) == 1
        assert "Authentication failed" in capfd.readouterr().out
