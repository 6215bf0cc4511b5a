"""AdminClient against scripted answers: whom it asks, what it asks again, how it reads what comes
back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmirror.admin.acls import AclBindingFilter
from kmirror.admin.admin_client import AdminClient, NoBrokerError, parse_bootstrap_servers
from kmirror.admin.admin_requests import AdminRequests, FirstContact
from kmirror.admin.groups import OffsetAndMetadata
from kmirror.admin.quotas import ClientQuotaEntity
from kmirror.admin.results import ConfigOperation, ConfigResourceType, Node
from kmirror.admin.scram import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from kmirror.cli.mirrors_groups import GroupBeyondEnd, groups_beyond
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import NetworkClient
from kmirror.network.client_errors import DisconnectError, NotConnectedError, RequestTimeoutError
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.messages import (
    alter_client_quotas,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    consumer_group_describe,
    delete_acls,
    describe_configs,
    describe_groups,
    describe_share_group_offsets,
    describe_topic_partitions,
    find_coordinator,
    incremental_alter_configs,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)

Answer = Callable[[Any], Any]


class ScriptedRequests(AdminRequests):
    """Answers by the class of a request, each from its list, the last one for ever; `asked` holds
    who was asked what.
    """

    def __init__(self, runtime: Any, answers: dict[type, list[Answer]]) -> None:
        super().__init__(runtime, NetworkClient(runtime, "scripted"), [("b", 1)], timeout_ms=5_000, controllers=False)
        self.asked: list[tuple[int | None, Any]] = []
        self._answers = answers

    def _answer(self, node: int | None, request: Any) -> Any:
        self.asked.append((node, request))
        if isinstance(request, metadata.MetadataRequest) and metadata.MetadataRequest not in self._answers:
            return cluster()
        answers = self._answers[type(request)]
        return (answers.pop(0) if len(answers) > 1 else answers[0])(request)

    async def ask_any(self, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        return self._answer(None, request)

    async def send(self, node: Node, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        return self._answer(node.port, request)


class ScriptedAdmin(AdminClient):
    """An AdminClient on `ScriptedRequests`."""

    def __init__(self, runtime: Any, answers: dict[type, list[Answer]]) -> None:
        super().__init__(runtime, [("b", 1)])
        self._requests = self.scripted = ScriptedRequests(runtime, answers)

    def requests(self, kind: type) -> list[tuple[int | None, Any]]:
        return [(node, request) for node, request in self.scripted.asked if isinstance(request, kind)]


def cluster(*topics: metadata.MetadataResponseTopic) -> metadata.MetadataResponse:
    brokers = [metadata.MetadataResponseBroker(node_id=node, host="h", port=node) for node in (1, 2)]
    return metadata.MetadataResponse(brokers=brokers, topics=list(topics))


def topic_led_by(*leaders: int) -> metadata.MetadataResponseTopic:
    rows = [metadata.MetadataResponsePartition(partition_index=index, leader_id=leader) for index, leader in enumerate(leaders)]
    return metadata.MetadataResponseTopic(name="t", partitions=rows)


def asking(answers: dict[type, list[Answer]], work: Callable[[ScriptedAdmin], Awaitable[Any]]) -> tuple[Any, ScriptedAdmin]:
    made: list[ScriptedAdmin] = []

    async def main(runtime: Any) -> Any:
        made.append(ScriptedAdmin(runtime, answers))
        return await work(made[0])

    return run(main), made[0]


def test_bootstrap_servers_are_host_and_port() -> None:
    assert parse_bootstrap_servers("a:1, [::1]:2,:3") == [("a", 1), ("::1", 2), ("localhost", 3)]
    for text in ("a", "a:0", "a:b", "a:99999"):
        with pytest.raises(KmirrorError, match="is not host:port"):
            parse_bootstrap_servers(text)


def test_partitions_are_described_page_by_page() -> None:
    def page(name: str, indexes: list[int], cursor: tuple[str, int] | None) -> Answer:
        rows = [describe_topic_partitions.DescribeTopicPartitionsResponsePartition(partition_index=index) for index in indexes]
        topic = describe_topic_partitions.DescribeTopicPartitionsResponseTopic(name=name, partitions=rows)
        following = cursor and describe_topic_partitions.DescribeTopicPartitionsResponseCursor(
            topic_name=cursor[0], partition_index=cursor[1]
        )
        return lambda request: describe_topic_partitions.DescribeTopicPartitionsResponse(topics=[topic], next_cursor=following)

    pages = [page("a", [0, 1], ("b", 0)), page("b", [0], ("b", 1)), page("b", [1], None)]
    kind = describe_topic_partitions.DescribeTopicPartitionsRequest
    described, admin = asking({kind: pages}, lambda admin: admin.describe_topic_partitions(["b", "a"], partitions_per_response=2))
    assert {name: [row.partition for row in facts.partitions] for name, facts in described.items()} == {"a": [0, 1], "b": [0, 1]}
    assert [[topic.name for topic in request.topics] for _, request in admin.requests(kind)] == [["a", "b"], ["b"], ["b"]]
    assert [request.cursor and request.cursor.partition_index for _, request in admin.requests(kind)] == [None, 0, 1]


def test_leaders_are_asked_and_asked_again_when_they_moved() -> None:
    def offsets(code: int) -> Answer:
        def answer(request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
            rows = [
                list_offsets.ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=code, offset=row.partition_index)
                for row in request.topics[0].partitions
            ]
            return list_offsets.ListOffsetsResponse(topics=[list_offsets.ListOffsetsTopicResponse(name="t", partitions=rows)])

        return answer

    leaders = [lambda request: cluster(topic_led_by(1, 1)), lambda request: cluster(topic_led_by(1, 2))]
    answers = {
        metadata.MetadataRequest: leaders,
        list_offsets.ListOffsetsRequest: [offsets(Errors.NOT_LEADER_OR_FOLLOWER), offsets(0), offsets(Errors.TOPIC_AUTHORIZATION_FAILED)],
    }
    names = [TopicPartition("t", 0), TopicPartition("t", 1)]
    found, admin = asking(answers, lambda admin: admin.list_offsets_by_spec(dict.fromkeys(names, -1)))
    assert found[names[0]].offset == 0 and found[names[1]].error is Errors.TOPIC_AUTHORIZATION_FAILED
    assert [node for node, _ in admin.requests(list_offsets.ListOffsetsRequest)] == [1, 1, 2]


@pytest.mark.parametrize(
    "question",
    [
        lambda admin: admin.list_offsets([TopicPartition("t", 0)]),
        lambda admin: admin.fetch_records(TopicPartition("t", 0), 0),
        lambda admin: admin.end_offset_of_epoch(TopicPartition("t", 0), 1),
        lambda admin: admin.describe_topics(["t"]),
    ],
)
def test_a_topic_that_may_not_be_described_was_waited_for(question: Callable[[AdminClient], Awaitable[Any]]) -> None:
    """As if it were new: a minute for each question.

    And the error was the topic's name, without what is wrong with it.
    """
    refused = metadata.MetadataResponseTopic(name="t", error_code=Errors.TOPIC_AUTHORIZATION_FAILED)
    asked: list[Any] = []

    def answer(request: Any) -> metadata.MetadataResponse:
        asked.append(request)
        return cluster(refused)

    with pytest.raises(ApiException) as raised:
        asking({metadata.MetadataRequest: [answer]}, question)
    assert raised.value.message == "topic t: Topic authorization failed."
    assert raised.value.error is Errors.TOPIC_AUTHORIZATION_FAILED and len(asked) == 1


def test_a_topic_that_is_deleted_between_two_questions_was_a_key_error() -> None:
    there, gone = cluster(topic_led_by(1)), cluster(metadata.MetadataResponseTopic(name="t", error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION))
    refused = cluster(metadata.MetadataResponseTopic(name="t", error_code=Errors.TOPIC_AUTHORIZATION_FAILED))
    answers: dict[type, list[Answer]] = {metadata.MetadataRequest: [lambda request: there, lambda request: gone, lambda request: refused]}
    with pytest.raises(ApiException, match="Topic authorization failed"):
        asking(answers, lambda admin: admin.fetch_records(TopicPartition("t", 0), 0))


def test_a_bootstrap_server_that_answers_nothing_hid_the_others() -> None:
    """A source with one host switched off could not be reversed, or drained."""

    class SwitchedOff:
        async def send(self, host: str, port: int, request: Any, *, timeout_ms: int, max_version: int | None) -> Any:
            if host == "off":
                raise NotConnectedError("no connection to off:1 in time")
            return "answer"

    async def ask(runtime: Any, *hosts: str) -> Any:
        client: Any = SwitchedOff()
        requests = AdminRequests(runtime, client, [(host, 1) for host in hosts], timeout_ms=5_000, controllers=False)
        return await requests.ask_any(metadata.MetadataRequest())

    assert run(lambda runtime: ask(runtime, "off", "on")) == "answer"
    with pytest.raises(ApiException) as raised:
        run(lambda runtime: ask(runtime, "off"))
    assert (raised.value.error, raised.value.message) == (Errors.REQUEST_TIMED_OUT, "no connection to off:1 in time")


def test_a_cluster_that_is_about_to_listen_is_waited_for_once() -> None:
    """Kafka's tools wait for a broker that starts; ours gave up at the first refusal."""
    told: list[str] = []

    class Starting:
        def __init__(self, refusals: int) -> None:
            self.refusals = refusals

        async def send(self, host: str, port: int, request: Any, *, timeout_ms: int, max_version: int | None) -> Any:
            self.refusals -= 1
            if self.refusals >= 0:
                raise DisconnectError("cannot connect to a:1: Connection refused")
            return "answer"

    def requests(runtime: Any, client: Any, wait_ms: int | None) -> AdminRequests:
        waits = None if wait_ms is None else FirstContact(wait_ms, lambda error: told.append(str(error)))
        servers = [("a", 1)]
        return AdminRequests(runtime, client, servers, timeout_ms=5_000, controllers=False, first_contact=waits)

    async def ask(runtime: Any, refusals: int, wait_ms: int | None) -> Any:
        return await requests(runtime, Starting(refusals), wait_ms).ask_any(metadata.MetadataRequest())

    refused = "no broker could be reached: cannot connect to a:1: Connection refused"
    assert run(lambda runtime: ask(runtime, 3, 60_000)) == "answer"
    assert told == [refused]
    for refusals, wait_ms in ((1, None), (1_000_000, 0)):
        with pytest.raises(NoBrokerError, match=refused):
            run(lambda runtime, r=refusals, w=wait_ms: ask(runtime, r, w))

    async def lost(runtime: Any) -> None:
        client = Starting(0)
        known = requests(runtime, client, 60_000)
        await known.ask_any(metadata.MetadataRequest())
        client.refusals = 1
        await known.ask_any(metadata.MetadataRequest())

    with pytest.raises(NoBrokerError, match=refused):
        run(lost)
    assert told == [refused] * 2, "a broker that was there and is gone is not waited for"


