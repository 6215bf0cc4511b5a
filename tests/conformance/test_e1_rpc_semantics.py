"""What the fields of the eleven RPCs mean on a destination of two brokers (E1, RS1 to RS7, and a
request of each RPC).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    is_tombstoned,
    numbered,
    produce,
    remove,
    send,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import java_string_hash
from kmirror.common.uuid import Uuid
from kmirror.network import node_api_versions
from kmirror.wire.messages import add_topics_to_mirror as add_topics
from kmirror.wire.messages import bump_leader_epochs as bump
from kmirror.wire.messages import create_mirror as create
from kmirror.wire.messages import delete_mirror, list_mirrors, metadata
from kmirror.wire.messages import describe_mirrors as describe
from kmirror.wire.messages import pause_mirror_topics as pause
from kmirror.wire.messages import read_mirror_states as read
from kmirror.wire.messages import remove_topics_from_mirror as remove_topics
from kmirror.wire.messages import resume_mirror_topics as resume
from kmirror.wire.messages import write_mirror_states as write

E = Errors
NOWHERE = Uuid(b"0123456789abcdef")


class Pair(NamedTuple):
    a: EmbeddedCluster
    b: EmbeddedCluster

    @property
    def source(self) -> str:
        return self.a.bootstrap_servers

    @property
    def destination(self) -> str:
        return self.b.bootstrap_servers

    def ask(self, request: Any, node: int = 0) -> Any:
        """One broker of the destination."""
        return send(self.destination.split(",")[node], request)

    def mirrored(self, mirror: str, topic: str, partitions: int = 1) -> Uuid:
        """A topic of 10 records a partition that is MIRRORING; its id."""
        create_topic(self.source, topic, partitions)
        for partition in range(partitions):
            produce(self.source, topic, numbered("v", 10), partition=partition)
        create_mirror(self.destination, mirror, self.source)
        add(self.destination, mirror, topic)
        wait_caught_up(self.destination, self.source, mirror)
        return self.topic_id(topic)

    def topic_id(self, topic: str) -> Uuid:
        return self.topic(topic).topic_id

    def topic(self, topic: str) -> Any:
        answer = self.ask(metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False))
        return answer.topics[0]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(2, mirroring=True, config=FAST_MIRROR) as b:
        yield Pair(a, b)


def configs(**values: str | None) -> list[create.MirrorConfig]:
    return [create.MirrorConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]


def results(answer: Any) -> dict[str, Errors]:
    """The results by topic; each topic has one."""
    assert len({row.name for row in answer.topics}) == len(answer.topics)
    return {row.name: E.for_code(row.error_code) for row in answer.topics}


def top(answer: Any) -> tuple[Errors, str | None]:
    return E.for_code(answer.error_code), answer.error_message


def test_rpc94_rs1_create_mirror(pair: Pair) -> None:
    """Null unsets a key; errors are the whole request's, and nothing is written; no text on
    success.
    """
    wanted = configs(bootstrap_servers=pair.source, mirror_groups_include=None, security_protocol="PLAINTEXT")
    assert top(pair.ask(create.CreateMirrorRequest(mirror_name="c94", config=wanted))) == (E.NONE, None)
    assert pair.b.call(lambda server: dict(server.broker.metadata_cache.image.configs.mirror("c94"))) == {
        "bootstrap.servers": pair.source,
        "security.protocol": "PLAINTEXT",
    }
    for refused, name, error in (
        ({"bootstrap_servers": pair.source, "nonsense": "x"}, "c94-b", E.INVALID_CONFIG),
        ({"security_protocol": "PLAINTEXT"}, "c94-b", E.INVALID_CONFIG),
        ({"bootstrap_servers": ""}, "c94-b", E.INVALID_CONFIG),
        ({"bootstrap_servers": pair.source, "source_cluster_id": "x"}, "c94-b", E.INVALID_CONFIG),
        ({"bootstrap_servers": pair.source}, "c94.paused", E.INVALID_MIRROR_NAME),
        ({"bootstrap_servers": pair.source}, "c94", E.INVALID_MIRROR_NAME),
    ):
        answer = pair.ask(create.CreateMirrorRequest(mirror_name=name, config=configs(**refused)))
        assert answer.error_code == error and answer.error_message, (name, refused)
    twice = configs(bootstrap_servers=pair.source) * 2
    assert pair.ask(create.CreateMirrorRequest(mirror_name="c94-b", config=twice)).error_code == E.INVALID_REQUEST
    assert "c94-b" not in [row.mirror_name for row in pair.ask(list_mirrors.ListMirrorsRequest()).mirrors]


@pytest.mark.item("ERR103")
def test_rpc95_rs2_rs3_c20_add_topics(pair: Pair) -> None:
    """By name, by id, by both; one result for each topic that was asked about; the mirror's name
    comes back.
    """
    create_mirror(pair.destination, "c95", pair.source)
    for name in ("c95-name", "c95-id", "c95-both", "c95-wrong"):
        create_topic(pair.source, name)
        create_topic(pair.destination, name)
    asked = [
        add_topics.TopicData(topic_name="c95-name"),
        add_topics.TopicData(topic_id=pair.topic_id("c95-id")),
        add_topics.TopicData(topic_name="c95-both", topic_id=pair.topic_id("c95-both")),
        add_topics.TopicData(topic_name="c95-wrong", topic_id=NOWHERE),
        add_topics.TopicData(topic_name="c95-gone"),
        add_topics.TopicData(topic_name="c95-name"),
        add_topics.TopicData(topic_id=NOWHERE),
    ]
    answer = pair.ask(add_topics.AddTopicsToMirrorRequest(mirror_name="c95", topics=asked))
    assert (answer.mirror_name, *top(answer), answer.throttle_time_ms) == ("c95", E.NONE, None, 0)
    assert results(answer) == {
        "c95-name": E.NONE,
        "c95-id": E.NONE,
        "c95-both": E.NONE,
        "c95-wrong": E.INCONSISTENT_TOPIC_ID,
        "c95-gone": E.UNKNOWN_TOPIC_OR_PARTITION,
        "": E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    unknown_ids = [add_topics.TopicData(topic_id=NOWHERE), add_topics.TopicData(topic_id=Uuid(b"fedcba9876543210"))]
    answer = pair.ask(add_topics.AddTopicsToMirrorRequest(mirror_name="c95", topics=unknown_ids))
    assert [(row.name, row.error_code) for row in answer.topics] == [("", E.UNKNOWN_TOPIC_OR_PARTITION)] * 2
    answer = pair.ask(add_topics.AddTopicsToMirrorRequest(mirror_name="c95", topics=[]))
    assert (*top(answer), answer.topics) == (E.NONE, None, [])
    answer = pair.ask(add_topics.AddTopicsToMirrorRequest(mirror_name="nosuch", topics=asked[:1]))
    assert (answer.mirror_name, *top(answer), answer.topics) == ("nosuch", E.UNKNOWN_MIRROR, "The mirror 'nosuch' does not exist.", [])


@pytest.mark.item("B22")
def test_rpc96_rs2_rs3_c20_remove_topics(pair: Pair) -> None:
    """`X` becomes `X.removed`; the topic stays the mirror's until that is deleted."""
    topic_id = pair.mirrored("c96", "c96-t")
    asked = [remove_topics.TopicData(topic_id=topic_id), remove_topics.TopicData(topic_name="c96-gone")]
    answer = pair.ask(remove_topics.RemoveTopicsFromMirrorRequest(mirror_name="c96", topics=asked))
    assert (answer.mirror_name, *top(answer)) == ("c96", E.NONE, None)
    assert results(answer) == {"c96-t": E.NONE, "c96-gone": E.UNKNOWN_TOPIC_OR_PARTITION}
    wait_state(pair.destination, "c96", "STOPPED")
    answer = pair.ask(remove_topics.RemoveTopicsFromMirrorRequest(mirror_name="c96", topics=asked[:1]))
    assert results(answer) == {"c96-t": E.TOPIC_NOT_IN_MIRROR}


