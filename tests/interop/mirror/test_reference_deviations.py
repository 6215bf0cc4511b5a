"""The same script against two of the KIP's reference implementation and two of ours: what differs
is the entry of that number.

Each script is written once, over `Side`: a cluster that can be a source or a destination of a
mirror. What it observes is compared with what the entry says the reference does, and with what the
KIP says. An entry that the reference no longer shows fails here, so that it can be taken off the
list. Entries 5 and 22 are the KIP's own, so both sides do the same there. Entry 1 is in
test_mirror_with_the_reference.py and entry 7 in test_mirror_with_the_reference_rf2.py.

What one entry leaves behind in the reference (a partition that has failed, a fetcher that has
ended) can keep its next mirrors from starting, so each script has two nodes of its own there. What
a script needs before its point goes through `Side.reach`: where the reference sticks on the way,
the script is begun again with new nodes. Ours has one attempt, and nothing else is repeated. The
reference is a build that does not change, so `make rounds` plays its side, and CI ours.
"""

from __future__ import annotations

import base64
import pathlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    call,
    create_topic,
    log_bytes,
    numbered,
    produce,
    produce_when_taken,
    quiet,
    send,
    wait_for,
)
from support.peers.peers import KafkaPeer, apache_kafka, java_tool, reference_classpath, reference_kafka
from support.waiting import OPEN_TRANSACTION_MS, REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.results import ConfigResourceType
from kmirror.cli import mirrors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches
from kmirror.server.apis.fetch import handle_fetch
from kmirror.server.apis.mirror import handle_describe_mirrors
from kmirror.server.kafka_apis import Handler, KafkaApis
from kmirror.server.kafka_server import KafkaServer
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import add_topics_to_mirror, bump_leader_epochs

pytestmark = [pytest.mark.interop, pytest.mark.flaky(reruns=2, only_rerun="ReferenceSticksError")]
QUICK = {"mirror.metadata.refresh.interval.ms": "1000"}


class ReferenceSticksError(Exception):
    """The reference does not get as far as an entry's point."""


