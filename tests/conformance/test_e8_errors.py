"""Each error of mirroring: its condition, code and message, and the APIs that answer with it (E8,
B12 to B16, B30, C20).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.acl_matrix import acl_of, message_of
from support.brokers.kmirror_side import AUTHORIZED, KmirrorSide
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    partitions_of,
    produce,
    remove,
    send,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.common.errors import ApiException, Errors
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages import add_topics_to_mirror as add_topics
from kmirror.wire.messages import create_mirror as create
from kmirror.wire.messages import create_partitions, delete_mirror, delete_records, delete_topics, describe_mirrors
from kmirror.wire.messages import incremental_alter_configs as alter
from kmirror.wire.messages import pause_mirror_topics as pause
from kmirror.wire.messages import remove_topics_from_mirror as remove_topics
from kmirror.wire.messages import resume_mirror_topics as resume
from kmirror.wire.messages.create_acls import CreateAclsRequest
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]
E = Errors
K = ApiKeys
MESSAGES = {
    134: "The topic is read-only because it is a mirror topic on the target cluster",
    135: "The mirror name does not meet the naming rules",
    136: "The topic is not assigned to any mirror",
    137: "The topic is already assigned to a mirror",
    138: "The topic does not belong to the specified mirror",
    139: "The mirror topic is already paused",
    140: "The mirror topic is not paused",
    141: "The mirror topic is being removed",
    142: "The mirror still has active or non-removed topics",
    143: "Mirror authorization failed",
}
NAMES = {
    134: "READ_ONLY_TOPIC",
    135: "INVALID_MIRROR_NAME",
    136: "UNKNOWN_MIRROR",
    137: "TOPIC_ALREADY_IN_MIRROR",
    138: "TOPIC_NOT_IN_MIRROR",
    139: "MIRROR_TOPIC_ALREADY_PAUSED",
    140: "MIRROR_TOPIC_NOT_PAUSED",
    141: "MIRROR_TOPIC_BEING_REMOVED",
    142: "MIRROR_NOT_EMPTY",
    143: "MIRROR_AUTHORIZATION_FAILED",
}
REQUESTS = {
    "add": (add_topics.AddTopicsToMirrorRequest, add_topics.TopicData),
    "remove": (remove_topics.RemoveTopicsFromMirrorRequest, remove_topics.TopicData),
    "pause": (pause.PauseMirrorTopicsRequest, pause.TopicData),
    "resume": (resume.ResumeMirrorTopicsRequest, resume.TopicData),
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def mirrored(clusters: Clusters, mirror: str, topic: str) -> None:
    a, b = clusters
    create_topic(a.bootstrap_servers, topic)
    produce(a.bootstrap_servers, topic, numbered("v", 10))
    create_mirror(b.bootstrap_servers, mirror, a.bootstrap_servers)
    add(b.bootstrap_servers, mirror, topic)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, mirror)


def ask(clusters: Clusters, what: str, mirror: str, *topics: str) -> Any:
    request, data = REQUESTS[what]
    return send(clusters[1].bootstrap_servers, request(mirror_name=mirror, topics=[data(topic_name=topic) for topic in topics]))


def result(clusters: Clusters, what: str, mirror: str, topic: str) -> Errors:
    """Returns the result of a request about one topic."""
    answer = ask(clusters, what, mirror, topic)
    assert (answer.error_code, answer.error_message, [row.name for row in answer.topics]) == (0, None, [topic])
    return E.for_code(answer.topics[0].error_code)


def removed(clusters: Clusters, mirror: str, topic: str) -> None:
    remove(clusters[1].bootstrap_servers, mirror, topic)
    wait_state(clusters[1].bootstrap_servers, mirror, "STOPPED", topic=topic)


@pytest.mark.parametrize("code", list(MESSAGES), ids=[f"ERR{code}" for code in MESSAGES])
@pytest.mark.item("A3", "B31")
def test_name_and_message(code: int) -> None:
    """The messages are the KIP's, and no error is retriable."""
    error = E.for_code(code)
    assert (error.name, error.message, error.retriable) == (NAMES[code], MESSAGES[code], False)