def test_a_broker_that_its_peers_cannot_reach_was_asked_again_and_again() -> None:
    """One that is cut off from the coordinator answered each attempt until the time was up."""
    asked: list[str] = []

    class CutOff:
        async def send(self, host: str, port: int, request: Any, *, timeout_ms: int, max_version: int | None) -> Any:
            asked.append(host)
            if host == "two":
                raise RequestTimeoutError("no answer of two in time")
            return host

    async def attempt(requests: AdminRequests) -> str:
        host: str = await requests.ask_any(metadata.MetadataRequest())
        if host == "one":
            raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)
        return host

    async def ask(runtime: Any) -> list[str]:
        client: Any = CutOff()
        requests = AdminRequests(runtime, client, [("one", 1)], timeout_ms=5_000, controllers=False)
        requests.nodes = {number: Node(number, host, 1, None) for number, host in enumerate(("one", "two", "three"), 1)}
        first = await requests.retry(lambda: attempt(requests))
        return [first, await requests.ask_any(metadata.MetadataRequest())]

    assert run(ask) == ["three", "three"]
    assert asked == ["one", "two", "three", "three"]


def coordinators(*nodes: int) -> list[Answer]:
    def at(node: int) -> Answer:
        def answer(request: find_coordinator.FindCoordinatorRequest) -> find_coordinator.FindCoordinatorResponse:
            rows = [find_coordinator.Coordinator(key=key, node_id=node, host="h", port=node) for key in request.coordinator_keys]
            return find_coordinator.FindCoordinatorResponse(coordinators=rows)

        return answer

    return [at(node) for node in nodes]