def test_rpc98_rs4_list_mirrors(pair: Pair) -> None:
    """Any broker answers, from metadata; "" until the source was reached; running and paused topics
    count, removed ones do not.
    """
    pair.mirrored("c98", "c98-t")
    create_mirror(pair.destination, "c98-new", "127.0.0.1:1")
    create_topic(pair.source, "c98-u")
    add(pair.destination, "c98", "c98-u")
    wait_state(pair.destination, "c98", "MIRRORING")

    def listed(node: int) -> dict[str, tuple[str, str, int]]:
        answer = pair.ask(list_mirrors.ListMirrorsRequest(), node)
        assert (*top(answer), answer.throttle_time_ms) == (E.NONE, None, 0)
        return {row.mirror_name: (row.source_bootstrap, row.source_cluster_id, row.topic_count) for row in answer.mirrors}

    for node in (0, 1):
        rows = wait_for("the source's cluster id", lambda node=node: listed(node) if listed(node)["c98"][1] else None)
        assert rows["c98"] == (pair.source, pair.a.cluster_id, 2)
        assert rows["c98-new"] == ("127.0.0.1:1", "", 0)
    call(pair.destination, lambda admin: admin.pause_mirror_topics("c98", ["c98-t"])).all()
    wait_state(pair.destination, "c98", "PAUSED", topic="c98-t")
    assert [listed(node)["c98"][2] for node in (0, 1)] == [2, 2], "the paused one counts"
    remove(pair.destination, "c98", "c98-u")
    wait_for("the count", lambda: all(listed(node)["c98"][2] == 1 for node in (0, 1)))