def refusals(clusters: Clusters, topic: str) -> dict[str, Errors]:
    """Returns the answers to all requests that change a topic's data or its partitions."""
    address = clusters[1].bootstrap_servers
    rows = [delete_records.DeleteRecordsPartition(partition_index=0, offset=1)]
    records = send(
        address,
        delete_records.DeleteRecordsRequest(topics=[delete_records.DeleteRecordsTopic(name=topic, partitions=rows)], timeout_ms=9_000),
    )
    grown = [create_partitions.CreatePartitionsTopic(name=topic, count=2, assignments=None)]
    partitions = send(address, create_partitions.CreatePartitionsRequest(topics=grown, timeout_ms=9_000, validate_only=True))
    gone = send(address, delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name=topic)], timeout_ms=9_000))
    errors = produce(address, topic, ["mine"])
    assert len(partitions.results) == len(gone.responses) == 1
    return {
        "Produce": E.for_code(errors[0].code()) if errors else E.NONE,
        "DeleteRecords": E.for_code(records.topics[0].partitions[0].error_code),
        "CreatePartitions": E.for_code(partitions.results[0].error_code),
        "DeleteTopics": E.for_code(gone.responses[0].error_code),
    }


@pytest.mark.item("B30")
def test_err134_clients_change_a_mirrored_topic_in_no_way_until_it_is_stopped(clusters: Clusters) -> None:
    """Changes are refused while the topic is mirrored, paused and stopping, and allowed afterwards.

    Configs may be changed at any time; the next sync overrides them (B30).
    """
    _, b = clusters
    mirrored(clusters, "e134", "e134-t")
    read_only = dict.fromkeys(("Produce", "DeleteRecords", "CreatePartitions", "DeleteTopics"), E.READ_ONLY_TOPIC)
    assert refusals(clusters, "e134-t") == read_only
    change = alter.AlterableConfig(name="retention.ms", config_operation=0, value="77777777")
    resource = alter.AlterConfigsResource(resource_type=2, resource_name="e134-t", configs=[change])
    assert send(b.bootstrap_servers, alter.IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("e134", ["e134-t"])).all()
    wait_state(b.bootstrap_servers, "e134", "PAUSED")
    assert refusals(clusters, "e134-t") == read_only
    removed(clusters, "e134", "e134-t")
    assert refusals(clusters, "e134-t") == dict.fromkeys(read_only, E.NONE)
    wait_for("the topic to be gone", lambda: partitions_of(b.bootstrap_servers, "e134") == [])


def test_err134_a_topic_whose_source_is_gone_is_stopped_and_can_be_deleted(clusters: Clusters) -> None:
    """The topic is named `X.paused` and is STOPPED, so it can be deleted without being removed from
    the mirror first (B5, B30).
    """
    a, b = clusters
    mirrored(clusters, "e134-s", "e134-gone")
    call(a.bootstrap_servers, lambda admin: admin.delete_topics(["e134-gone"])).all()
    wait_state(b.bootstrap_servers, "e134-s", "STOPPED")
    assert refusals(clusters, "e134-gone") == dict.fromkeys(("Produce", "DeleteRecords", "CreatePartitions", "DeleteTopics"), E.NONE)
    wait_for("the topic to be gone", lambda: partitions_of(b.bootstrap_servers, "e134-s") == [])
    call(b.bootstrap_servers, lambda admin: admin.delete_mirror("e134-s"))


