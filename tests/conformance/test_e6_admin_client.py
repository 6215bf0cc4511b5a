"""The AdminClient's mirror calls on three brokers (E6): a result for each topic, descriptions
merged from all brokers, and temporary errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, call, create_topic, numbered, produce, wait_caught_up, wait_for, wait_state

from kmirror import AdminClient
from kmirror.admin.admin_requests import AdminRequests
from kmirror.admin.results import (
    ConfigOperation,
    ConfigResourceType,
    CreateMirrorOptions,
    DescribeMirrorsOptions,
    MirrorListing,
    NewTopic,
    Node,
)
from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.embedded import EmbeddedCluster
from kmirror.network.client import NetworkClient
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.messages import (
    add_topics_to_mirror,
    create_mirror,
    delete_mirror,
    describe_mirrors,
    metadata,
    pause_mirror_topics,
    remove_topics_from_mirror,
    resume_mirror_topics,
)

T = TypeVar("T")
Ask = Callable[[Callable[[AdminClient], Awaitable[T]]], T]


@pytest.fixture(scope="module")
def source() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 6)
        create_topic(cluster.bootstrap_servers, "u")
        for partition in range(6):
            produce(cluster.bootstrap_servers, "t", numbered("t", 10 + partition), partition=partition)
        yield cluster


@pytest.fixture(scope="module")
def destination() -> Iterator[EmbeddedCluster]:
    short_session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    config = FAST_MIRROR | short_session | {"mirror.topic.replication.factor": "3"}
    with EmbeddedCluster(brokers=3, mirroring=True, config=config) as cluster:
        yield cluster


@pytest.fixture
def ask(destination: EmbeddedCluster) -> Ask[Any]:
    return lambda operation: call(destination.bootstrap_servers, operation)


def refused(ask: Ask[Any], operation: Callable[[AdminClient], Awaitable[Any]]) -> Errors:
    with pytest.raises(ApiException) as caught:
        ask(operation)
    return caught.value.error


def test_adm1_adm6_adm7_create_list_delete(source: EmbeddedCluster, ask: Ask[Any]) -> None:
    servers = source.bootstrap_servers
    ask(lambda admin: admin.create_mirror("made", {"bootstrap.servers": servers}, CreateMirrorOptions(timeout_ms=10_000)))
    assert refused(ask, lambda admin: admin.create_mirror("made", {"bootstrap.servers": servers})) is Errors.INVALID_MIRROR_NAME
    assert refused(ask, lambda admin: admin.create_mirror("other", {})) is Errors.INVALID_CONFIG
    listed = wait_for("the mirror", lambda: ask(lambda admin: admin.list_mirrors()))
    assert listed == [MirrorListing("made", servers, listed[0].source_cluster_id, 0)]
    ask(lambda admin: admin.delete_mirror("made"))
    wait_for("no mirror", lambda: ask(lambda admin: admin.list_mirrors()) == [])
    assert refused(ask, lambda admin: admin.delete_mirror("made")) is Errors.UNKNOWN_MIRROR


def test_adm2_adm3_adm4_adm5_each_topic_has_its_result(source: EmbeddedCluster, destination: EmbeddedCluster, ask: Ask[Any]) -> None:
    """One that is refused does not fail the others; `all` raises it."""
    ask(lambda admin: admin.create_mirror("m", {"bootstrap.servers": source.bootstrap_servers}))
    added = ask(lambda admin: admin.add_topics_to_mirror("m", ["t", "nosuch"]))
    assert added.succeeded == ["t"]
    assert {topic: error.error for topic, error in added.failed.items()} == {"nosuch": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    with pytest.raises(ApiException):
        added.all()
    wait_state(destination.bootstrap_servers, "m", "MIRRORING")
    wanted = [
        ("pause_mirror_topics", Errors.MIRROR_TOPIC_ALREADY_PAUSED, "PAUSED"),
        ("resume_mirror_topics", Errors.MIRROR_TOPIC_NOT_PAUSED, "MIRRORING"),
        ("remove_topics_from_mirror", Errors.TOPIC_NOT_IN_MIRROR, "STOPPED"),
    ]
    for method, again, state in wanted:
        first = ask(lambda admin, method=method: getattr(admin, method)("m", ["t"]))
        assert first.errors == {"t": None}
        wait_state(destination.bootstrap_servers, "m", state)
        second = ask(lambda admin, method=method: getattr(admin, method)("m", ["t", "nosuch"]))
        assert second.errors["t"].error is again and second.errors["nosuch"].error is Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert refused(ask, lambda admin, method=method: getattr(admin, method)("nosuch", ["t"])) is Errors.UNKNOWN_MIRROR
    ask(lambda admin: admin.delete_mirror("m"))


def test_adm8_descriptions_are_merged_over_all_brokers_also_when_one_dies(
    source: EmbeddedCluster, destination: EmbeddedCluster, ask: Ask[Any]
) -> None:
    """Every broker leads some of the six partitions; the answer has each once, and after a broker
    died all of them again.
    """
    factor_three = NewTopic(
        "t", 6, 3, mirror_topic_id=call(source.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].topic_id
    )
    existing = ask(lambda admin: admin.describe_topics(["t"]))
    if existing and len(existing["t"].partitions[0].replicas) < 3:
        ask(lambda admin: admin.delete_topics(["t"])).all()
        wait_for("the topic to go", lambda: not ask(lambda admin: admin.describe_topics(["t"])))
    ask(lambda admin: admin.create_topics([factor_three]))
    ask(lambda admin: admin.create_mirror("merged", {"bootstrap.servers": source.bootstrap_servers}))
    ask(lambda admin: admin.add_topics_to_mirror("merged", ["t"])).all()
    wait_caught_up(destination.bootstrap_servers, source.bootstrap_servers, "merged")
    described = ask(lambda admin: admin.describe_mirrors(["merged"], DescribeMirrorsOptions(include_authorized_operations=True)))["merged"]
    assert [(row.topic, row.partition, row.destination_offset, row.state) for row in described.partitions] == [
        ("t", partition, 10 + partition, "MIRRORING") for partition in range(6)
    ]
    assert ask(lambda admin: admin.describe_mirrors())["merged"].mirror_name == "merged"
    assert refused(ask, lambda admin: admin.describe_mirrors(["nosuch"])) is Errors.UNKNOWN_MIRROR
    leaders = {row.leader for row in ask(lambda admin: admin.describe_topics(["t"]))["t"].partitions}
    assert len(leaders) == 3
    destination.kill_node(2)
    try:
        rows = ask(lambda admin: admin.describe_mirrors(["merged"]))["merged"].partitions
        assert [row.partition for row in rows] == list(range(6))
    finally:
        destination.start_node(2)


def test_adm9_configs_of_mirrors(source: EmbeddedCluster, ask: Ask[Any]) -> None:
    kind = ConfigResourceType.MIRROR
    ask(lambda admin: admin.create_mirror("c", {"bootstrap.servers": source.bootstrap_servers, "ssl.key.password": "secret"}))
    changes = [("mirror.groups.include", ConfigOperation.SET, "app-.*"), ("mirror.acl.include", ConfigOperation.SET, "TOPIC")]
    ask(lambda admin: admin.incremental_alter_configs(kind, "c", changes))

    def values() -> dict[str, tuple[str | None, bool]]:
        return {entry.name: (entry.value, entry.is_sensitive) for entry in ask(lambda admin: admin.describe_configs(kind, "c"))}

    expected = {
        "bootstrap.servers": (source.bootstrap_servers, False),
        "mirror.acl.include": ("TOPIC", False),
        "mirror.groups.include": ("app-.*", False),
        "ssl.key.password": (None, True),
    }
    wait_for("the configs", lambda: values() == expected)
    ask(lambda admin: admin.incremental_alter_configs(kind, "c", [("mirror.acl.include", ConfigOperation.DELETE, None)]))
    wait_for("one less", lambda: "mirror.acl.include" not in values())
    assert (kind, "c") in ask(lambda admin: admin.list_config_resources(kind))
    wrong = [("nosuch", ConfigOperation.SET, "1")]
    assert refused(ask, lambda admin: admin.incremental_alter_configs(kind, "c", wrong)) is Errors.INVALID_CONFIG
    assert refused(ask, lambda admin: admin.describe_configs(kind, "nosuch")) is Errors.UNKNOWN_MIRROR
    ask(lambda admin: admin.delete_mirror("c"))


class ScriptedRequests(AdminRequests):
    """Any broker answers with the next of `answers`; what was asked is kept."""

    def __init__(self, runtime: Runtime, answers: list[Any]) -> None:
        super().__init__(runtime, NetworkClient(runtime, "scripted"), [("127.0.0.1", 1)], timeout_ms=5_000, controllers=False)
        self.answers = answers
        self.asked: list[Any] = []

    async def ask_any(self, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        self.asked.append(request)
        return self.answers.pop(0)

    async def metadata(self, names: Any) -> Any:
        return metadata.MetadataResponse(topics=[metadata.MetadataResponseTopic(name="t", topic_id=ID_OF_T)])


class ScriptedAdmin(AdminClient):
    """An AdminClient on scripted `requests`."""

    def __init__(self, requests: ScriptedRequests) -> None:
        super().__init__(requests.runtime, [("127.0.0.1", 1)])
        self._requests = self.requests = requests


ID_OF_T = Uuid(b"0123456789abcdef")

TOPIC_CALLS = {
    "adm2": (AdminClient.add_topics_to_mirror, add_topics_to_mirror.AddTopicsToMirrorResponse, add_topics_to_mirror.TopicResult),
    "adm3": (
        AdminClient.remove_topics_from_mirror,
        remove_topics_from_mirror.RemoveTopicsFromMirrorResponse,
        remove_topics_from_mirror.TopicResult,
    ),
    "adm4": (AdminClient.pause_mirror_topics, pause_mirror_topics.PauseMirrorTopicsResponse, pause_mirror_topics.TopicResult),
    "adm5": (AdminClient.resume_mirror_topics, resume_mirror_topics.ResumeMirrorTopicsResponse, resume_mirror_topics.TopicResult),
}


@pytest.mark.parametrize("number", TOPIC_CALLS)
@pytest.mark.parametrize("error", [Errors.NOT_CONTROLLER, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR])
def test_topic_calls_are_made_again_while_a_controller_or_coordinator_moves(number: str, error: Errors) -> None:
    method, response, row = TOPIC_CALLS[number]

    async def main(runtime: Runtime) -> None:
        good = response(topics=[row(name="t"), row(name="u", error_code=Errors.TOPIC_ALREADY_IN_MIRROR)])
        admin = ScriptedAdmin(ScriptedRequests(runtime, [response(error_code=error), good]))
        result = await method(admin, "m", ["u", "t"])
        assert result.succeeded == ["t"] and result.failed["u"].error is Errors.TOPIC_ALREADY_IN_MIRROR
        assert [(topic.topic_name, topic.topic_id) for topic in admin.requests.asked[-1].topics] == [("t", ID_OF_T), ("u", Uuid.ZERO)]
        assert len(admin.requests.asked) == 2

    run(main)


def test_adm1_adm6_are_made_again_and_time_out() -> None:
    async def main(runtime: Runtime) -> None:
        moved = Errors.NOT_CONTROLLER
        answers = [create_mirror.CreateMirrorResponse(error_code=moved), create_mirror.CreateMirrorResponse()]
        admin = ScriptedAdmin(ScriptedRequests(runtime, answers))
        await admin.create_mirror("m", {"bootstrap.servers": "a:1"})
        admin.requests.answers = [delete_mirror.DeleteMirrorResponse(error_code=moved), delete_mirror.DeleteMirrorResponse()]
        await admin.delete_mirror("m")
        assert len(admin.requests.asked) == 4
        admin.requests.answers = [create_mirror.CreateMirrorResponse(error_code=moved)] * 100
        with pytest.raises(ApiException) as caught:
            await admin.create_mirror("m", {}, CreateMirrorOptions(timeout_ms=150))
        assert caught.value.error is moved

    run(main)


class Brokers(ScriptedRequests):
    """Two, each answers with the next of `answers`."""

    async def metadata(self, names: Any) -> Any:
        self.nodes = {1: Node(1, "a", 1, None), 2: Node(2, "b", 2, None)}

    async def send(self, node: Node, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        return self.answers.pop(0)


def test_adm8_a_state_that_one_broker_knows_beats_unknown_of_another() -> None:
    """While leadership moves two brokers may report a partition."""

    def answer(state: str, offset: int) -> describe_mirrors.DescribeMirrorsResponse:
        row = describe_mirrors.PartitionDetail(partition_index=0, destination_offset=offset, state=state)
        topic = describe_mirrors.TopicPartitions(topic_name="t", partitions=[row])
        return describe_mirrors.DescribeMirrorsResponse(mirrors=[describe_mirrors.DescribedMirror(mirror_name="m", topics=[topic])])

    async def main(runtime: Runtime) -> None:
        for answers in ([answer("UNKNOWN", 3), answer("MIRRORING", 9)], [answer("MIRRORING", 9), answer("UNKNOWN", 3)]):
            (row,) = (await ScriptedAdmin(Brokers(runtime, answers)).describe_mirrors(["m"]))["m"].partitions
            assert (row.state, row.destination_offset) == ("MIRRORING", 9)

    run(main)


def test_adm8_why_a_mirror_could_not_be_described_was_not_said() -> None:
    """`kafka-mirrors --describe` ended with "mirror m" and nothing else."""
    entry = describe_mirrors.DescribedMirror(mirror_name="m", error_code=Errors.MIRROR_AUTHORIZATION_FAILED)
    answer = describe_mirrors.DescribeMirrorsResponse(mirrors=[entry])
    with pytest.raises(ApiException, match="mirror m: Mirror authorization failed"):
        run(lambda runtime: ScriptedAdmin(Brokers(runtime, [answer])).describe_mirrors(["m"]))