def described(pair: Pair, node: int, *names: str, **more: bool) -> Any:
    return pair.ask(describe.DescribeMirrorsRequest(mirror_names=list(names), **more), node)


@pytest.mark.item("B23")
def test_rpc99_rs5_rs6_describe_mirrors(pair: Pair) -> None:
    """Each broker tells of the partitions that it leads; no name is every mirror; offsets are the
    source's high watermark and our log end.
    """
    pair.mirrored("c99", "c99-t", partitions=4)
    seen: dict[int, Any] = {}
    for node in (0, 1):
        answer = described(pair, node, "c99", include_authorized_operations=True)
        assert (*top(answer), answer.throttle_time_ms, [row.error_code for row in answer.mirrors]) == (E.NONE, None, 0, [0])
        (mirror,) = answer.mirrors
        (topic,) = mirror.topics
        leaders = {partition.partition_index: partition.leader_id for partition in pair.topic("c99-t").partitions}
        assert (mirror.mirror_name, topic.topic_name) == ("c99", "c99-t")
        assert [row.partition_index for row in topic.partitions] == sorted(
            number for number, leader in leaders.items() if leader == pair.b.nodes[node].node_id
        )
        seen |= {row.partition_index: row for row in topic.partitions}
    assert sorted(seen) == [0, 1, 2, 3]
    for row in seen.values():
        assert (row.state, row.source_offset, row.destination_offset, row.lag, row.last_mirror_epoch) == ("MIRRORING", 10, 10, 0, -1)
    assert {row.mirror_name for row in described(pair, 0).mirrors} == {
        row.mirror_name for row in pair.ask(list_mirrors.ListMirrorsRequest()).mirrors
    }
    pair.a.stop_node()
    try:
        call(pair.destination, lambda admin: admin.pause_mirror_topics("c99", ["c99-t"])).all()
        rows = wait_state(pair.destination, "c99", "PAUSED")
        assert [row.destination_offset for row in rows] == [10] * 4
    finally:
        pair.a.start_node()


def test_rpc99_rs5_c7_names_that_are_unknown_have_an_entry(pair: Pair) -> None:
    create_mirror(pair.destination, "c99-known", "127.0.0.1:1")
    for names in (["nosuch"], ["c99-known", "nosuch"], ["nosuch", "nosuch"]):
        answer = described(pair, 0, *names)
        assert answer.error_code == 0
        assert {row.mirror_name: (row.error_code, row.topics) for row in answer.mirrors} == {
            name: (E.UNKNOWN_MIRROR if name == "nosuch" else 0, []) for name in names
        }
    assert "nosuch" not in [row.mirror_name for row in described(pair, 0).mirrors]