@pytest.mark.parametrize("version", [4, 6])
def test_err134_each_topic_of_a_request_has_its_answer(clusters: Clusters, version: int) -> None:
    """One request names a topic in no mirror, a running one, a removed and stopped one, one whose
    source is gone, and an unknown one.

    DeleteTopics gives names only (up to version 5), or names and ids.
    """
    a, b = clusters
    mirror = f"e134-{version}"
    running, stopped, gone, plain = (f"{mirror}-{what}" for what in ("running", "stopped", "gone", "plain"))
    mirrored(clusters, mirror, running)
    for name in (stopped, gone):
        create_topic(a.bootstrap_servers, name)
    create_topic(b.bootstrap_servers, plain)
    add(b.bootstrap_servers, mirror, stopped, gone)
    wait_state(b.bootstrap_servers, mirror, "MIRRORING")
    removed(clusters, mirror, stopped)
    call(a.bootstrap_servers, lambda admin: admin.delete_topics([gone])).all()
    wait_state(b.bootstrap_servers, mirror, "STOPPED", topic=gone)
    grown = [
        create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in (running, stopped, gone, plain, "nosuch")
    ]
    answer = send(b.bootstrap_servers, create_partitions.CreatePartitionsRequest(topics=grown, timeout_ms=9_000, validate_only=True))
    codes = {running: E.READ_ONLY_TOPIC, stopped: E.NONE, gone: E.NONE, plain: E.NONE, "nosuch": E.UNKNOWN_TOPIC_OR_PARTITION}
    assert {row.name: E.for_code(row.error_code) for row in answer.results} == codes and len(answer.results) == len(codes)
    ids = {name: topic.topic_id for name, topic in call(b.bootstrap_servers, lambda admin: admin.describe_topics(list(codes))).items()}
    request = delete_topics.DeleteTopicsRequest(topic_names=list(codes), timeout_ms=9_000)
    if version == 6:
        states = [delete_topics.DeleteTopicState(name=name) for name in (running, stopped, "nosuch")]
        states += [delete_topics.DeleteTopicState(name=None, topic_id=ids[name]) for name in (gone, plain)]
        request = delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=9_000)
    answer = send(b.bootstrap_servers, request, version=version)
    assert {row.name: E.for_code(row.error_code) for row in answer.responses} == codes and len(answer.responses) == len(codes)
    wait_for("the deletions", lambda: sorted(call(b.bootstrap_servers, lambda admin: admin.describe_topics(list(codes)))) == [running])


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a:b", "ü", "x" * 250, "x.paused", "x.removed", "x.paused.removed"])
@pytest.mark.item("A10")
def test_err135_names_against_the_rules(clusters: Clusters, name: str) -> None:
    """Mirror names follow the rules of topic names, and may not end in a suffix that `mirror.name`
    uses (A10).
    """
    config = [create.MirrorConfig(name="bootstrap.servers", value="127.0.0.1:1")]
    answer = send(clusters[1].bootstrap_servers, create.CreateMirrorRequest(mirror_name=name, config=config))
    assert answer.error_code == E.INVALID_MIRROR_NAME
    if name.endswith((".paused", ".removed")):
        assert answer.error_message == "Mirror name must not end with '.removed' or '.paused'"
    else:
        assert answer.error_message.startswith("Mirror name is invalid: ")


@pytest.mark.item("B12")
def test_err135_a_name_in_use(clusters: Clusters) -> None:
    """The request is refused, and the mirror that has the name stays as it is (B12)."""
    address = clusters[1].bootstrap_servers
    create_mirror(address, "e135", "127.0.0.1:1")
    config = [create.MirrorConfig(name="bootstrap.servers", value="127.0.0.1:2")]
    answer = send(address, create.CreateMirrorRequest(mirror_name="e135", config=config))
    assert (answer.error_code, answer.error_message) == (E.INVALID_MIRROR_NAME, "Mirror 'e135' already exists")
    assert {row.mirror_name: row.source_bootstrap for row in call(address, lambda admin: admin.list_mirrors())}["e135"] == "127.0.0.1:1"


