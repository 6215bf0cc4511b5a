"""What the `kafka-*` tools compute without a cluster: names, orders, tables, plans, files."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from kmirror.admin.cluster import QuorumInfo, QuorumReplica
from kmirror.admin.reassignments import PartitionReassignment
from kmirror.admin.results import ConfigEntry, ConfigSource, Node, PartitionDescription, TopicDescription
from kmirror.cli import configs_actions, topics
from kmirror.cli.acls_actions import parse_operation
from kmirror.cli.broker_api_versions import usable
from kmirror.cli.configs import main as configs_main
from kmirror.cli.configs_quotas import java_double
from kmirror.cli.delete_records import parse_offsets
from kmirror.cli.feature_versions import feature_dependencies, version_mapping
from kmirror.cli.get_offsets import parse_rule, parse_time
from kmirror.cli.java_names import java_exception_name
from kmirror.cli.leader_election import parse_partitions as parse_election
from kmirror.cli.metadata_quorum import status_text
from kmirror.cli.reassign_partitions_plans import (
    Move,
    alternate_racks,
    check_plan,
    parse_generate,
    parse_plan,
    propose,
    proposed_moves,
    reassignment_json,
    throttled_replicas,
)
from kmirror.cli.tool_options import CommandError
from kmirror.cli.topics_actions import TopicReport, matching, parse_configs, parse_replica_assignment
from kmirror.common.acl import AclOperation
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

TOPIC_ID = Uuid(bytes(range(16)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (50.0, "50.0"),
        (1048576.0, "1048576.0"),
        (12345678.0, "1.2345678E7"),
        (1e8, "1.0E8"),
        (0.0001, "1.0E-4"),
        (0.25, "0.25"),
        (0.0, "0.0"),
    ],
)
def test_doubles_are_printed_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


def test_exceptions_have_javas_names() -> None:
    prefix = "org.apache.kafka.common.errors."
    assert java_exception_name(Errors.UNKNOWN_TOPIC_OR_PARTITION) == f"{prefix}UnknownTopicOrPartitionException"
    assert java_exception_name(Errors.NON_EMPTY_GROUP) == f"{prefix}GroupNotEmptyException"
    assert java_exception_name(Errors.TOPIC_AUTHORIZATION_FAILED) == f"{prefix}TopicAuthorizationException"


def test_topics_match_whole_names_and_lists() -> None:
    names = ["a", "ab", "b", "__consumer_offsets"]
    assert matching("a", names) == ["a"]
    assert matching("a.*, b", names) == ["a", "ab", "b"]
    assert matching('"a|b"', names) == ["a", "b"]
    assert matching(".*", names, exclude_internal=True) == ["a", "ab", "b"]
    assert matching(".*", ["__mirror_state", "__share_group_state", "__transaction_state"], exclude_internal=True) == []
    with pytest.raises(KmirrorError, match=r"^\[ is an invalid regex\.$"):
        matching("[", names)


def test_replica_assignments_are_checked() -> None:
    assert parse_replica_assignment("1:2, 2:3") == [[1, 2], [2, 3]]
    assert parse_replica_assignment(None) == []
    with pytest.raises(KmirrorError, match="duplicate entries: 1$"):
        parse_replica_assignment("1:1")
    with pytest.raises(KmirrorError, match=r"^Partition 1 has different replication factor: \[1, 2\]$"):
        parse_replica_assignment("1,1:2")


def test_configs_of_topics_are_pairs() -> None:
    assert parse_configs(["a=b", "c = d "]) == {"a": "b", "c": "d"}
    with pytest.raises(KmirrorError, match='format "key=val"'):
        parse_configs(["a"])


def described(*partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription("t", TOPIC_ID, is_internal=False, partitions=list(partitions))


def report(arguments: str, moves: dict[TopicPartition, PartitionReassignment] | None = None) -> TopicReport:
    options = topics.build_parser().parse(["--describe", *arguments.split()])
    return TopicReport(options, live={1, 2}, moves=moves or {})


CONFIGS = [ConfigEntry("min.insync.replicas", "2", 5, is_default=True), ConfigEntry("retention.ms", "5", 1)]


def test_a_topic_is_described_with_its_reassignment_and_its_elr() -> None:
    moving = PartitionReassignment([1, 2, 3], [3], [1])
    topic = described(PartitionDescription(0, 1, 4, [1, 2, 3], [1, 2], [3], []), PartitionDescription(1, -1, 4, [2], []))
    assert report("", {TopicPartition("t", 0): moving}).lines(topic, CONFIGS) == [
        f"Topic: t\tTopicId: {TOPIC_ID}\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: retention.ms=5",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: 1\tElr: 3\tLastKnownElr: ",
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 2\tIsr: \tElr: N/A\tLastKnownElr: N/A",
    ]


@pytest.mark.parametrize(
    ("option", "partitions"),
    [
        ("--under-replicated-partitions", [1, 2]),
        ("--unavailable-partitions", [2, 3]),
        ("--under-min-isr-partitions", [1, 2]),
        ("--at-min-isr-partitions", [0, 3]),
    ],
)
def test_reports_show_the_partitions_concerned(option: str, partitions: list[int]) -> None:
    rows = [
        PartitionDescription(0, 1, 0, [1, 2], [1, 2]),
        PartitionDescription(1, 1, 0, [1, 2], [1]),
        PartitionDescription(2, -1, 0, [1, 2], []),
        PartitionDescription(3, 9, 0, [9, 2], [9, 2]),
    ]
    lines = report(option).lines(described(*rows), CONFIGS)
    assert [int(line.split("Partition: ")[1].split("\t")[0]) for line in lines] == partitions


def test_configs_to_add_may_hold_lists_in_brackets() -> None:
    class Options:
        add_config_file = None
        add_config = "cleanup.policy=[compact,delete], a.b = c,SCRAM-SHA-256=[iterations=8192,password=x]"

    assert configs_actions.configs_to_add(Options()) == {  # type: ignore[arg-type]
        "cleanup.policy": "compact,delete",
        "a.b": "c",
        "SCRAM-SHA-256": "iterations=8192,password=x",
    }
    Options.add_config = "a b=1"
    with pytest.raises(KmirrorError, match="Invalid character found for config key: a b"):
        configs_actions.configs_to_add(Options())  # type: ignore[arg-type]


def test_operations_are_read_in_any_case() -> None:
    assert parse_operation(" describeConfigs") is AclOperation.DESCRIBE_CONFIGS
    assert parse_operation("TWO_PHASE_COMMIT") is AclOperation.TWO_PHASE_COMMIT
    assert parse_operation("fly") is AclOperation.UNKNOWN


def test_a_plan_is_read_with_its_directories() -> None:
    text = json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]}]})
    plan = parse_plan(text)
    assert plan.partitions == [(TopicPartition("t", 0), [1, 2])] and plan.log_dirs == {(TopicPartition("t", 0), 2): "/d"}
    assert parse_plan(reassignment_json(dict(plan.partitions), plan.log_dirs)) == plan


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([("t", 0, [])], "Partition replica list cannot be empty"),
        ([("t", 0, [1]), ("t", 0, [2])], "Partition reassignment contains duplicate topic partitions: t-0"),
        ([("t", 0, [2, 2])], "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 2"),
    ],
)
def test_plans_that_cannot_be_carried_out_are_refused(partitions: list[tuple[str, int, list[int]]], text: str) -> None:
    rows = [{"topic": topic, "partition": partition, "replicas": replicas} for topic, partition, replicas in partitions]
    with pytest.raises(KmirrorError) as caught:
        check_plan(parse_plan(json.dumps({"partitions": rows})))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"replicas": 1}, "Expected a list of broker ids"),
        ({"replicas": [1], "log_dirs": 7}, "Expected a list of paths"),
        ({}, "No such field exists"),
    ],
)
def test_a_plan_that_makes_no_sense_is_one_line(row: dict[str, object], words: str) -> None:
    """A number for `log_dirs` was a traceback."""
    with pytest.raises(KmirrorError, match=words):
        parse_plan(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, **row}]}))


def test_a_proposal_spreads_replicas_over_brokers_and_racks() -> None:
    brokers = [Node(broker, "h", 1, rack) for broker, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"))]
    assert alternate_racks(brokers) == [1, 3, 2, 4]
    current = {TopicPartition("t", partition): [1, 2] for partition in range(8)}
    for start in range(4):
        proposed = propose(current, brokers, lambda stop, start=start: start % stop)
        racks = {1: "a", 2: "a", 3: "b", 4: "b"}
        assert all(len({racks[broker] for broker in replicas}) == 2 for replicas in proposed.values())
        firsts = [replicas[0] for replicas in proposed.values()]
        assert all(firsts.count(broker) == 2 for broker in racks)
    with pytest.raises(KmirrorError, match="The target replication factor of 2 cannot be reached because only 1 broker"):
        propose(current, brokers[:1], lambda stop: 0)


def test_generate_takes_each_broker_and_topic_once() -> None:
    assert parse_generate('{"topics": [{"topic": "t"}], "version": 1}', "1,2") == ([1, 2], ["t"])
    with pytest.raises(KmirrorError, match=r"Broker list contains duplicate entries: \[1\]"):
        parse_generate('{"topics": []}', "1,1")
    with pytest.raises(KmirrorError, match=r"List of topics to reassign contains duplicate entries: \[t\]"):
        parse_generate('{"topics": [{"topic": "t"}, {"topic": "t"}]}', "1")


def test_throttled_are_the_present_replicas_as_leaders_and_the_new_ones_as_followers() -> None:
    ongoing = {TopicPartition("t", 1): PartitionReassignment([1, 2, 3], [3], [1])}
    moves = proposed_moves(ongoing, {TopicPartition("t", 0): [2, 3], TopicPartition("t", 1): [4]}, {TopicPartition("t", 0): [1, 2]})
    assert moves == {
        TopicPartition("t", 0): Move(frozenset({1, 2}), frozenset({3})),
        TopicPartition("t", 1): Move(frozenset({1, 2}), frozenset({4})),
    }
    assert throttled_replicas(moves) == {"t": ("0:1,0:2,1:1,1:2", "0:3,1:4")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "Missing partitions field"),
        ("[", "The input string is not a valid JSON"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "No such field exists: `offset`"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 1}, {"topic": "t", "partition": 0, "offset": 1}]}',
            "Offset json file contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_files_of_kafka_delete_records_are_checked(text: str, reason: str) -> None:
    with pytest.raises(KmirrorError) as caught:
        parse_offsets(text)
    assert str(caught.value) == reason


def test_files_of_kafka_leader_election_are_checked() -> None:
    assert parse_election('{"partitions": [{"topic": "t", "partition": 1}]}') == [TopicPartition("t", 1)]
    with pytest.raises(KmirrorError, match=r"duplicate partitions: \[t-1\]"):
        parse_election('{"partitions": [{"topic": "t", "partition": 1}, {"topic": "t", "partition": 1}]}')


def test_times_and_rules_of_kafka_get_offsets() -> None:
    assert [parse_time(text) for text in ("latest", "-2", "max-timestamp", "1700000000000")] == [-1, -2, -3, 1_700_000_000_000]
    with pytest.raises(KmirrorError, match="^Malformed time argument soon. Please use -1 or latest"):
        parse_time("soon")

    def chosen(rule: str) -> list[tuple[str, int]]:
        matches = parse_rule(rule, lambda pattern, topic: bool(matching(pattern, [topic])))
        return [(topic, partition) for topic in ("a", "b") for partition in range(4) if matches(topic, partition)]

    assert chosen("a:1") == [("a", 1)]
    assert chosen(":3") == [("a", 3), ("b", 3)]
    assert chosen("a:1-3") == [("a", 1), ("a", 2)]
    assert chosen("b:2-") == [("b", 2), ("b", 3)]
    assert chosen("b:-1") == [("b", 0)]
    with pytest.raises(KmirrorError, match="Invalid rule specification: a:x"):
        chosen("a:x")


def test_versions_and_dependencies_of_features() -> None:
    assert version_mapping("4.0-IV3")[:3] == ["metadata.version=25 (4.0-IV3)", "kraft.version=1", "transaction.version=2"]
    assert version_mapping(None)[0] == "metadata.version=30 (4.3-IV0)"
    assert feature_dependencies(["eligible.leader.replicas.version=1"]) == [
        "eligible.leader.replicas.version=1 requires:",
        "    metadata.version=23 (4.0-IV1)",
    ]
    for text, reason in (("foo=1", "Unknown feature: foo"), ("group.version=9", "No feature:group.version with feature level 9")):
        with pytest.raises(CommandError, match=reason):
            feature_dependencies([text])


def test_the_usable_version_is_the_highest_that_both_know() -> None:
    assert usable((0, 13), (3, 11)) == 11
    assert usable((12, 13), (3, 11)) is None


class AuthorizedForMirrorsAlone:
    """Nothing on the cluster, DescribeConfigs on mirror `m`, Describe on it where it is `seen`."""

    def __init__(self, *seen: str) -> None:
        self._seen = seen

    async def list_config_resources(self, kind: object) -> list[Any]:
        raise ApiException(Errors.CLUSTER_AUTHORIZATION_FAILED)

    async def list_mirrors(self) -> list[Any]:
        return [SimpleNamespace(mirror_name=name) for name in self._seen]

    async def describe_configs(self, kind: object, name: str, *, include_synonyms: bool) -> list[ConfigEntry]:
        if name != "m":
            raise ApiException(Errors.MIRROR_AUTHORIZATION_FAILED)
        return [ConfigEntry("bootstrap.servers", "a:1", ConfigSource.DYNAMIC_BROKER_CONFIG)]


@pytest.mark.parametrize(
    ("admin", "arguments", "printed"),
    [
        (AuthorizedForMirrorsAlone("m"), [], "Dynamic configs for mirror m are:\n"),
        (AuthorizedForMirrorsAlone(), ["--entity-name", "m"], "Dynamic configs for mirror m are:\n"),
        (AuthorizedForMirrorsAlone(), [], ""),
        (AuthorizedForMirrorsAlone("m"), ["--entity-name", "other"], "Mirror authorization failed\n"),
    ],
)
def test_configs_of_mirrors_needed_a_permission_on_the_cluster(
    admin: Any, arguments: list[str], printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DescribeConfigs on the mirror is enough (ACL23, ACL35)."""
    monkeypatch.setattr(configs_actions, "with_admin", lambda servers, config, work, *, controllers: asyncio.run(work(admin)))
    failed = configs_main(["--bootstrap-server", "b:1", "--entity-type", "mirrors", "--describe", *arguments])
    captured = capsys.readouterr()
    assert printed in (captured.err if failed else captured.out) and bool(failed) == ("other" in arguments)
    assert printed or not captured.out


def test_endpoints_of_voters_are_shown_as_kafka_shows_them() -> None:
    """Kafka's `RaftVoterEndpoint` puts brackets around IPv6 addresses."""
    voters = [QuorumReplica(node, Uuid.ZERO, 5, -1, -1) for node in (1, 2)]
    endpoints = {1: [("CONTROLLER", "::1", 9093)], 2: [("CONTROLLER", "c2.example", 9093)]}
    shown = status_text("id", QuorumInfo(1, 1, 5, voters, [], endpoints)).splitlines()[-2]
    assert '"endpoints": ["CONTROLLER://[::1]:9093"]' in shown and '"endpoints": ["CONTROLLER://c2.example:9093"]' in shown
