"""Java's KIP-848 consumer and its classic one in the same groups, with librdkafka beside them, on
three brokers; and Kafka's own group tool.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.peers.apache_tools import GROUPS, ApacheTools, apache_tools
from support.peers.peers import java_tool, start_java_program
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "programs" / "GroupConsumers.java"
CONFIG = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}
WAIT_S = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, config=CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    with apache_tools(tmp_path_factory.mktemp("tools")) as running:
        yield running


def create_and_fill(cluster: EmbeddedCluster, topic: str, partitions: int, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(REACHED_S)
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, str(number), partition=number % partitions)
    assert producer.flush(REACHED_S) == 0


class Members:
    """The Java program that holds the members of one group."""

    def __init__(self, process: object, log: pathlib.Path) -> None:
        self._process = process
        self._log = log

    def say(self, line: str) -> None:
        self._process.stdin.write(line + "\n")  # type: ignore[attr-defined]
        self._process.stdin.flush()  # type: ignore[attr-defined]

    def lines(self) -> list[list[str]]:
        return [line.split(" ") for line in self._log.read_text().splitlines()]

    def assignments(self) -> dict[str, set[str]]:
        """What each open member has now."""
        found: dict[str, set[str]] = {}
        for words in self.lines():
            if words[0] == "assignment":
                found[words[1]] = set(filter(None, words[2].split(","))) if len(words) > 2 else set()
            elif words[0] in ("closed", "error"):
                found.pop(words[1], None)
        return found

    def records(self) -> list[tuple[str, ...]]:
        return [tuple(words[2:5]) for words in self.lines() if words[0] == "record"]


@contextmanager
def members(cluster: EmbeddedCluster, group: str, folder: pathlib.Path) -> Iterator[Members]:
    log = folder / f"{group}.txt"
    with start_java_program(PROGRAM, cluster.bootstrap_servers, group, log=log) as process:
        yield Members(process, log)


def wait_for(condition: Callable[[], bool], members: Members, *consumers: ck.Consumer) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        for consumer in consumers:
            consumer.poll(0.05)
        time.sleep(0.05)
        assert time.monotonic() < deadline, members._log.read_text()


def test_java_kip_848_consumers_share_a_topic_commit_and_go_on_after_each_other(cluster, tools, tmp_path) -> None:
    create_and_fill(cluster, "kip848", 4, 400)
    with members(cluster, "java-848", tmp_path) as java:
        java.say("open a consumer kip848")
        wait_for(lambda: len(java.records()) == 400, java)
        java.say("open b consumer re:kip8.* instance-b")
        wait_for(lambda: [len(each) for each in java.assignments().values()] == [2, 2], java)
        described = tools.run(
            GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--group", "java-848", "--members", "--verbose"
        )
        assert described.code == 0 and described.out.count("java-848") == 2 and "instance-b" in described.out, described
        state = tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--group", "java-848", "--state").out
        assert "Stable" in state and "uniform" in state
        listed = tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--list", "--type", "consumer").out
        assert "java-848" in listed.split()
        java.say("close b")
        wait_for(lambda: [len(each) for each in java.assignments().values()] == [2], java)  # a static member's partitions wait for it
        java.say("open c consumer kip848 instance-b")
        wait_for(lambda: [len(each) for each in java.assignments().values()] == [2, 2], java)
    assert len(set(java.records())) == 400
    offsets = tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--describe", "--group", "java-848", "--offsets").out
    assert offsets.count("kip848") == 4 and [row.split()[5] for row in offsets.splitlines() if "kip848" in row] == ["0"] * 4


def test_a_group_moves_from_classic_to_consumer_and_back_under_live_members(cluster, tmp_path) -> None:
    """Rolling restarts in both directions; librdkafka stays in the group all the time as a classic
    member (its sticky assignor puts user data into assignments, with which Kafka refuses the
    upgrade, and so do we).
    """
    create_and_fill(cluster, "moving", 6, 60)
    classic = ck.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "moving",
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 6000,
            "auto.offset.reset": "earliest",
        }
    )
    classic.subscribe(["moving"])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def kind() -> str:
        return str(admin.describe_consumer_groups(["moving"])["moving"].result(REACHED_S).type)

    with members(cluster, "moving", tmp_path) as java:

        def shared(count: int) -> bool:
            assigned = [*java.assignments().values(), {f"moving-{each.partition}" for each in classic.assignment()}]
            return len(assigned) == count and all(assigned) and sum(map(len, assigned)) == len(set().union(*assigned)) == 6

        java.say("open a classic moving")
        wait_for(lambda: shared(2), java, classic)
        assert kind().endswith("CLASSIC")
        java.say("open b consumer moving")
        wait_for(lambda: shared(3), java, classic)
        assert kind().endswith("CONSUMER")
        java.say("close a")
        wait_for(lambda: shared(2), java, classic)
        java.say("close b")
        wait_for(lambda: kind().endswith("CLASSIC") and len(classic.assignment()) == 6, java, classic)
        java.say("open d classic moving")
        wait_for(lambda: shared(2), java, classic)
        classic.close()
        wait_for(lambda: [len(each) for each in java.assignments().values()] == [6], java)


def test_apaches_tool_resets_deletes_and_reads_what_we_stored(cluster, tools, tmp_path) -> None:
    create_and_fill(cluster, "admin", 2, 20)
    with members(cluster, "tooled", tmp_path) as java:
        java.say("open a consumer admin")
        wait_for(lambda: len(java.records()) == 20, java)
        busy = tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--delete", "--group", "tooled")
        assert "not empty" in busy.out + busy.err or "NonEmptyGroup" in busy.out + busy.err, busy
    arguments = ("--bootstrap-server", cluster.bootstrap_servers, "--group", "tooled")
    reset = tools.run(GROUPS, *arguments, "--reset-offsets", "--to-earliest", "--topic", "admin", "--execute")
    assert reset.code == 0 and reset.out.count("admin") == 2, reset
    deleted = tools.run(GROUPS, *arguments, "--delete-offsets", "--topic", "admin:0")
    assert "Request succeed" in deleted.out, deleted
    gone = tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--delete", "--group", "tooled")
    assert "was successful" in gone.out, gone
    assert "tooled" not in tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap_servers, "--list").out.split()


def test_kafka_dump_log_decodes_every_record_of_our_groups(cluster, tmp_path) -> None:
    create_and_fill(cluster, "dumped", 2, 4)
    with members(cluster, "dumped", tmp_path) as java:
        java.say("open a consumer re:dump.* inst")
        wait_for(lambda: len(java.records()) == 4, java)
        java.say("open b classic dumped")
        wait_for(lambda: [len(each) for each in java.assignments().values()] == [1, 1], java)
    logs = sorted(cluster.folder.rglob("__consumer_offsets-*/*.log"))
    done = java_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, logs)))
    assert done.returncode == 0, done.stderr
    dump = done.stdout
    ours = [line for line in dump.splitlines() if '"groupId":"dumped"' in line]
    kinds = {line.split('"type":"')[1].split('"')[0] for line in ours}
    assert {"3", "5", "6", "7", "8", "16"} <= kinds, kinds
    assert '"subscribedTopicRegex":"dump.*"' in dump and '"classicMemberMetadata":{"sessionTimeoutMs":6000' in dump