@pytest.mark.item("B15")
def test_err136_of_a_topic_and_of_a_mirror(clusters: Clusters) -> None:
    """Remove, Pause and Resume answer it for a topic in no mirror. These, Add, Delete and Describe
    answer it for a mirror that does not exist (B15).
    """
    address = clusters[1].bootstrap_servers
    create_mirror(address, "e136", "127.0.0.1:1")
    create_topic(address, "e136-t")
    for what in ("remove", "pause", "resume"):
        assert result(clusters, what, "e136", "e136-t") is E.UNKNOWN_MIRROR
    for what in REQUESTS:
        answer = ask(clusters, what, "nosuch", "e136-t")
        assert (answer.error_code, answer.error_message, answer.topics) == (136, "The mirror 'nosuch' does not exist.", [])
    answer = send(address, delete_mirror.DeleteMirrorRequest(mirror_name="nosuch"))
    assert (answer.error_code, answer.error_message) == (136, "The mirror 'nosuch' does not exist.")
    answer = send(address, describe_mirrors.DescribeMirrorsRequest(mirror_names=["nosuch"]))
    assert [(row.mirror_name, row.error_code) for row in answer.mirrors] == [("nosuch", 136)]


def test_err137_err138_of_another_mirrors_topic_and_of_removed_ones(clusters: Clusters) -> None:
    """Add answers the first for a topic that is in a mirror. Remove, Pause and Resume answer the
    second for a topic that is not, or no longer, in this mirror (D6).
    """
    mirrored(clusters, "e137", "e137-t")
    create_mirror(clusters[1].bootstrap_servers, "e138", "127.0.0.1:1")
    assert result(clusters, "add", "e137", "e137-t") is E.TOPIC_ALREADY_IN_MIRROR
    assert result(clusters, "add", "e138", "e137-t") is E.TOPIC_ALREADY_IN_MIRROR
    for what in ("remove", "pause", "resume"):
        assert result(clusters, what, "e138", "e137-t") is E.TOPIC_NOT_IN_MIRROR
    removed(clusters, "e137", "e137-t")
    for mirror in ("e137", "e138"):
        assert result(clusters, "remove", mirror, "e137-t") is E.TOPIC_NOT_IN_MIRROR
    assert result(clusters, "add", "e138", "e137-t") is E.NONE


@pytest.mark.item("B13", "B14")
def test_err139_err140_err141_paused_running_and_removed(clusters: Clusters) -> None:
    """Pausing a paused topic is refused (B13), as is pausing or resuming a removed one (B14)."""
    mirrored(clusters, "e139", "e139-t")
    assert result(clusters, "resume", "e139", "e139-t") is E.MIRROR_TOPIC_NOT_PAUSED
    assert result(clusters, "pause", "e139", "e139-t") is E.NONE
    wait_state(clusters[1].bootstrap_servers, "e139", "PAUSED")
    assert result(clusters, "pause", "e139", "e139-t") is E.MIRROR_TOPIC_ALREADY_PAUSED
    removed(clusters, "e139", "e139-t")
    for what in ("pause", "resume"):
        assert result(clusters, what, "e139", "e139-t") is E.MIRROR_TOPIC_BEING_REMOVED


def test_err142_delete_of_a_mirror_with_a_topic_that_runs_is_paused_or_is_not_stopped_yet(clusters: Clusters) -> None:
    address = clusters[1].bootstrap_servers
    mirrored(clusters, "e142", "e142-t")
    wanted = (142, MESSAGES[142])

    def deleted() -> tuple[int, str | None]:
        answer = send(address, delete_mirror.DeleteMirrorRequest(mirror_name="e142"))
        return answer.error_code, answer.error_message

    assert deleted() == wanted
    assert result(clusters, "pause", "e142", "e142-t") is E.NONE
    wait_state(address, "e142", "PAUSED")
    assert deleted() == wanted
    removed(clusters, "e142", "e142-t")
    assert deleted() == (0, None)