def test_rpc99_rs5_a_java_client_is_told_of_its_one_unknown_mirror_without_an_entry(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The KIP's reference implementation would ask again for ever (DECISIONS 17)."""
    create_mirror(pair.destination, "c99-java", "127.0.0.1:1")
    monkeypatch.setattr(node_api_versions, "CLIENT_SOFTWARE_NAME", "apache-kafka-java")
    answer = described(pair, 0, "nosuch")
    assert (*top(answer), answer.mirrors) == (E.UNKNOWN_MIRROR, "The mirror 'nosuch' does not exist.", [])
    answer = described(pair, 0, "c99-java", "nosuch")
    assert [(row.mirror_name, row.error_code) for row in answer.mirrors] == [("c99-java", 0), ("nosuch", E.UNKNOWN_MIRROR)]


def test_rpc99_rs6_lag_is_unknown_before_the_source_answered(pair: Pair) -> None:
    create_topic(pair.destination, "c99-dead")
    create_mirror(pair.destination, "c99-d", "127.0.0.1:1")
    add(pair.destination, "c99-d", "c99-dead")
    (row,) = wait_state(pair.destination, "c99-d", "PREPARING")
    assert (row.source_offset, row.destination_offset, row.lag, row.last_mirror_epoch) == (-1, 0, -1, -1)


def coordinator_node(pair: Pair, mirror: str, topic_id: Uuid, partition: int) -> int:
    """The index of the broker that leads the partition's place in `__mirror_state`."""
    state_topic = pair.topic("__mirror_state").partitions
    number = abs(java_string_hash(f"{mirror}:{topic_id}:{partition}")) % len(state_topic)
    leader = next(row.leader_id for row in state_topic if row.partition_index == number)
    return next(index for index, node in enumerate(pair.b.nodes) if node.node_id == leader)


@pytest.mark.item("ERR16")
def test_rpc100_rs7_read_mirror_states(pair: Pair) -> None:
    """State and last mirror epoch of the partitions that a broker coordinates; 16 and -1 where
    there is none.
    """
    topic_id = pair.mirrored("c100", "c100-t")
    node = coordinator_node(pair, "c100", topic_id, 0)

    def asked(node: int, *topics: str) -> Any:
        rows = [read.TopicData(name=topic, partitions=[read.PartitionData(partition_index=0)]) for topic in topics]
        return pair.ask(read.ReadMirrorStatesRequest(mirror_name="c100", topics=rows), node)

    def only(answer: Any) -> tuple[int, int, int, int]:
        row = answer.topics[0].partitions[0]
        return row.partition_index, row.state, row.last_mirror_epoch, row.error_code

    answer = asked(node, "c100-t", "c100-gone")
    assert (*top(answer), [topic.name for topic in answer.topics]) == (E.NONE, None, ["c100-t", "c100-gone"])
    assert only(answer) == (0, 1, -1, 0)
    assert answer.topics[1].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION and answer.topics[1].partitions[0].state == 16
    assert only(asked(1 - node, "c100-t"))[1:] == (16, -1, E.NOT_COORDINATOR)
    create_topic(pair.destination, "c100-new")
    nowhere = coordinator_node(pair, "c100", pair.topic_id("c100-new"), 0)
    assert only(asked(nowhere, "c100-new")) == (0, 16, -1, 0)
    remove(pair.destination, "c100", "c100-t")
    rows = wait_state(pair.destination, "c100", "STOPPED")
    assert only(asked(node, "c100-t")) == (0, 5, 0, 0) and rows[0].last_mirror_epoch == 0


def test_rpc101_rs9_write_mirror_states(pair: Pair) -> None:
    """16 leaves the state and -1 the epoch; a transition that is none is refused for its partition;
    removed topics are forgotten (not those that are in the mirror and run: a topic of that name was
    deleted, and made anew before the request came, D3-34).
    """
    topic_id = pair.mirrored("c101", "c101-t")
    node = coordinator_node(pair, "c101", topic_id, 0)

    def wrote(state: int, epoch: int, *, removed: tuple[str, ...] = ()) -> int:
        partition = write.PartitionData(partition_index=0, state=state, last_mirror_epoch=epoch)
        topics = [write.TopicData(name="c101-t", partitions=[partition])] if not removed else []
        answer = pair.ask(write.WriteMirrorStatesRequest(mirror_name="c101", topics=topics, removed_topics=list(removed)), node)
        assert (*top(answer), answer.throttle_time_ms) == (E.NONE, None, 0)
        return answer.topics[0].partitions[0].error_code if topics else 0

    def stored() -> tuple[int, int]:
        topics = [read.TopicData(name="c101-t", partitions=[read.PartitionData(partition_index=0)])]
        row = pair.ask(read.ReadMirrorStatesRequest(mirror_name="c101", topics=topics), node).topics[0].partitions[0]
        return row.state, row.last_mirror_epoch

    assert wrote(16, 7) == 0 and stored() == (1, 7)
    assert wrote(1, -1) == 0 and stored() == (1, 7)
    assert wrote(5, -1) == E.INVALID_REQUEST and stored() == (1, 7)
    assert wrote(0, 0, removed=("c101-t",)) == 0 and stored() == (1, 7)
    remove(pair.destination, "c101", "c101-t")
    wait_state(pair.destination, "c101", "STOPPED")
    assert wrote(0, 0, removed=("c101-t",)) == 0 and stored()[0] == 16


@pytest.mark.item("B49")
def test_rpc102_rs2_rs3_c20_pause_and_rpc103_resume(pair: Pair) -> None:
    topic_id = pair.mirrored("c102", "c102-t")
    create_topic(pair.destination, "c102-free")
    paused = [pause.TopicData(topic_id=topic_id), pause.TopicData(topic_name="c102-free"), pause.TopicData(topic_name="c102-gone")]
    answer = pair.ask(pause.PauseMirrorTopicsRequest(mirror_name="c102", topics=paused))
    assert (answer.mirror_name, *top(answer)) == ("c102", E.NONE, None)
    assert results(answer) == {"c102-t": E.NONE, "c102-free": E.UNKNOWN_MIRROR, "c102-gone": E.UNKNOWN_TOPIC_OR_PARTITION}
    wait_state(pair.destination, "c102", "PAUSED")
    resumed = [resume.TopicData(topic_name="c102-t", topic_id=topic_id), resume.TopicData(topic_name="c102-free")]
    answer = pair.ask(resume.ResumeMirrorTopicsRequest(mirror_name="c102", topics=resumed))
    assert (answer.mirror_name, *top(answer)) == ("c102", E.NONE, None)
    assert results(answer) == {"c102-t": E.NONE, "c102-free": E.UNKNOWN_MIRROR}
    wait_state(pair.destination, "c102", "MIRRORING")
    for request in (pause.PauseMirrorTopicsRequest(mirror_name="nosuch"), resume.ResumeMirrorTopicsRequest(mirror_name="nosuch")):
        answer = pair.ask(request)
        assert (answer.mirror_name, answer.error_code) == ("nosuch", E.UNKNOWN_MIRROR)


@pytest.mark.item("D3-33")
def test_rpc104_delete_mirror(pair: Pair) -> None:
    """Refused while a topic is not removed and stopped; then the name is free, the topic has no
    mirror, and tombstones of both keys are in the log.
    """
    pair.mirrored("c104", "c104-t")
    assert pair.ask(delete_mirror.DeleteMirrorRequest(mirror_name="c104")).error_code == E.MIRROR_NOT_EMPTY
    remove(pair.destination, "c104", "c104-t")
    wait_state(pair.destination, "c104", "STOPPED")
    assert top(pair.ask(delete_mirror.DeleteMirrorRequest(mirror_name="c104"))) == (E.NONE, None)
    assert top(pair.ask(delete_mirror.DeleteMirrorRequest(mirror_name="c104"))) == (E.UNKNOWN_MIRROR, "The mirror 'c104' does not exist.")
    assert pair.b.call(lambda server: server.broker.metadata_cache.image.configs.topic("c104-t").get("mirror.name")) is None
    wait_for("tombstones on every replica", lambda: all(is_tombstoned(pair.b, "c104", node) for node in range(len(pair.b.nodes))) or None)
    create_mirror(pair.destination, "c104", pair.source)


@pytest.mark.item("B9")
def test_rpc105_rs11_bump_leader_epochs(pair: Pair) -> None:
    """Asked by id, answered by name; above `min_leader_epoch`, and nothing to do where it is above
    already.
    """
    create_topic(pair.destination, "c105-t")
    topic_id = pair.topic_id("c105-t")

    def bumped(topic_id: Uuid, partition: int, minimum: int | None) -> tuple[str, int, int]:
        entry = bump.LeaderEpochState(partition_index=partition) if minimum is None else bump.LeaderEpochState(partition, minimum)
        answer = pair.ask(bump.BumpLeaderEpochsRequest(topics=[bump.TopicState(topic_id=topic_id, partitions=[entry])]))
        assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
        (topic,) = answer.topics
        (row,) = topic.partitions
        return topic.topic_name, row.partition_index, row.error_code

    def epoch() -> int:
        return int(pair.topic("c105-t").partitions[0].leader_epoch)

    assert bumped(topic_id, 0, 7) == ("c105-t", 0, 0)
    wait_for("epoch 8", lambda: epoch() == 8)
    assert bumped(topic_id, 0, 3) == bumped(topic_id, 0, None) == ("c105-t", 0, 0)
    assert bumped(topic_id, 5, 3) == ("c105-t", 5, E.UNKNOWN_TOPIC_OR_PARTITION)
    assert bumped(NOWHERE, 0, 3) == ("", 0, E.UNKNOWN_TOPIC_ID)
    assert epoch() == 8