def test_a_group_that_is_not_of_the_new_protocol_is_described_as_a_classic_one() -> None:
    assignment = bytes.fromhex("0000" + "00000001" + "0001" + b"t".hex() + "00000002" + "00000000" + "00000001" + "ffffffff")

    def newer(request: consumer_group_describe.ConsumerGroupDescribeRequest) -> Any:
        rows = [consumer_group_describe.DescribedGroup(group_id=name, error_code=Errors.GROUP_ID_NOT_FOUND) for name in request.group_ids]
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=rows)

    def classic(request: describe_groups.DescribeGroupsRequest) -> Any:
        member = describe_groups.DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=assignment)
        group = describe_groups.DescribedGroup(
            group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
        )
        missing = describe_groups.DescribedGroup(group_id="no", error_code=Errors.GROUP_ID_NOT_FOUND, error_message="Group no not found.")
        return describe_groups.DescribeGroupsResponse(groups=[group, missing])

    answers = {
        find_coordinator.FindCoordinatorRequest: coordinators(2),
        consumer_group_describe.ConsumerGroupDescribeRequest: [newer],
        describe_groups.DescribeGroupsRequest: [classic],
    }
    found, admin = asking(answers, lambda admin: admin.describe_consumer_groups(["g", "no"]))
    assert found["g"].type == "Classic" and found["g"].members[0].assignment == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert found["g"].coordinator.id == 2
    assert found["no"].error is Errors.GROUP_ID_NOT_FOUND and found["no"].message == "Group no not found."
    assert {node for node, request in admin.scripted.asked if not isinstance(request, find_coordinator.FindCoordinatorRequest)} == {2}