@pytest.mark.item("B10", "B11")
def test_err142_delete_while_a_removed_topic_is_stopping(clusters: Clusters) -> None:
    """The controller sees only `X.removed`, so the broker looks up the states (B10)."""
    b = clusters[1]
    mirrored(clusters, "e142-s", "e142-st")

    def silent(server: Any) -> Any:
        bumper = server.broker.mirror.bumper

        async def no_answer(request: object) -> None:
            raise ApiException(E.REQUEST_TIMED_OUT, f"no answer to {type(request).__name__}")

        before, bumper._controller = bumper._controller, type("Silent", (), {"send": staticmethod(no_answer)})()
        return before

    controller = b.call(silent)
    remove(b.bootstrap_servers, "e142-s", "e142-st")
    wait_state(b.bootstrap_servers, "e142-s", "STOPPING")
    assert send(b.bootstrap_servers, delete_mirror.DeleteMirrorRequest(mirror_name="e142-s")).error_code == 142
    again = ask(clusters, "add", "e142-s", "e142-st")
    assert (again.error_code, again.topics) == (E.INVALID_REQUEST, []), "B11: a state in which it cannot be added refuses the request"
    b.call(lambda server: setattr(server.broker.mirror.bumper, "_controller", controller))
    wait_state(b.bootstrap_servers, "e142-s", "STOPPED")
    assert send(b.bootstrap_servers, delete_mirror.DeleteMirrorRequest(mirror_name="e142-s")).error_code == 0


@pytest.mark.item("A15")
def test_err143_comes_before_everything_but_the_feature() -> None:
    """A client without permission learns neither that a name is invalid nor that a mirror is
    unknown (A15).
    """
    config = AUTHORIZED | {"mirror.topic.num.partitions": "1"}
    with EmbeddedCluster(mirroring=True, config=config) as cluster:
        side = KmirrorSide(cluster)
        rules = [acl_of("reader", "DESCRIBE CLUSTER_MIRROR *")]
        assert side.ask(None, K.CREATE_ACLS, 3, CreateAclsRequest(creations=rules)).results[0].error_code == 0
        topics = [{"topic_name": "gone"}]
        for api_key, fields in (
            (K.CREATE_MIRROR, {"mirror_name": "x.paused"}),
            (K.ADD_TOPICS_TO_MIRROR, {"mirror_name": "nosuch", "topics": topics}),
            (K.REMOVE_TOPICS_FROM_MIRROR, {"mirror_name": "nosuch", "topics": topics}),
            (K.PAUSE_MIRROR_TOPICS, {"mirror_name": "nosuch", "topics": topics}),
            (K.RESUME_MIRROR_TOPICS, {"mirror_name": "nosuch", "topics": topics}),
            (K.DELETE_MIRROR, {"mirror_name": "nosuch"}),
        ):
            answer = side.ask("reader", api_key, 0, message_of(api_key, fields))
            assert (answer.error_code, answer.error_message) == (143, MESSAGES[143]), api_key
            assert getattr(answer, "mirror_name", fields["mirror_name"]) == fields["mirror_name"]
            assert not getattr(answer, "topics", [])
        described = side.ask("stranger", K.DESCRIBE_MIRRORS, 0, message_of(K.DESCRIBE_MIRRORS, {"mirror_names": ["nosuch"]}))
        assert [(row.mirror_name, row.error_code) for row in described.mirrors] == [("nosuch", 143)]


