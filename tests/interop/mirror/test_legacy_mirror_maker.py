"""`kafka-mirror-maker` beside `kafka.tools.MirrorMaker` of Kafka 3.9: one workload through both, into
a target each; what comes over, what is committed, and how both end.
"""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from support.mirrors.legacy_mirror_maker import QUICK, MirrorMakerChild, committed, mirror_maker, mirrored, records_of, two_clusters, values
from support.mirrors.mirror_harness import call, create_topic, numbered, produce, produce_transactions, quiet, wait_for
from support.peers.peer_clusters import PeerCluster, _log4j_1, kafka_cluster
from support.peers.peers import TOOL_JVM, java, kafka_classpath
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.groups import OffsetAndMetadata
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition

pytestmark = pytest.mark.interop
VERSION = "3.9.1"
ONE_REPLICA = {"offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1", "default.replication.factor": "1"}
TOPICS = {"orders": 3, "notes": 1, "money": 1}
INCLUDE = " 'orders, notes,mon[e]y' "


class ApacheMirrorMaker:
    """One running MirrorMaker of Apache's."""

    def __init__(self, folder: pathlib.Path, source: str, target: str, *arguments: str, producer: str = "", consumer: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        consumer_file, producer_file, self._log = folder / "consumer", folder / "producer", folder / "log"
        consumer_file.write_text(f"bootstrap.servers={source}\ngroup.id=apache\nauto.offset.reset=earliest\n{consumer}\n")
        producer_file.write_text(f"bootstrap.servers={target}\n{producer}\n")
        command = [
            *(java(), *TOOL_JVM, _log4j_1(folder), "-cp", kafka_classpath(VERSION), "kafka.tools.MirrorMaker"),
            *("--consumer.config", str(consumer_file), "--producer.config", str(producer_file), *arguments),
        ]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(REACHED_S)


@contextmanager
def apache_mirror_maker(folder: pathlib.Path, source: str, target: str, *arguments: str, **files: str) -> Iterator[ApacheMirrorMaker]:
    """`files` are what the consumer's and the producer's have besides."""
    made = ApacheMirrorMaker(folder, source, target, *arguments, **files)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(REACHED_S)


@pytest.fixture
def apache(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[PeerCluster]:
    with kafka_cluster(tmp_path / "apache", getattr(request, "param", VERSION), nodes=1, properties=ONE_REPLICA) as cluster:
        yield cluster


def fill(servers: str) -> None:
    """All codecs, headers, nulls and tombstones; keys where Java's producers put them; committed
    and aborted transactions.
    """
    for topic, partitions in TOPICS.items():
        create_topic(servers, topic, partitions)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(quiet({"bootstrap.servers": servers, "compression.type": codec, "partitioner": "murmur2", "linger.ms": 20}))
        for index in range(300):
            stamp = 1_700_000_000_000 + 1_000 * number + index
            headers = [("codec", codec.encode()), ("null", None)] if index % 3 == 0 else None
            value = None if index % 10 == 0 else b"%s %d" % (codec.encode(), index)
            producer.produce("orders", value, key=b"key-%d" % (index % 17), headers=headers, timestamp=stamp)
            producer.produce("notes", b"note %s %d" % (codec.encode(), index), headers=headers, timestamp=stamp)
        assert producer.flush(REACHED_S) == 0
    produce_transactions(servers, "money")


def by_partition(cluster: EmbeddedCluster) -> dict[str, list]:
    return {f"{topic}-{number}": mirrored(cluster, topic, number) for topic, count in TOPICS.items() for number in range(count)}


def count(cluster: EmbeddedCluster) -> int:
    return sum(map(len, by_partition(cluster).values()))


@pytest.mark.parametrize("apache", [VERSION, "2.8.2"], indirect=True)
def test_both_mirror_the_same_records_in_the_same_order_and_commit_the_same_offsets(tmp_path: pathlib.Path, apache: PeerCluster) -> None:
    servers = apache.bootstrap_servers
    fill(servers)
    sent = {f"{topic}-{n}": records_of(apache.log_bytes(f"{topic}-{n}")) for topic, count in TOPICS.items() for n in range(count)}
    total = sum(map(len, sent.values()))
    assert total == 5 * 600 + 90
    with two_clusters() as (theirs, ours):
        for cluster in (theirs, ours):
            for topic, partitions in TOPICS.items():
                create_topic(cluster.bootstrap_servers, topic, partitions)
        options = ("--include", INCLUDE, "--num.streams", "2", "--offset.commit.interval.ms", "500")
        with apache_mirror_maker(tmp_path / "theirs", servers, theirs.bootstrap_servers, *options) as their_tool:
            wait_for("Apache's MirrorMaker", lambda: count(theirs) == total)
            assert their_tool.stop() == 143
        child = MirrorMakerChild(tmp_path / "ours", servers, ours.bootstrap_servers, "--num.streams", "2", include=INCLUDE)
        try:
            wait_for("our MirrorMaker", lambda: count(ours) == total)
            assert child.stop() == 143, child.log
        finally:
            child.kill()
        assert by_partition(ours) == by_partition(theirs) == sent
        assert committed(servers, "mm") == committed(servers, "apache") != {}


def test_what_ours_sends_to_a_broker_of_apaches_is_what_was_read(tmp_path: pathlib.Path, apache: PeerCluster) -> None:
    with EmbeddedCluster() as source:
        fill(source.bootstrap_servers)
        for topic, partitions in TOPICS.items():
            create_topic(apache.bootstrap_servers, topic, partitions)
        producer = ["compression.type=zstd"]
        child = MirrorMakerChild(tmp_path / "ours", source.bootstrap_servers, apache.bootstrap_servers, include=INCLUDE, producer=producer)

        def came() -> dict[str, list]:
            return {name: records_of(apache.log_bytes(name)) for name in by_partition(source)}

        try:
            wait_for("every record", lambda: came() == by_partition(source))
            assert child.stop(signal.SIGINT) == 130, child.log
        finally:
            child.kill()


@pytest.mark.parametrize(("aborts", "code"), [("true", 255), ("false", 143)])
def test_both_end_alike_when_a_record_is_too_large_for_the_target(tmp_path: pathlib.Path, aborts: str, code: int) -> None:
    with two_clusters() as (source, theirs), EmbeddedCluster() as ours:
        produce(source.bootstrap_servers, "orders", ["small", "x" * 5_000, *numbered("v", 20)], batch=1)
        option = ("--abort.on.send.failure", aborts)
        limit = "max.request.size=2000"
        interval_ms = 60_000 if aborts == "true" else 500
        arguments = (*option, "--include", "orders", "--offset.commit.interval.ms", str(interval_ms))
        with (
            apache_mirror_maker(
                tmp_path / "t", source.bootstrap_servers, theirs.bootstrap_servers, *arguments, producer=limit
            ) as their_tool,
            mirror_maker(tmp_path / "o", source, ours, *option, interval_ms=interval_ms, producer=[limit]) as child,
        ):
            if aborts == "true":
                ends = their_tool.process.wait(REACHED_S), child.wait_ended()
            else:
                wait_for("both", lambda: len(values(theirs, "orders")) == len(values(ours, "orders")) == 21)
                ends = their_tool.stop(), child.stop()
            assert ends == (code, code)
            assert "Error when sending message to topic orders with key: 2 bytes, value: 5000 bytes with error" in their_tool.log
            assert "Error when sending message to topic orders with key: 2 bytes, value: 5000 bytes with error" in child.log
        if aborts == "true":
            assert committed(source.bootstrap_servers, "mm") == committed(source.bootstrap_servers, "apache") == {}
        else:
            assert (
                values(theirs, "orders")
                == values(ours, "orders")
                == [value for value in values(source, "orders") if len(value or b"") < 5_000]
            )
            assert committed(source.bootstrap_servers, "mm") == committed(source.bootstrap_servers, "apache") != {}


@pytest.mark.parametrize("policy", ["latest", "none"])
def test_both_go_on_or_end_alike_when_the_groups_offset_is_outside_of_the_log(tmp_path: pathlib.Path, policy: str) -> None:
    orders, reset = TopicPartition("orders", 0), f"auto.offset.reset={policy}"
    with two_clusters() as (source, theirs), EmbeddedCluster() as ours:
        servers = source.bootstrap_servers
        produce(servers, "orders", numbered("v", 20))
        for group in ("apache", "mm"):
            call(servers, lambda admin, group=group: admin.alter_consumer_group_offsets(group, {orders: OffsetAndMetadata(1000)}))
        options = ("--include", "orders", "--offset.commit.interval.ms", "500")
        with (
            apache_mirror_maker(tmp_path / "t", servers, theirs.bootstrap_servers, *options, consumer=reset) as their_tool,
            mirror_maker(tmp_path / "o", source, ours, interval_ms=500, consumer=[reset]) as child,
        ):
            if policy == "none":
                assert (their_tool.process.wait(REACHED_S), child.wait_ended()) == (255, 255)
                lines = [re.search(r"Fetch position .* is out of range for partition orders-0", tool.log) for tool in (their_tool, child)]
                assert lines[0] and lines[1] and lines[0][0] == lines[1][0]
                assert committed(servers, "mm") == committed(servers, "apache") == {orders: 1000}
                return
            for tool in (their_tool, child):
                wait_for("the reset", lambda tool=tool: "Resetting offset for partition orders-0 to position" in tool.log)
            produce(servers, "orders", numbered("w", 5))
            wait_for("both", lambda: len(values(theirs, "orders")) == len(values(ours, "orders")) == 5)
            assert (their_tool.stop(), child.stop()) == (143, 143)
            assert committed(servers, "mm") == committed(servers, "apache") == {orders: 25}


def assigned_topics(servers: str) -> set[str]:
    """Of both tools' groups, while neither is assigned anew; `*` until then."""
    found: set[str] = set()
    for group in call(servers, lambda admin: admin.describe_consumer_groups(["mm", "apache"])).values():
        assert not isinstance(group, ApiException), group
        found |= {"*"} if group.state != "Stable" else {one.topic for member in group.members for one in member.assignment}
    return found


def test_both_follow_topics_that_grow_go_and_come_again(tmp_path: pathlib.Path) -> None:
    """Partitions are added, topics come, go, and are made again with fewer and with more records than were copied, and one has
    the broker's times. Each target topic has one partition, made by its broker; one of them is deleted.
    """
    with two_clusters(**{"auto.create.topics.enable": "true"}) as (source, theirs), EmbeddedCluster(config=QUICK) as ours:
        servers, targets = source.bootstrap_servers, (theirs, ours)
        expected: dict[str, list[str]] = {}

        def send(topic: str, prefix: str, count: int, partition: int = 0) -> None:
            produce(servers, topic, numbered(prefix, count), partition=partition)
            expected.setdefault(topic, []).extend(numbered(prefix, count))

        def came(cluster: EmbeddedCluster) -> dict[str, list[str]]:
            found = {topic: sorted(bytes(value or b"").decode() for value in values(cluster, topic)) for topic in expected}
            return {topic: rows for topic, rows in found.items() if rows}

        def both_came(what: str) -> None:
            wanted = {topic: sorted(rows) for topic, rows in expected.items() if rows}
            wait_for(what, lambda: all(came(cluster) == wanted for cluster in targets) or None)

        def removed(cluster: EmbeddedCluster, topic: str) -> None:
            call(cluster.bootstrap_servers, lambda admin: admin.delete_topics([topic])).all()
            wait_for(f"the end of {topic}", lambda: topic not in call(cluster.bootstrap_servers, lambda admin: admin.list_topics()))

        for topic, partitions in {"grows": 2, "fewer": 1, "more": 1}.items():
            create_topic(servers, topic, partitions)
            for number in range(partitions):
                send(topic, f"{topic}{number}", 10, number)
        create_topic(servers, "stamped", message_timestamp_type="LogAppendTime")
        send("stamped", "s", 5)
        include = "(?i)GROWS,fe\\p{Lower}++, more|late*+r, stamp[^x&&[a-z]]d"
        fast = "metadata.max.age.ms=500"
        options = ("--include", include, "--offset.commit.interval.ms", "300", "--num.streams", "3")
        with (
            apache_mirror_maker(tmp_path / "t", servers, theirs.bootstrap_servers, *options, consumer=fast, producer=fast) as their_tool,
            mirror_maker(tmp_path / "o", source, ours, "--num.streams", "3", include=include, interval_ms=300, producer=[fast]) as child,
        ):
            both_came("what there is at first")
            call(servers, lambda admin: admin.create_partitions({"grows": 4})).all()
            send("grows", "third", 5, 2)
            send("grows", "fourth", 5, 3)
            create_topic(servers, "later")
            send("later", "l", 7)
            both_came("new partitions, and a new topic")
            for topic, count in {"fewer": 3, "more": 30}.items():
                removed(source, topic)
                wait_for(f"nobody to read {topic}", lambda topic=topic: not assigned_topics(servers) & {topic, "*"} or None)
                create_topic(servers, topic)
                send(topic, "again", count)
            both_came("topics that were made again")
            for cluster in targets:
                removed(cluster, "stamped")
            expected["stamped"] = []
            send("stamped", "anew", 5)
            both_came("the topic that the targets make anew")
            wait_for("offsets", lambda: committed(servers, "mm") == committed(servers, "apache") != {} or None)
            assert (their_tool.stop(), child.stop()) == (143, 143)
            times = [[record.timestamp for record in mirrored(cluster, "stamped")] for cluster in (source, *targets)]
            assert times[0][5:] == times[1] == times[2], "the source's times"