@pytest.mark.parametrize("partitions", [None, [TopicPartition("t", 1)]])
def test_the_offsets_of_a_group_before_kafka_3_are_asked_for_alone(partitions: list[TopicPartition] | None) -> None:
    """MirrorMaker 2 had no checkpoints of a source of Kafka 2.8."""

    def coordinator(request: find_coordinator.FindCoordinatorRequest) -> find_coordinator.FindCoordinatorResponse:
        if request.coordinator_keys:
            raise ApiException(Errors.UNSUPPORTED_VERSION)
        return find_coordinator.FindCoordinatorResponse(node_id=2, host="h", port=2)

    def committed(request: offset_fetch.OffsetFetchRequest) -> offset_fetch.OffsetFetchResponse:
        if request.groups:
            raise ApiException(Errors.UNSUPPORTED_VERSION)
        row = offset_fetch.OffsetFetchResponsePartition(partition_index=1, committed_offset=7, metadata="m")
        return offset_fetch.OffsetFetchResponse(topics=[offset_fetch.OffsetFetchResponseTopic(name="t", partitions=[row])])

    answers = {find_coordinator.FindCoordinatorRequest: [coordinator], offset_fetch.OffsetFetchRequest: [committed]}
    found, admin = asking(answers, lambda admin: admin.list_consumer_group_offsets("g", partitions))
    assert found == {TopicPartition("t", 1): OffsetAndMetadata(7, "m")}
    node, asked = admin.requests(offset_fetch.OffsetFetchRequest)[-1]
    topics = None if partitions is None else [offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[1])]
    assert (node, asked.group_id, asked.topics) == (2, "g", topics)