@pytest.mark.item("ERR35", "A15")
def test_err143_the_feature_comes_before_the_permission() -> None:
    """The order of checks is the same at the broker and at the controller (A15)."""
    unstable = {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"}
    with EmbeddedCluster(config=AUTHORIZED | unstable) as cluster:
        side = KmirrorSide(cluster)
        for key in sorted(MIRROR_API_KEYS):
            request: Any = API_TABLE[ApiKeys(key)].request()
            assert side.ask("stranger", ApiKeys(key), 0, request).error_code == E.UNSUPPORTED_VERSION, key
            if "controller" in API_TABLE[ApiKeys(key)].listeners:
                assert side.ask("stranger", ApiKeys(key), 0, request, controller=True).error_code == E.UNSUPPORTED_VERSION, key


@pytest.mark.item("B16", "ERR3", "ERR17")
def test_c20_results_of_topics_without_configs_and_of_mixed_requests(clusters: Clusters) -> None:
    """Each topic has one result, whatever it is, and internal topics cannot be in a mirror (B16,
    C20).
    """
    address = clusters[1].bootstrap_servers
    mirrored(clusters, "c20", "c20-t")
    for name in ("c20-plain", "c20-other"):
        create_topic(address, name)
    asked = ["c20-t", "c20-plain", "c20-gone", "c20-other", "__mirror_state", "c20-t"]
    for what, expected in (
        ("remove", [0, 136, 3, 136, 136]),
        ("pause", [141, 136, 3, 136, 136]),
        ("resume", [141, 136, 3, 136, 136]),
        ("add", [None, 0, 3, 0, 17]),
    ):
        if what == "add":
            wait_state(address, "c20", "STOPPED", topic="c20-t")
            expected[0] = 0
        answer = ask(clusters, what, "c20", *asked)
        assert (answer.error_code, answer.mirror_name) == (0, "c20")
        assert [(row.name, row.error_code) for row in answer.topics] == list(zip(asked[:-1], expected, strict=True)), what


@pytest.mark.item("ERR17")
def test_c20_an_internal_topic_that_only_the_source_has_is_not_created(clusters: Clusters) -> None:
    """Once, it was refused only after it had been created here with the source's id and configs.

    `__consumer_offsets` would then have been a copy of the source's.
    """
    source, address = clusters[0].bootstrap_servers, clusters[1].bootstrap_servers
    create_topic(source, "__share_group_state")
    create_mirror(address, "c20-internal", source)
    assert result(clusters, "add", "c20-internal", "__share_group_state") is E.INVALID_TOPIC_EXCEPTION
    assert "__share_group_state" not in clusters[1].call(lambda server: set(server.broker.metadata_cache.image.topics.by_name))


@pytest.mark.item("B11", "B52", "ERR42")
def test_c20_a_wrong_state_refuses_pause_for_its_topic_and_add_for_the_request(clusters: Clusters) -> None:
    """Both answer INVALID_REQUEST (B11, B52)."""
    address = clusters[1].bootstrap_servers
    create_mirror(address, "c20-w", "127.0.0.1:1")
    create_topic(address, "c20-preparing")
    add(address, "c20-w", "c20-preparing")
    wait_state(address, "c20-w", "PREPARING")
    assert result(clusters, "pause", "c20-w", "c20-preparing") is E.INVALID_REQUEST
    assert result(clusters, "add", "c20-w", "c20-preparing") is E.TOPIC_ALREADY_IN_MIRROR


@pytest.mark.item("ERR40")
def test_c20_bad_configs_write_nothing(clusters: Clusters) -> None:
    address = clusters[1].bootstrap_servers
    before = clusters[1].call(lambda server: server.broker.metadata_cache.image.configs.resources)
    for name, value in (
        ("nonsense", "x"),
        ("security.protocol", "SMOKE"),
        ("mirror.groups.include", "("),
        ("bootstrap.servers", "nowhere"),
    ):
        config = {"bootstrap.servers": "127.0.0.1:1"} | {name: value}
        rows = [create.MirrorConfig(name=key, value=text) for key, text in config.items()]
        answer = send(address, create.CreateMirrorRequest(mirror_name="c20-bad", config=rows))
        assert answer.error_code == E.INVALID_CONFIG and name in answer.error_message
    assert clusters[1].call(lambda server: server.broker.metadata_cache.image.configs.resources) == before