@dataclass
class Side:
    """One cluster of one node: ours, or the reference's."""

    bootstrap_servers: str
    data: pathlib.Path
    restart: Callable[[], None]
    peer: KafkaPeer | None = None

    @property
    def is_ours(self) -> bool:
        return self.peer is None

    def reach(self, what: str, condition: Callable[[], bool]) -> None:
        """What an entry needs before its point."""
        try:
            wait_for(what, condition, 30)
        except AssertionError as error:
            if self.is_ours:
                raise
            raise ReferenceSticksError(str(error)) from error

    def mirrors(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
        """Exit code and output of our kafka-mirrors, which works on both sides and needs no JVM."""
        capsys.readouterr()
        code = mirrors.main(["--bootstrap-server", self.bootstrap_servers, *arguments])
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).strip()

    def own_tool(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
        """The same of the side's own kafka-mirrors."""
        if self.peer is None:
            return self.mirrors(capsys, *arguments)
        done = self.peer.tool("org.apache.kafka.tools.MirrorCommand", "--bootstrap-server", self.bootstrap_servers, *arguments)
        return done.returncode, (done.stdout + done.stderr).strip()

    def end_offset(self, topic: str) -> int:
        partition = TopicPartition(topic, 0)
        ends = call(self.bootstrap_servers, lambda admin: admin.list_offsets([partition]))
        return ends[partition]


@dataclass
class Pair:
    """A mirror's two ends, and the steps of the scripts."""

    a: Side
    b: Side
    folder: pathlib.Path
    capsys: pytest.CaptureFixture[str]

    @property
    def is_ours(self) -> bool:
        return self.a.is_ours

    def create(self, at: Side, mirror: str, source: str) -> None:
        call(at.bootstrap_servers, lambda admin: admin.create_mirror(mirror, {"bootstrap.servers": source}))

        def known() -> bool:
            return any(listing.mirror_name == mirror for listing in call(at.bootstrap_servers, lambda admin: admin.list_mirrors()))

        wait_for(f"mirror {mirror} to be known", known)

    def run(self, at: Side, verb: str, mirror: str, topic: str) -> None:
        code, said = at.mirrors(self.capsys, f"--{verb}", "--mirror", mirror, "--topic", topic)
        assert code == 0, said

    def states(self, at: Side, mirror: str) -> dict[str, str]:
        """State by topic (each has one partition)."""
        lines = at.mirrors(self.capsys, "--describe", "--mirror", mirror)[1].splitlines()
        return {line.split()[1]: line.split()[-1] for line in lines if line.startswith(mirror)}

    def reach_state(self, at: Side, mirror: str, topic: str, state: str) -> None:
        at.reach(f"{topic} of {mirror} in {state}", lambda: self.states(at, mirror).get(topic) == state)

    def same(self, topic: str) -> bool:
        left = log_bytes(self.a.data, f"{topic}-0")
        return len(left) > 0 and left == log_bytes(self.b.data, f"{topic}-0")

    def reach_same(self, at: Side, topic: str) -> None:
        """`at` is the destination."""
        at.reach(f"equal logs of {topic}", lambda: self.same(topic))

    def becomes_same(self, topic: str, within_s: float) -> bool:
        """An entry's point: whether the logs are equal in time, without help."""
        try:
            wait_for(f"equal logs of {topic}", lambda: self.same(topic), within_s)
        except AssertionError:
            return False
        return True

    def mirrored(self, mirror: str, *topics: str, records: int = 40) -> None:
        """Topics of A with records, mirrored by B."""
        self.create(self.b, mirror, self.a.bootstrap_servers)
        for topic in topics:
            create_topic(self.a.bootstrap_servers, topic)
            self.write(self.a, topic, numbered(topic, records))
            self.run(self.b, "add", mirror, topic)
            self.reach_same(self.b, topic)

    def write(self, at: Side, topic: str, values: list[str]) -> None:
        if not at.is_ours:
            first, *values = values
            produce_when_taken(at.bootstrap_servers, topic, first)
        assert produce(at.bootstrap_servers, topic, values) == []

    def failed_over(self, mirror: str, *topics: str) -> None:
        for topic in topics:
            self.run(self.b, "remove", mirror, topic)
        for topic in topics:
            self.reach_state(self.b, mirror, topic, "STOPPED")


@pytest.fixture(params=[pytest.param("reference", marks=pytest.mark.round), "kmirror"])
def sides(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[tuple[Side, Side]]:
    if request.param == "kmirror":
        with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
            yield _ours(a), _ours(b)
        return
    with _reference_node(tmp_path / "a", 1) as first, _reference_node(tmp_path / "b", 2) as second:
        yield _reference(first), _reference(second)


def _reference_node(folder: pathlib.Path, node_id: int) -> AbstractContextManager[KafkaPeer]:
    cluster_id = base64.urlsafe_b64encode(b"reference-side-%d" % node_id).decode().rstrip("=")
    return reference_kafka(folder, node_id=node_id, cluster_id=cluster_id, properties=QUICK)


def _ours(cluster: EmbeddedCluster) -> Side:
    def restart() -> None:
        cluster.stop_node()
        cluster.start_node()

    return Side(cluster.bootstrap_servers, cluster.log_dir(), restart)


def _reference(peer: KafkaPeer) -> Side:
    return Side(peer.bootstrap_servers, peer.data, peer.restart, peer)


@pytest.fixture
def pair(sides: tuple[Side, Side], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Pair:
    return Pair(*sides, tmp_path, capsys)


@pytest.fixture
def spied() -> Iterator[tuple[EmbeddedCluster, list[Request]]]:
    """A source of ours that notes the Fetch and DescribeMirrors requests it gets."""
    seen: list[Request] = []

    def noted(handler: Handler) -> Handler:
        async def note(apis: KafkaApis, request: Request) -> Any:
            seen.append(request)
            return await handler(apis, request)

        return note

    def listen(server: KafkaServer) -> None:
        assert server.broker is not None
        server.broker.apis.replace_handlers({ApiKeys.FETCH: noted(handle_fetch)})
        server.broker.apis.replace_handlers({ApiKeys.DESCRIBE_MIRRORS: noted(handle_describe_mirrors)})

    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster:
        cluster.call(listen)
        yield cluster, seen


def test_entry_08_a_source_restarted_after_it_diverged(pair: Pair) -> None:
    """The restart leaves an epoch without a batch in the reference's cache; from there it never
    finds back to its source.
    """
    pair.mirrored("m8", "eight", records=50)
    pair.failed_over("m8", "eight")
    for value in numbered("own", 3):
        pair.write(pair.a, "eight", [value])
    pair.write(pair.b, "eight", ["theirs"])
    pair.a.restart()
    pair.create(pair.a, "m8", pair.b.bootstrap_servers)
    pair.run(pair.a, "add", "m8", "eight")
    assert pair.becomes_same("eight", 40 if pair.is_ours else 8) == pair.is_ours


def test_entries_02_03_04_adding_one_topic_cuts_the_others_again(pair: Pair) -> None:
    """A fails back from B topic by topic.

    The reference cuts the first topic again when the second is added, shows it as MIRRORING for
    ever (3), and its remedy, remove and add, does not make the logs equal (4).
    """
    pair.mirrored("m2", "two", "other")
    pair.failed_over("m2", "two", "other")
    pair.create(pair.a, "m2", pair.b.bootstrap_servers)
    pair.run(pair.a, "add", "m2", "two")
    pair.reach_same(pair.a, "two")
    pair.write(pair.b, "two", numbered("more", 30))
    pair.reach_same(pair.a, "two")
    end = pair.a.end_offset("two")
    pair.run(pair.a, "add", "m2", "other")
    pair.reach_same(pair.a, "other")
    pair.write(pair.b, "two", numbered("after", 30))
    goes_on = pair.becomes_same("two", 30 if pair.is_ours else 8)
    cut = pair.a.end_offset("two") < end
    assert (goes_on, cut) == ((True, False) if pair.is_ours else (False, True)), "2"
    assert pair.states(pair.a, "m2")["two"] == "MIRRORING", "3: the reference says so of a partition that has failed"
    if not pair.is_ours:
        pair.run(pair.a, "remove", "m2", "two")
        pair.reach_state(pair.a, "m2", "two", "STOPPED")
        pair.run(pair.a, "add", "m2", "two")
        assert not pair.becomes_same("two", 8), "4"


def test_entry_05_the_fixpoint_drops_what_the_kip_says(pair: Pair) -> None:
    """The KIP's own: a decided transaction whose marker lies behind an open one's first record is
    lost on both.
    """
    create_topic(pair.a.bootstrap_servers, "five")
    settings = {"bootstrap.servers": pair.a.bootstrap_servers, "transaction.timeout.ms": OPEN_TRANSACTION_MS}
    first, second = (Producer(quiet({**settings, "transactional.id": f"five-{number}"})) for number in (1, 2))
    for producer in (first, second):
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(5):
            producer.produce("five", f"{number}")
        assert producer.flush(REACHED_S) == 0
    first.commit_transaction(30)
    pair.create(pair.b, "m5", pair.a.bootstrap_servers)
    pair.run(pair.b, "add", "m5", "five")
    pair.reach_state(pair.b, "m5", "five", "MIRRORING")
    pair.b.reach("what is stable", lambda: pair.b.end_offset("five") >= 5)
    pair.failed_over("m5", "five")
    batches = list(iter_batches(log_bytes(pair.b.data, "five-0")))
    assert [(batch.base_offset, batch.is_control) for batch in batches] == [(0, True)], "only the PID reset is left"
    second.abort_transaction(30)


def test_entry_06_a_real_truncation_with_one_replica(pair: Pair) -> None:
    """The reference waits in PREPARING until it is restarted."""
    pair.mirrored("m6", "six")
    pair.failed_over("m6", "six")
    pair.a.restart()
    pair.write(pair.a, "six", numbered("own", 7))
    pair.create(pair.a, "m6", pair.b.bootstrap_servers)
    pair.run(pair.a, "add", "m6", "six")
    if pair.is_ours:
        assert pair.becomes_same("six", 40)
        return
    assert not pair.becomes_same("six", 8) and pair.states(pair.a, "m6")["six"] == "PREPARING"
    pair.a.restart()
    pair.reach_same(pair.a, "six")


def test_entry_09_a_source_without_the_mirror_apis(pair: Pair) -> None:
    """The KIP mirrors it from zero; the reference stays in PREPARING (unless entry 10 has another
    source answer for this one).
    """
    with apache_kafka(pair.folder / "apache") as source, _alone(pair) as destination:
        create_topic(source.bootstrap_servers, "nine")
        assert produce(source.bootstrap_servers, "nine", numbered("nine", 20)) == []
        pair.create(destination, "m9", source.bootstrap_servers)
        pair.run(destination, "add", "m9", "nine")

        def arrived() -> bool:
            left = log_bytes(source.data, "nine-0")
            return len(left) > 0 and left == log_bytes(destination.data, "nine-0")

        if pair.is_ours:
            wait_for("all records", arrived)
            pair.reach_state(destination, "m9", "nine", "MIRRORING")
        else:
            pair.reach_state(destination, "m9", "nine", "PREPARING")
            time.sleep(5)
            assert (arrived(), pair.states(destination, "m9")) == (False, {"nine": "PREPARING"})


@contextmanager
def _alone(pair: Pair) -> Iterator[Side]:
    """A destination that has had no mirror yet."""
    if pair.is_ours:
        with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster:
            yield _ours(cluster)
    else:
        with _reference_node(pair.folder / "alone", 3) as peer:
            yield _reference(peer)


def test_entries_10_16_each_mirror_asks_its_own_source(pair: Pair, spied: tuple[EmbeddedCluster, list[Request]]) -> None:
    """10: the reference asks the source of the first mirror for the last mirror epochs of all. 16:
    who fetches, and how.
    """
    source, seen = spied
    pair.mirrored("m10", "ten")
    create_topic(source.bootstrap_servers, "sixteen")
    assert produce(source.bootstrap_servers, "sixteen", numbered("r", 20)) == []
    pair.create(pair.b, "m16", source.bootstrap_servers)
    pair.run(pair.b, "add", "m16", "sixteen")
    pair.b.reach("all records", lambda: log_bytes(source.log_dir(), "sixteen-0") == log_bytes(pair.b.data, "sixteen-0"))
    described = [request for request in seen if request.api_key is ApiKeys.DESCRIBE_MIRRORS and _is_a_brokers(request)]
    assert (len(described) > 0) == pair.is_ours, "10"
    mirrored = [request for request in seen if request.api_key is ApiKeys.FETCH and "m16" in (request.client_id or "")]
    node = 1 if pair.is_ours else 2
    theirs = "fetcherId-0-mirrorName-m16"
    assert {request.client_id for request in mirrored} == {f"broker-{node}-fetcher-0-mirror-m16" if pair.is_ours else theirs}
    (partition,) = mirrored[0].message.topics[0].partitions
    assert (mirrored[0].message.replica_id, mirrored[0].message.isolation_level) == (-1, 1)
    assert partition.last_fetched_epoch == (-1 if pair.is_ours else 0), "16: nothing was fetched yet"
    pair.run(pair.b, "pause", "m16", "sixteen")


def _is_a_brokers(request: Request) -> bool:
    """Not our tool's, which looks at the source, too."""
    return (request.client_id or "").startswith("broker-") or "java" in str(request.client_information.software_name)


def test_entry_11_a_transaction_open_where_its_topic_becomes_a_mirror(pair: Pair) -> None:
    """Its abort marker is refused by the reference's own partition, and the coordinator never ends."""
    pair.mirrored("m11", "eleven")
    pair.failed_over("m11", "eleven")
    timeout = {"transaction.timeout.ms": 8000 if pair.is_ours else OPEN_TRANSACTION_MS}
    producer = Producer(quiet({"bootstrap.servers": pair.a.bootstrap_servers, "transactional.id": "open-11", **timeout}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("eleven", b"open")
    pair.a.reach("the open record", lambda: producer.flush(1) == 0)
    pair.create(pair.a, "m11", pair.b.bootstrap_servers)
    pair.run(pair.a, "add", "m11", "eleven")
    pair.a.reach("eleven to be a mirror", lambda: pair.states(pair.a, "m11").get("eleven") in ("PREPARING", "MIRRORING"))
    if not pair.is_ours:
        producer.abort_transaction(30)

    def state() -> str:
        listings = call(pair.a.bootstrap_servers, lambda admin: admin.list_transactions())
        (found,) = [row.state for rows in listings.values() for row in rows if row.transactional_id == "open-11"]
        return str(found)

    if pair.is_ours:
        wait_for("the coordinator to end it", lambda: state() == "CompleteAbort")
        return
    time.sleep(8)
    assert state() == "PrepareAbort", "11"


def test_entries_12_13_21_the_tools_answers(pair: Pair) -> None:
    """12: repeated requests are errors. 13: a name in use. 21: the header of the list."""
    pair.mirrored("m12", "twelve", records=5)
    pair.run(pair.b, "pause", "m12", "twelve")
    pair.reach_state(pair.b, "m12", "twelve", "PAUSED")

    def own(verb: str) -> int:
        return pair.b.own_tool(pair.capsys, f"--{verb}", "--mirror", "m12", "--topic", "twelve")[0]

    codes = [own("pause"), own("add")]
    pair.run(pair.b, "resume", "m12", "twelve")
    pair.reach_state(pair.b, "m12", "twelve", "MIRRORING")
    codes.append(own("resume"))
    assert codes == ([1, 1, 1] if pair.is_ours else [0, 0, 0]), "12"
    config = pair.folder / "m12.properties"
    config.write_text(f"bootstrap.servers={pair.a.bootstrap_servers}\n")
    code, said = pair.b.own_tool(pair.capsys, "--create", "--mirror", "m12", "--mirror-config", str(config))
    assert (code, "already exists" in said) == ((1, True) if pair.is_ours else (0, False)), "13"
    header = pair.b.own_tool(pair.capsys, "--list")[1].splitlines()[0].split()
    kip = ["MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER"]
    assert header == (kip if pair.is_ours else ["MIRROR", "TOPICS", "SOURCE-CLUSTER-ID", "SOURCE-BOOTSTRAP"]), "21"


def test_entry_15_a_bump_answers_for_its_partitions(pair: Pair) -> None:
    create_topic(pair.b.bootstrap_servers, "fifteen")
    topic_id = call(pair.b.bootstrap_servers, lambda admin: admin.describe_topics(["fifteen"]))["fifteen"].topic_id
    state = bump_leader_epochs.LeaderEpochState(partition_index=0, min_leader_epoch=7)
    topics = [bump_leader_epochs.TopicState(topic_id=topic_id, partitions=[state])]
    answer = send(pair.b.bootstrap_servers, bump_leader_epochs.BumpLeaderEpochsRequest(topics=topics))
    assert [topic.topic_name for topic in answer.topics] == (["fifteen"] if pair.is_ours else []), "15"

    def epoch() -> int:
        return call(pair.b.bootstrap_servers, lambda admin: admin.describe_topics(["fifteen"]))["fifteen"].partitions[0].leader_epoch

    wait_for("the epoch above 7", lambda: epoch() == 8)


def test_entry_18_the_size_of_the_state_topic(pair: Pair) -> None:
    """50 partitions of 3 replicas by the KIP, where the broker's settings say nothing (ours does,
    to be quick).
    """
    if pair.is_ours:
        with EmbeddedCluster(mirroring=True) as plain:
            entries = call(plain.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.BROKER, "1"))
    else:
        entries = call(pair.b.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.BROKER, "2"))
    found = {entry.name: entry.value for entry in entries if entry.name.startswith("mirror.topic.")}
    if pair.is_ours:
        assert found["mirror.topic.num.partitions"] == "50"
    else:
        assert found == {"mirror.topic.num.partitions": "3", "mirror.topic.replication.factor": "1"}, "18"


def test_entry_19_who_makes_the_destinations_topic(pair: Pair) -> None:
    """By the KIP the broker that is asked to add it (B17); the reference's does not know the topic."""
    create_topic(pair.a.bootstrap_servers, "nineteen")
    pair.write(pair.a, "nineteen", numbered("r", 5))
    pair.create(pair.b, "m19", pair.a.bootstrap_servers)
    topic = add_topics_to_mirror.TopicData(topic_name="nineteen")
    send(pair.b.bootstrap_servers, add_topics_to_mirror.AddTopicsToMirrorRequest(mirror_name="m19", topics=[topic]))
    if pair.is_ours:
        assert pair.becomes_same("nineteen", 30)
        return
    time.sleep(4)
    assert "nineteen" not in call(pair.b.bootstrap_servers, lambda admin: admin.list_topics()), "19"


def test_entry_20_offsets_of_a_group_without_members(pair: Pair) -> None:
    """The reference mirrors the offsets of STABLE groups only."""
    pair.mirrored("m20", "twenty")
    consumer = Consumer(
        quiet(
            {"bootstrap.servers": pair.a.bootstrap_servers, "group.id": "g20", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
    )
    consumer.subscribe(["twenty"])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (message := consumer.poll(1)) is None:
        pass
    assert message is not None
    consumer.commit(message, asynchronous=False)
    consumer.close()

    def synced() -> bool:
        committed = call(pair.b.bootstrap_servers, lambda admin: admin.list_consumer_group_offsets("g20")).get(TopicPartition("twenty", 0))
        return committed is not None and committed.offset == 1

    if pair.is_ours:
        wait_for("the group's offset", synced)
        return
    with pytest.raises(AssertionError):
        wait_for("the group's offset", synced, 6)


def test_entry_22_both_refuse_without_the_unstable_flags(tmp_path: pathlib.Path) -> None:
    """What agrees: without unstable.feature.versions.enable a node cannot be formatted with
    mirror.version.
    """
    peer = KafkaPeer(tmp_path / "plain", reference_classpath())
    done = java_tool(
        "kafka.tools.StorageTool",
        *("format", "-t", peer.cluster_id, "-c", str(peer.write_properties()), "--feature", "mirror.version=1"),
        classpath=peer.classpath,
    )
    assert done.returncode != 0 and "mirror.version" in done.stdout + done.stderr