def test_a_coordinator_that_moved_is_looked_for_again() -> None:
    def committed(code: int) -> Answer:
        row = offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = offset_commit.OffsetCommitResponseTopic(name="t", partitions=[row])
        return lambda request: offset_commit.OffsetCommitResponse(topics=[topic])

    answers = {
        find_coordinator.FindCoordinatorRequest: coordinators(1, 2),
        offset_commit.OffsetCommitRequest: [committed(Errors.NOT_COORDINATOR), committed(Errors.UNKNOWN_MEMBER_ID)],
    }
    changes = {TopicPartition("t", 0): OffsetAndMetadata(5)}
    results, admin = asking(answers, lambda admin: admin.alter_consumer_group_offsets("g", changes))
    assert results[TopicPartition("t", 0)].error is Errors.UNKNOWN_MEMBER_ID
    assert [node for node, _ in admin.requests(offset_commit.OffsetCommitRequest)] == [1, 2]


def test_what_only_one_broker_knows_is_asked_of_it() -> None:
    described = describe_configs.DescribeConfigsResponse(results=[describe_configs.DescribeConfigsResult()])
    altered = incremental_alter_configs.IncrementalAlterConfigsResponse()
    answers = {
        describe_configs.DescribeConfigsRequest: [lambda request: described],
        incremental_alter_configs.IncrementalAlterConfigsRequest: [lambda request: altered],
    }

    async def work(admin: ScriptedAdmin) -> None:
        for kind, name in ((ConfigResourceType.BROKER, "2"), (ConfigResourceType.BROKER, ""), (ConfigResourceType.TOPIC, "2")):
            await admin.describe_configs(kind, name)
        await admin.incremental_alter_configs(ConfigResourceType.BROKER_LOGGER, "1", [("root", ConfigOperation.SET, "INFO")])
        with pytest.raises(NoBrokerError, match="there is no broker 9 in the cluster"):
            await admin.describe_configs(ConfigResourceType.BROKER, "9")

    _, admin = asking(answers, work)
    assert [node for node, _ in admin.requests(describe_configs.DescribeConfigsRequest)] == [2, None, None]
    assert [node for node, _ in admin.requests(incremental_alter_configs.IncrementalAlterConfigsRequest)] == [1]


def test_passwords_travel_salted_and_hashed() -> None:
    salt = bytes(range(16))
    answers = {
        alter_user_scram_credentials.AlterUserScramCredentialsRequest: [
            lambda request: alter_user_scram_credentials.AlterUserScramCredentialsResponse()
        ]
    }
    changes = [
        UserScramCredentialUpsertion("user", ScramMechanism.SCRAM_SHA_256, b"pencil", 4096, salt),
        UserScramCredentialUpsertion("user", ScramMechanism.SCRAM_SHA_512, b"pencil"),
        UserScramCredentialDeletion("other", ScramMechanism.SCRAM_SHA_512),
    ]
    _, admin = asking(answers, lambda admin: admin.alter_user_scram_credentials(changes))
    ((_, request),) = admin.scripted.asked
    first, second = request.upsertions
    assert first.salted_password == hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096) and first.salt == salt
    assert len(second.salt) == 32 and len(second.salted_password) == 64 and second.iterations == 4096
    assert [(row.name, row.mechanism) for row in request.deletions] == [("other", 2)]


def test_quotas_are_set_and_removed() -> None:
    refused = alter_client_quotas.AlterClientQuotasResponseEntryData(error_code=Errors.INVALID_REQUEST, error_message="no")
    answers = {
        alter_client_quotas.AlterClientQuotasRequest: [
            lambda request: alter_client_quotas.AlterClientQuotasResponse(entries=[]),
            lambda request: alter_client_quotas.AlterClientQuotasResponse(entries=[refused]),
        ]
    }
    entity = ClientQuotaEntity.of({"user": None, "client-id": "c"})

    async def work(admin: ScriptedAdmin) -> None:
        await admin.alter_client_quotas(entity, {"producer_byte_rate": 5.0, "request_percentage": None})
        with pytest.raises(ApiException, match="no"):
            await admin.alter_client_quotas(entity, {})

    _, admin = asking(answers, work)
    (entry,) = admin.scripted.asked[0][1].entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("client-id", "c"), ("user", None)]
    assert [(row.key, row.value, row.remove) for row in entry.ops] == [
        ("producer_byte_rate", 5.0, False),
        ("request_percentage", 0.0, True),
    ]


def test_moves_between_log_dirs_go_to_their_brokers() -> None:
    def moved(request: alter_replica_log_dirs.AlterReplicaLogDirsRequest) -> Any:
        rows = [
            alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=0)
            for move in request.dirs
            for topic in move.topics
            for partition in topic.partitions
        ]
        return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
            results=[alter_replica_log_dirs.AlterReplicaLogDirTopicResult(topic_name="t", partitions=rows)]
        )

    wanted = {(TopicPartition("t", 0), 1): "/a", (TopicPartition("t", 1), 1): "/b", (TopicPartition("t", 0), 2): "/a"}
    answers = {alter_replica_log_dirs.AlterReplicaLogDirsRequest: [moved]}
    results, admin = asking(answers, lambda admin: admin.alter_replica_log_dirs(wanted))
    assert results == dict.fromkeys(wanted)
    sent = admin.requests(alter_replica_log_dirs.AlterReplicaLogDirsRequest)
    assert [(node, [move.path for move in request.dirs]) for node, request in sent] == [(1, ["/a", "/b"]), (2, ["/a"])]


def test_a_filter_that_fails_is_raised() -> None:
    failed = delete_acls.DeleteAclsFilterResult(error_code=Errors.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    answers = {delete_acls.DeleteAclsRequest: [lambda request: delete_acls.DeleteAclsResponse(filter_results=[failed])]}
    with pytest.raises(ApiException, match="No Authorizer is configured."):
        asking(answers, lambda admin: admin.delete_acls([AclBindingFilter()]))


def test_a_share_partition_without_leader_does_not_hide_the_others() -> None:
    """A failover with a dead broker reports group offsets beyond the log end (C32).

    Once, the report failed after all retries because of a partition of some other topic.
    """
    module = describe_share_group_offsets
    rows = [
        module.DescribeShareGroupOffsetsResponsePartition(0, start_offset=12),
        module.DescribeShareGroupOffsetsResponsePartition(1, error_code=Errors.LEADER_NOT_AVAILABLE),
    ]
    described = module.DescribeShareGroupOffsetsResponseGroup(
        group_id="g", topics=[module.DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=rows)]
    )
    listed = list_groups.ListedGroup(group_id="g", protocol_type="share", group_state="Empty", group_type="share")
    answers: dict[type, list[Answer]] = {
        list_groups.ListGroupsRequest: [lambda request: list_groups.ListGroupsResponse(groups=[listed])],
        find_coordinator.FindCoordinatorRequest: coordinators(2),
        module.DescribeShareGroupOffsetsRequest: [lambda request: module.DescribeShareGroupOffsetsResponse(groups=[described])],
    }
    ends = {TopicPartition("t", 0): 8, TopicPartition("t", 1): 8}
    found, admin = asking(answers, lambda admin: groups_beyond(admin, ends))
    assert found == [GroupBeyondEnd("g", TopicPartition("t", 0), 12, 8, True)]
    assert len(admin.requests(module.DescribeShareGroupOffsetsRequest)) == 1
